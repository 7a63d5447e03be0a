"""The adapter for TRL against the real server, called as TRL's GRPOTrainer calls it."""

import inspect
import io
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
import requests
from env_runtime.episode.samples import sample_arguments
from env_runtime.errors import RolloutError
from env_runtime.evaluation.client import Client, ClientSession
from env_runtime.evaluation.policies import solve
from env_runtime.trainers import trl
from pydantic import BaseModel, Field

from .support import (
    PNG,
    ROW,
    Calculator,
    Camera,
    Picture,
    Plain,
    Sum,
    refusal,
    row_of,
    rows_file,
)


@pytest.fixture(scope="module")
def made(url) -> type:
    return trl.environment(url)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """The column `row` of the dataset."""
    return [row["row"] for row in trl.dataset_rows()]


@pytest.fixture
def environment(made, texts) -> Any:
    """An environment with an episode of the first row."""
    environment = made()
    environment.reset(row=texts[0])
    return environment


@pytest.fixture
def tool(tools) -> dict[str, Any]:
    return tools[0]


def call(environment: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Call a tool as TRL does, by its listing of the class."""
    listed = dict(inspect.getmembers(type(environment), inspect.isfunction))
    assert name in listed
    return getattr(environment, name)(**arguments)


def text(result: Any) -> str:
    """The `output` that the model reads in a tool's result."""
    if isinstance(result, list):
        *_, block = result
        assert block["type"] == "text"
        result = block["text"]
    return json.loads(result)["output"]


def test_trl_finds_the_tools_and_nothing_else(made, tools):
    public = {
        name
        for name, _ in inspect.getmembers(made, inspect.isfunction)
        if not name.startswith("_")
    }
    assert public == {"reset", "get_reward", *(tool["name"] for tool in tools)}


def test_the_oracle_earns_all_and_nobody_else(made, texts, rows, tools):
    winner, loser = made(), made()
    assert winner.reset(prompt=[], row=texts[0]) is None
    loser.reset(row=texts[0])  # a session of its own: the winner's calls are not its
    for name, arguments in solve(rows[0], tools):
        call(winner, name, arguments)
    assert (winner.get_reward(), loser.get_reward()) == (1.0, 0.0)
    winner.reset(row=texts[-1])  # TRL uses its environments again
    assert winner.get_reward() == 0.0


def test_each_environment_has_one_session(made, texts, served):
    environments = [made(), made()]
    for row in (texts[0], texts[-1]):  # what was not graded is closed
        for environment in environments:
            environment.reset(row=row)
        assert len(served.sessions) == 2
    for environment in environments:
        environment.get_reward()
    assert not served.sessions


def test_the_trajectory_that_is_graded(made, texts, tool, rows, monkeypatch):
    posted = {}
    post = ClientSession.post

    def recorded(self, path, body):
        posted[path] = body
        return post(self, path, body)

    monkeypatch.setattr(ClientSession, "post", recorded)
    environment = made()
    environment.reset(row=texts[0])
    output = text(call(environment, tool["name"], sample_arguments(tool)))
    environment.get_reward()
    assert posted["/seed_session"] == rows[0]
    assert rows[0].items() <= posted["/verify"].items()
    called, result, *_ = posted["/verify"]["response"]["output"]
    assert called["name"] == tool["name"]
    assert json.loads(called["arguments"]) == sample_arguments(tool)
    assert called["call_id"] == result["call_id"]
    assert json.loads(result["output"])["output"] == output


def test_the_model_reads_its_mistakes(environment, tools):
    for tool in tools:
        for name in tool["parameters"]["properties"]:  # none takes an object
            mistake = {**sample_arguments(tool), name: {}}
            output = text(call(environment, tool["name"], mistake))
            assert output.startswith("error: ")
            assert name in output
        for name in tool["parameters"]["required"]:
            mistake = sample_arguments(tool)
            del mistake[name]
            output = text(call(environment, tool["name"], mistake))
            assert output == f"error: 422: {name}: Field required"
    assert environment.get_reward() == 0.0


@pytest.fixture
def broken(monkeypatch) -> set[str]:
    """The paths that the server no longer answers."""
    paths: set[str] = set()
    request = requests.Session.request

    def unreliable(self, method, url, **options):
        if any(url.endswith(path) for path in paths):
            raise requests.ConnectionError
        return request(self, method, url, **options)

    monkeypatch.setattr(requests.Session, "request", unreliable)
    return paths


def test_a_tool_that_the_server_fails_leaves_the_sample_out(
    environment, texts, tool, broken, caplog
):
    broken.add(f"/{tool['name']}")
    with pytest.raises(RolloutError, match="no server answers at"):
        call(environment, tool["name"], sample_arguments(tool))
    broken.clear()
    call(environment, tool["name"], sample_arguments(tool))
    assert environment.get_reward() is None
    assert f"has no reward: {tool['name']}: no server answers at" in caplog.text
    environment.reset(row=texts[0])
    assert environment.get_reward() == 0.0


@pytest.mark.parametrize("path", ["/seed_session", "/verify"])
def test_a_server_that_is_gone_ends_the_training(made, texts, broken, path):
    environment = made()
    broken.add(path)
    with pytest.raises(RolloutError, match="no server answers at"):
        environment.reset(row=texts[0])
        environment.get_reward()
    broken.clear()
    with pytest.raises(RolloutError, match="nothing to grade"):
        environment.get_reward()
    environment.reset(row=texts[0])
    assert environment.get_reward() == 0.0


def test_a_failed_environment_leaves_the_sample_out(environment, monkeypatch, caplog):
    fetch = ClientSession.fetch

    def masked(self, method, path, body=None):
        answer = fetch(self, method, path, body)
        return {**answer, "mask_sample": True, "failure_reason": "the disk is full"}

    monkeypatch.setattr(ClientSession, "fetch", masked)
    assert environment.get_reward() is None
    assert "a rollout has no reward: the disk is full" in caplog.text


def test_a_call_without_a_session_is_refused(made, tool, served):
    with pytest.raises(RolloutError, match=r"call reset\(row\) first"):
        call(made(), tool["name"], sample_arguments(tool))
    assert not served.sessions


def test_images_reach_a_vision_model(url_of):
    environment = trl.environment(url_of(Camera))()
    environment.reset(row=json.dumps(ROW))
    shown, said = call(environment, "look", {})
    assert environment.get_reward() == 0.0
    assert (shown["type"], said["type"]) == ("image", "text")
    assert shown["image"].size == (1, 1)
    assert json.loads(said["text"]) == {"output": "A click."}
    assert PNG not in said["text"]


class Caller:
    """A caller who shows a picture, and thanks for it. The class replies."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self.heard: list[str] = []

    def reply(self, answer: str) -> str | Picture | None:
        self.heard.append(answer)
        if "dog" in answer:
            return None
        return Picture("What is this?", PNG) if "see" in answer else "Hello."

    def reward(self, answer: str) -> float:
        return float(answer == self.heard[-1] == "A dog.")


def test_a_model_talks_with_a_tool(url_of):
    """TRL's episodes end at the first message without a call."""
    url = url_of(Caller)
    episode = trl.environment(url)()
    episode.reset(json.dumps(ROW))
    for text in ("", "<think>A dog.</think>"):
        assert episode.say(text=text) == "error: the text is empty"
    assert episode.say(text="Hm.") == "Hello."
    image, text = episode.say(text="May I see it?")
    assert (image["type"], text) == ("image", {"type": "text", "text": "What is this?"})
    assert episode.say(text="A dog.") == "The episode is over."
    roles = [item["role"] for item in episode._episode.output]
    assert roles == ["assistant", "user", "assistant", "user", "assistant"]
    assert episode.get_reward() == 1.0
    assert "=environment(url) alone" in refusal(RolloutError, trl.answer_reward, url)


def test_a_class_that_talks_has_no_say_of_its_own(url_of):
    class Named(Caller):
        def say(self, text: str) -> str: ...  # type: ignore

    with pytest.raises(RolloutError, match="rename the class's tool"):
        trl.environment(url_of(Named))


def test_an_image_that_cannot_be_read(monkeypatch, environment, tool):
    def request(self, method, path, json=None):
        response = requests.Response()
        response.status_code = 200
        response.raw = io.BytesIO(b'{"output": "Look.", "image": "data:image/png,AA"}')
        return response

    with monkeypatch.context() as patched:
        patched.setattr(ClientSession, "request", request)
        with pytest.raises(RolloutError, match="image cannot be read"):
            call(environment, tool["name"], sample_arguments(tool))
    assert environment.get_reward() is None


class Typed(Plain):
    def act(
        self,
        text: str,
        number: int,
        ratio: float,
        sure: bool,
        mapping: dict[str, Any],
        anything: Any,
        numbers: list[int],
        things: list[Any],
        choice: Literal["a", 1, True],
        only: Literal["a"],
        pair: tuple[int, str],
        pairs: list[tuple[int, str]],
        single: tuple[int],
        maybe: str | None = None,
        count: int = 3,
    ) -> str:
        """Act.

        Args:
            text: The text. Returns: nothing.
        """
        return text


def test_signatures_are_the_server_s(url_of):
    method = trl.environment(url_of(Typed))().act
    parameters = inspect.signature(method).parameters
    assert method.__name__ == "act"
    assert {name: each.annotation for name, each in parameters.items()} == {
        "text": str,
        "number": int,
        "ratio": float,
        "sure": bool,
        "mapping": dict,
        "anything": Any,
        "numbers": list[int],
        "things": list[Any],
        "choice": Literal["a", 1, True],
        "only": Literal["a"],
        "pair": tuple[int, str],
        "pairs": list[tuple[int, str]],
        "single": list[int],
        "maybe": str | None,
        "count": int,
    }
    defaults = {name: each.default for name, each in parameters.items()}
    given = {"maybe": None, "count": 3}
    assert defaults == dict.fromkeys(parameters, inspect.Parameter.empty) | given
    description, *lines = inspect.getdoc(method).splitlines()
    assert description == "Act."
    # A second `Returns:` would end the parameters' section for get_json_schema.
    assert lines[1:3] == ["Args:", "    text: The text. Returns nothing."]
    assert [line.partition(":")[0].strip() for line in lines[2:]] == [*parameters]


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Owner(Plain):
    def act(self, pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> str:
        """Act."""
        return pet.kind


def test_no_description_refers_to_parts_that_it_lacks(url_of):
    text = inspect.getdoc(trl.environment(url_of(Owner))().act) or ""
    assert '"discriminator": {"propertyName": "kind"}' in text
    assert '"const": "cat"' in text and "#/" not in text


@pytest.mark.parametrize("name", ["reset", "get_reward", "_hidden"])
def test_a_tool_that_trl_would_hide_is_refused(monkeypatch, tool, name):
    monkeypatch.setattr(Client, "tools", lambda self: [{**tool, "name": name}])
    with pytest.raises(RolloutError, match=name):
        trl.environment()


def test_dataset_rows(rows):
    made = trl.dataset_rows()
    assert [json.loads(row.pop("row")) for row in made] == rows
    assert {key for row in made for key in row} == {"prompt"}


def dataset(folder, **params):
    return trl.dataset_rows(rows_file(folder, {"responses_create_params": params}))


TYPED = {"type": "message", "role": "user", "content": [{"type": "input_text"}]}
TYPED["content"][0]["text"] = "Go."
SAID = {"role": "assistant", "content": "Where?"}


@pytest.mark.parametrize(
    ("params", "prompt"),
    [
        ({}, {"user": "Go."}),
        ({"instructions": "Be brief."}, {"system": "Be brief.", "user": "Go."}),
        ({"input": [TYPED, SAID]}, {"user": "Go.", "assistant": "Where?"}),
    ],
)
def test_prompts(tmp_path, params, prompt):
    [row] = dataset(tmp_path, **{"input": "Go.", **params})
    said = [(said["role"], said["content"]) for said in row["prompt"]]
    assert said == [*prompt.items()]


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]},
        {**TYPED, "content": [*TYPED["content"], {"type": "x"}]},
        {"type": "function_call", "call_id": "1", "name": "x", "arguments": "{}"},
        {"type": "reasoning", "summary": []},
    ],
)
def test_a_prompt_that_is_more_than_text_is_refused(tmp_path, item):
    with pytest.raises(RolloutError, match=r"rows\.jsonl, row 1: .* text only"):
        dataset(tmp_path, input=[item])


