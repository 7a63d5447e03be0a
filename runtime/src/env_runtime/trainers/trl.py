"""Train on this environment with the GRPOTrainer of TRL (1.16 or later).

Needs a running server, and a venv with trl, requests and the project's wheel in
nemo_gym/vendor/. NeMo Gym need not be in it. docs/training.md has a train.py:

    GRPOTrainer(train_dataset=dataset(), environment_factory=environment(url), ...)

Each rollout is a session of its own, and /verify gives its reward. The trajectory that
it grades holds only the tool calls and their results: TRL shows other text of the model
to reward functions, but not to an environment. So if the class's reward(answer) grades
the model's last message, add such a function, or use it alone if there are no tools:

    GRPOTrainer(..., reward_funcs=answer_reward(url))
"""

import contextlib
import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from ..episode.tools import OVER, SAY, SAY_TOOL
from ..episode.types import (
    Definitions,
    Item,
    Row,
    as_response,
    content_text,
    function_call,
    images_in,
    message,
)
from ..errors import RolloutError
from ..evaluation.client import Client, ClientSession
from ..evaluation.rows import load_rows, messages_of
from ..project import here
from . import tool_method, tool_result

log = logging.getLogger(__name__)

# The server grades this many answers at once. A judge may take seconds for each.
ANSWERS_AT_ONCE = 16

TEXT_PARTS = {"input_text", "output_text"}


def dataset(path: Path | str | None = None) -> Any:
    """The rows of a .jsonl file as a datasets.Dataset, for `train_dataset`.

    The default is data/example.jsonl of the project in the current folder.
    """
    from datasets import Dataset  # TRL needs this package, this environment does not

    return Dataset.from_list(dataset_rows(path))


def dataset_rows(path: Path | str | None = None) -> list[dict[str, Any]]:
    """Each row as {"prompt": messages of text, "row": itself as JSON text}.

    The row is text because all values in a column of Arrow have one shape. Raises
    RolloutError if a prompt is more than text.
    """
    path = path or here().rows
    return [
        {"prompt": _prompt(row, f"{path}, row {number}"), "row": json.dumps(row)}
        for number, row in enumerate(load_rows(Path(path)), start=1)
    ]


def _prompt(row: Row, place: str) -> list[dict[str, str]]:
    """The messages of a row's prompt. Raises RolloutError if they are more than text."""
    messages = []
    for item in messages_of(row):
        content = item.get("content")
        parts = content if isinstance(content, list) else []
        kinds = {part.get("type") for part in parts}
        is_text = isinstance(content, str | list) and kinds <= TEXT_PARTS
        if item.get("type", "message") != "message" or not is_text:
            raise RolloutError(
                f"{place}: responses_create_params.input may hold messages of text "
                f"only, got {json.dumps(item)[:200]}"
            )
        messages.append({"role": item["role"], "content": content_text(content)})
    return messages


def environment(url: str | None = None) -> type:
    """A class for `environment_factory`: the tools of the server at `url` are methods.

    Without `url` the server is at ENV_URL, else at http://127.0.0.1:11000. API_TOKEN is
    sent if it is set. Transformers' get_json_schema makes the server's tool definitions
    from the methods again, except for defaults and limits such as `maximum`. It finds
    the properties of an object in the description. To a class with reply(), the model
    talks with a tool `say`.

    Raises RolloutError if no server answers, if TRL would hide a tool, or if there is
    no tool: TRL would show the server nothing to grade.
    """
    client = Client(url)
    definitions = client.tools()
    names = [tool["name"] for tool in definitions]
    for name in names:
        if name in ("reset", "get_reward") or name.startswith("_"):
            raise RolloutError(f"TRL hides tools named {name!r}: rename the tool")
    if client.replies():
        if SAY in names:
            raise RolloutError(f"the model talks with {SAY!r}: rename the class's tool")
        definitions = [*definitions, SAY_TOOL.definition()]
    _check_rows(client)
    if not definitions:
        raise RolloutError(
            f"the server at {client.url} has no tools: it grades the model's answer, "
            "which TRL does not show an environment; give GRPOTrainer "
            "reward_funcs=answer_reward(url) instead"
        )
    methods = {tool["name"]: tool_method(tool) for tool in definitions}
    members = {"_client": client, "_definitions": definitions, **methods}
    return type("NeMoGymEnvironment", (_Rollouts,), members)


def _check_rows(client: Client) -> None:
    """Raise RolloutError if rows have tools of their own."""
    if client.has_row_tools():
        raise RolloutError(
            f"the rows of {client.url} have tools of their own, but TRL has the same tools "
            "for all rows: train with NeMo Gym"
        )


