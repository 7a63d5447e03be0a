"""Train on this environment with the GRPOTrainer of TRL (1.16 or later).

Needs a running server, and a venv with trl, requests and the project's wheel in
nemo_gym/vendor/. NeMo Gym need not be in it. docs/training.md has a train.py:

    GRPOTrainer(train_dataset=dataset(), environment_factory=environment(url), ...)

Each rollout is a session of its own, and /verify gives its reward. The trajectory that
it grades holds only the tool calls and their results: TRL shows other text of the model
to reward functions, but not to an environment. So if the class's reward(answer) grades
the model's last message, add such a function, or use it alone if there are no tools:

    GRPOTrainer(..., reward_funcs=answer_reward(url))

If the class has components(), `component_rewards(["correct", "format"], url)` in its place
has a function for each component of the reward.
"""

import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from ..episode.answers import without_thinking
from ..episode.tools import EMPTY, OVER, SAY, SAY_TOOL
from ..episode.types import Definitions, Row, content_text, images_in, message
from ..errors import RolloutError
from ..evaluation.client import Client, ServedEpisode
from ..evaluation.rows import load_rows, messages_of, with_parameters
from ..project import here
from . import Rollouts, tool_method

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


def environment(url: str | None = None, **parameters: Any) -> type:
    """A class for `environment_factory`: the tools of the server at `url` are methods.

    Without `url` the server is at ENV_URL, else at http://127.0.0.1:11000. API_TOKEN is
    sent if it is set. Transformers' get_json_schema makes the server's tool definitions
    from the methods again, except for defaults and limits such as `maximum`. It finds
    the properties of an object in the description. To a class with reply(), the model
    talks with a tool `say`. `parameters` are values of the environment's parameters that
    its rows may set: the server refuses others than its own.

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
    members["_parameters"] = parameters
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
    grade = _grader(Client(url))

    def nemo_gym(
        completions: list[list[dict[str, Any]]],
        row: list[str],
        environments: list["_Rollouts"] | None = None,
        **rest: Any,
    ) -> list[float | None]:
        return list(map(_reward, grade(completions, row, environments)))

    return nemo_gym


def component_rewards(
    names: Sequence[str], url: str | None = None
) -> list[Callable[..., list[float | None]]]:
    """A function for `reward_funcs` for each of these components of the reward.

    The class at `url` has components(). GRPOTrainer, which calls the functions in turn,
    can then normalize each component by itself, as GDPO does. The rest is as with
    `answer_reward`. A component is 0.0 where the episode has no grade.

    Raises RolloutError like `answer_reward`; a function does, too, if the reward has no
    components, or none of its name.
    """
    grade = _grader(Client(url))
    verdicts: list[dict[str, Any] | None] = []

    def component(number: int, name: str) -> Callable[..., list[float | None]]:
        def of_component(
            completions: list[list[dict[str, Any]]],
            row: list[str],
            environments: list["_Rollouts"] | None = None,
            **rest: Any,
        ) -> list[float | None]:
            if number == 0:  # an episode is graded once, for all functions
                verdicts[:] = grade(completions, row, environments)
            return [_component(verdict, name) for verdict in verdicts]

        of_component.__name__ = name
        return of_component

    return [component(number, name) for number, name in enumerate(names)]


def _component(verdict: dict[str, Any] | None, name: str) -> float | None:
    """A component of a verdict's reward; None if the sample is masked."""
    if verdict is None:
        return None
    parts = verdict.get("reward_components")
    if parts is None or (parts and name not in parts):
        raise RolloutError(
            f"the reward has no component {name!r}; there are "
            f"{', '.join(parts or []) or 'none'}"
        )
    return float(parts.get(name, 0.0))