class Fragile(Sum):
    def reward(self, answer: str) -> float:
        if answer == "offline":
            raise ConnectionError("the grader does not answer")
        assert answer != "broken"
        return super().reward(answer)


@pytest.fixture
def ask(url_of) -> Callable[..., list[float | None]]:
    """Grades pairs of `a` and a completion, as GRPOTrainer calls a reward function."""
    reward = trl.answer_reward(url_of(Fragile))

    def grades(*pairs: tuple[int, str | None]) -> list[float | None]:
        return reward(
            prompts=[[{"role": "user", "content": "?"}] for _ in pairs],
            completions=[[{"role": "assistant", "content": text}] for _, text in pairs],
            completion_ids=[[1] for _ in pairs],
            row=[json.dumps(row_of(a=a)) for a, _ in pairs],
            trainer_state=None,
        )

    return grades


def test_an_answer_is_graded_by_its_row(ask):
    grades = ask((4, "5"), (4, "4"), (3, "4"), (3, "5"), (3, ""), (3, None))
    assert grades == [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("completion", "reward"),
    [
        ("<think>Is it 7?</think>\n5", 1.0),
        ("Is it 7?</think>5", 1.0),  # where the prompt ends with <think>
        ("<think> 5 </think> 7", 0.0),
        ("<think> 5", 0.0),
    ],
)
def test_thinking_does_not_count(ask, completion, reward):
    assert ask((4, completion)) == [reward]