def answer_reward(url: str | None = None) -> Callable[..., list[float | None]]:
    """A function for `reward_funcs`: the server at `url` grades the model's last message.

    If the server has tools, GRPOTrainer needs `environment_factory=environment(url)`,
    too. If it has none, each answer is a session of its own. The dataset must come from
    `dataset`. If the model's thinking ends with </think>, the answer begins after it. A
    sample is left out, as with `environment`, if the environment failed.

    Raises RolloutError if no server answers, or if the class has reply(), which grades
    what `say` said. The function raises it, and so ends the
    training, if the server cannot seed or grade.
    """
    client = Client(url)
    _check_rows(client)
    if client.replies():
        raise RolloutError(
            f"the model talks to {client.url} with the tool {SAY!r}: give GRPOTrainer "
            "environment_factory=environment(url) alone"
        )
    has_tools = bool(client.tools())

    def grade(text: str, completion: list[dict[str, Any]]) -> float | None:
        session, row = client.session(), json.loads(text)
        session.post("/seed_session", row)
        return _verdict(session, row, [], [message(_answer(completion))])

    def nemo_gym(
        completions: list[list[dict[str, Any]]],
        row: list[str],
        environments: list["_Rollouts"] | None = None,
        **rest: Any,
    ) -> list[float | None]:
        if has_tools and environments is None:
            raise RolloutError(
                f"the server at {client.url} has tools: give GRPOTrainer "
                "environment_factory=environment(url), too"
            )
        with ThreadPoolExecutor(ANSWERS_AT_ONCE) as pool:
            if environments is None:
                return list(pool.map(grade, row, completions))
            answers = map(_answer, completions)
            return list(pool.map(_Rollouts._grade, environments, answers))

    return nemo_gym


def _answer(completion: list[dict[str, Any]]) -> str:
    """The model's last message, without its thinking. "" if there is none."""
    last = completion[-1] if completion else {}
    text = last.get("content") if last.get("role") == "assistant" else None
    return (text or "").rpartition("</think>")[2].partition("<think>")[0]


def _verdict(
    session: ClientSession, row: Row, definitions: Definitions, output: list[Item]
) -> float | None:
    """The reward of a trajectory, which ends its session. None if it is masked."""
    response = as_response("trl", definitions, output)
    answer = session.post("/verify", {**row, "response": response})
    if answer.get("mask_sample"):
        log.warning("a rollout has no reward: %s", answer.get("failure_reason"))
        return None
    return float(answer["reward"])


class _Rollouts:
    """One rollout after the other, each in a session of its own.

    TRL shows the model an exception of a tool, and goes on. If the server failed, the
    model would be trained on that failure, so the reward of that sample is None. An
    exception of `reset` or `get_reward` ends the training.
    """

    _client: ClassVar[Client]
    _definitions: ClassVar[Definitions]

    def __init__(self) -> None:
        self._session: ClientSession | None = None  # None if no session is open
        self._row: Row | None = None  # None while there is nothing to play or to grade
        self._output: list[Item] = []
        self._failure: str | None = None
        self._graded = False  # whether answer_reward has graded the rollout

    def reset(self, row: str, **rest: Any) -> None:
        """Start an episode of `row`, the dataset's JSON text.

        Raises RolloutError if the server refuses it, or does not answer.
        """
        self._close()
        self._row, self._output, self._failure = None, [], None
        self._graded = False
        seed = json.loads(row)
        self._session = self._client.session()  # a cookie is good for one episode
        self._session.post("/seed_session", seed)
        self._row = seed

    def get_reward(self) -> float | None:
        """Grade the rollout within the class's reward_range, and end its session.

        Returns None if the environment failed rather than the model: TRL then leaves
        the sample out. Also returns None if answer_reward has graded it: TRL asks that
        first, and adds up rewards that are not None. Raises RolloutError if the server
        cannot grade.
        """
        return None if self._graded else self._grade()

    def _grade(self, answer: str | None = None) -> float | None:
        """Grade like get_reward, with the model's last message if that is graded."""
        self._graded = answer is not None
        row, self._row = self._row, None
        if row is None or self._session is None:
            raise RolloutError(
                "nothing to grade: call reset(row) before each get_reward()"
            )
        if self._failure:
            self._close()
            log.warning("a rollout has no reward: %s", self._failure)
            return None
        output = self._output + ([] if answer is None else [message(answer)])
        reward = _verdict(self._session, row, self._definitions, output)
        self._session = None  # /verify has ended it
        return reward

    def _close(self) -> None:
        """End the session, if one is open. If that fails, the idle limit ends it."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(RolloutError):
                session.post("/close_session", {})

    def _call(self, name: str, arguments: dict[str, Any]) -> str | list[dict[str, Any]]:
        """The result that the model sees: the same text as with NeMo Gym's agents."""
        if self._row is None or self._session is None:
            raise RolloutError(f"{name} has no session: call reset(row) first")
        call = function_call(name, json.dumps(arguments))
        try:
            if name == SAY and self._client.replies():
                text, images = self._say(str(arguments.get("text", "")))
            else:
                items = self._session.call_tools(self._definitions, [call])
                self._output += [call, *items]
                text = items[0]["output"]
                images = images_in(items[1:])
            return tool_result(text, images[0] if images else None)
        except RolloutError as error:
            self._failure = f"{name}: {error}"
            raise

    def _say(self, text: str) -> tuple[str, list[str]]:
        """The text of the environment's reply, and its images as data: URLs."""
        assert self._session is not None
        if not text:
            return "error: the text is empty", []
        said = message(text)
        replied = self._session.reply([said])
        self._output += [said, *replied]
        shown = content_text(replied[0]["content"]) if replied else OVER
        return shown, images_in(replied)