def _grader(client: Client) -> Callable[..., list[dict[str, Any] | None]]:
    """A function that grades the completions of a batch: the verdict of each.

    Raises RolloutError as answer_reward does.
    """
    _check_rows(client)
    if client.replies():
        raise RolloutError(
            f"the model talks to {client.url} with the tool {SAY!r}: give GRPOTrainer "
            "environment_factory=environment(url) alone"
        )
    has_tools = bool(client.tools())

    def grade_alone(text: str, completion: list[dict[str, Any]]) -> Any:
        return _verdict(ServedEpisode(client, [], json.loads(text), "trl"), completion)

    def grade(
        completions: list[list[dict[str, Any]]],
        row: list[str],
        environments: list["_Rollouts"] | None,
    ) -> list[dict[str, Any] | None]:
        if has_tools and environments is None:
            raise RolloutError(
                f"the server at {client.url} has tools: give GRPOTrainer "
                "environment_factory=environment(url), too"
            )
        with ThreadPoolExecutor(ANSWERS_AT_ONCE) as pool:
            if environments is None:
                return list(pool.map(grade_alone, row, completions))
            return list(pool.map(_Rollouts._grade, environments, completions))

    return grade


def _answer(completion: list[dict[str, Any]]) -> str:
    """The model's last message, which is graded without its thinking. "" without one."""
    last = completion[-1] if completion else {}
    text = last.get("content") if last.get("role") == "assistant" else None
    return text or ""


def _reward(verdict: dict[str, Any] | None) -> float | None:
    """The reward of a verdict; None without one."""
    return None if verdict is None else float(verdict["reward"])


def _verdict(
    episode: ServedEpisode, completion: list[dict[str, Any]] | None
) -> dict[str, Any] | None:
    """The verdict on an episode, which ends it. None if it is masked.

    The last message of the `completion` is graded, too.
    """
    if completion is not None:
        episode.output.append(message(_answer(completion)))
    with episode:
        verdict = episode.verify()
    if verdict.get("mask_sample"):
        log.warning("a rollout has no reward: %s", verdict.get("failure_reason"))
        return None
    return verdict


class _Rollouts(Rollouts):
    """Rollouts on a server, each in a session of its own.

    An exception of `reset` or `get_reward` ends the training.
    """

    _client: ClassVar[Client]
    _definitions: ClassVar[Definitions]
    _parameters: ClassVar[dict[str, Any]] = {}
    _graded = False  # whether answer_reward has graded the rollout

    def reset(self, row: str, **rest: Any) -> None:
        """Start an episode of `row`, the dataset's JSON text.

        Raises RolloutError if the server refuses it, or does not answer.
        """
        self._close()
        self._graded = False
        [seed] = with_parameters([json.loads(row)], self._parameters)
        self._episode = ServedEpisode(self._client, self._definitions, seed, "trl")

    def get_reward(self) -> float | None:
        """Grade the rollout within the class's reward_range, and end its session.

        Returns None if the environment failed rather than the model: TRL then leaves
        the sample out. Also returns None if answer_reward has graded it: TRL asks that
        first, and adds up rewards that are not None. Raises RolloutError if the server
        cannot grade.
        """
        return None if self._graded else _reward(self._grade())

    def _grade(
        self, completion: list[dict[str, Any]] | None = None
    ) -> dict[str, Any] | None:
        """Grade like get_reward, with the model's last message if that is graded."""
        self._graded = completion is not None
        if self._episode is None:
            raise RolloutError(
                "nothing to grade: call reset(row) before each get_reward()"
            )
        if self._failure:
            log.warning("a rollout has no reward: %s", self._failure)
            self._close()
            return None
        episode, self._episode = self._episode, None
        return _verdict(episode, completion)

    def _call_tool(
        self, name: str, arguments: dict[str, Any]
    ) -> tuple[str, str | None]:
        """The same text as with NeMo Gym's agents, and the image."""
        if name != SAY or not self._client.replies():
            answers = self._episode.call(name, arguments)[1:]
            text = answers[0]["output"]
        elif without_thinking(said := str(arguments.get("text", ""))):
            answers = self._episode.say(said)[1:]
            text = content_text(answers[0]["content"]) if answers else OVER
        else:
            return EMPTY, None
        return text, next(iter(images_in(answers)), None)