def test_an_answer_that_no_grader_got_is_left_out(ask, caplog):
    assert ask((1, "broken"), (1, "offline"), (1, "2")) == [0.0, None, 1.0]
    assert "a rollout has no reward: " in caplog.text


def test_answers_need_a_server_that_grades(ask, broken):
    broken.add("/verify")
    with pytest.raises(RolloutError, match="no server answers at"):
        ask((1, "2"))


def test_an_answer_after_tool_calls(url_of):
    """TRL asks the function first, then each environment, and adds up what they say."""
    url = url_of(Calculator)
    made, reward, row = trl.environment(url), trl.answer_reward(url), row_of(a=4)
    called = {"role": "assistant", "tool_calls": []}
    seen = {"role": "tool", "name": "add", "content": "5"}

    def play(calls: int, *completion: dict[str, Any]) -> list[float | None]:
        environment = made()
        environment.reset(row=json.dumps(row))
        for _ in range(calls):
            assert text(call(environment, "add", {"a": 4, "b": 1})) == "5"
        [answered] = reward(
            completions=[list(completion)],
            row=[json.dumps(row)],
            environments=[environment],
        )
        return [answered, environment.get_reward()]

    def said(words: str) -> dict[str, str]:
        return {"role": "assistant", "content": words}

    assert play(1, called, seen, said("5")) == [1.0, None]
    assert play(1, called, seen, said("6")) == [0.0, None]
    assert play(0, said("5")) == [0.0, None]
    assert play(1, called, seen) == [0.0, None]  # no answer: the last text is a tool's


def test_the_function_needs_the_environment(url, texts, url_of):
    reward = trl.answer_reward(url)
    completion = [{"role": "assistant", "content": "5"}]
    with pytest.raises(RolloutError, match=r"has tools: give .* environment_factory="):
        reward(completions=[completion], row=texts[:1])
    with pytest.raises(RolloutError, match=r"has no tools: .*reward_funcs=answer_rew"):
        trl.environment(url_of(Sum))


def test_no_server(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        closed = f"http://127.0.0.1:{listening.getsockname()[1]}"
    monkeypatch.setenv("ENV_URL", closed)
    with pytest.raises(RolloutError, match=f"no server answers at {closed}"):
        trl.environment()


def test_trl_needs_nothing_but_requests():
    """TRL's venv has neither NeMo Gym nor the environment's own module."""
    script = """
import sys
import pydantic_settings, requests
before = set(sys.modules)
from env_runtime.trainers.trl import dataset, environment
added = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(added - sys.stdlib_module_names))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert done.stdout == "['env_runtime']\n"
