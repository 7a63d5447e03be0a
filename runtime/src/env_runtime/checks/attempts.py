"""Episodes that a policy without a solution plays in this process, to try a grade."""

import contextlib
import functools
import json
import math
import re
import time
from collections.abc import (
    AsyncGenerator,
    Iterable,
    Iterator,
)
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ..episode.answers import Answer
from ..episode.declaration import declared
from ..episode.episode import Episode
from ..episode.schema import sample_arguments
from ..episode.session import Session
from ..episode.tasks import baseline_reward, oracle_reward, solution_of, task_of
from ..episode.tools import Tool, tools_of
from ..episode.types import REPLY, Calls, Row, Solution
from ..errors import GateError, NoOracleError
from ..evaluation.rows import prompt_text, row_name
from ..models.client import Models
from ..project import of_class
from ..settings import Limits
from .rewards import made_calls

CALL_SECONDS = 5.0  # a longer call fails
CANDIDATES = 40  # the most parts of a text that are tried
CHOICES = 12  # a parameter with more values has no choice that is tried

# The parts of a text that a policy may copy, by what they are called in messages
PARTS = {
    "quoted part": re.compile(r"[\"'`“]([^\"'`”\n]{1,200})[\"'`”]"),
    "part in brackets": re.compile(r"[(\[{]([^()\[\]{}\n]{1,200})[)\]}]"),
    "number": re.compile(r"-?\d+(?:\.\d+)?"),
    "item of a list": re.compile(
        r"(?:(?<=[:,;])|^[-*•]|^\d+[.)])\s*([^,;:\n]{1,80})", re.MULTILINE
    ),
    "word": re.compile(r"[^\W_][\w'-]*"),
    "text between spaces": re.compile(r"[^\s,;()\[\]\"'`]+"),
}

CURES = {
    "echo": "Compare whole values instead of `in`, and limit the length of an argument",
    "crowd": "Compare the whole answer, so that a list of guesses is a wrong one",
    "form": "Compare the answer with the row's own, and not only its form",
    "fragment": "Compare the whole answer, and not whether it is in the expected one",
    "outside": "Check that the answer is a number in the task's range before the grade uses it",
    "candidates": "Let a wrong try end the episode, or cost something",
    "leak": "Take the answer out of the prompt, or ask for what has to be found out",
    "choices": "Grade what was chosen, and let the first choice count",
    "reader": "Do not let an answer say what would have been right while the policy can go on",
    "again": "Count each thing once, and bound the sum: a reward outside of reward_range masks the sample, so no policy learns from it",
    "shared": "Make it in __init__, `self.NAME = ...`, also where it is a default "
    "argument, a cache, or a connection of the module",
    "loop": "Await instead, or make the tool a plain `def`, which runs in a thread",
}


@dataclass
class Attempt:
    """An episode of the class in this process, played call by call."""

    session: Session
    tools: dict[str, Tool]
    calls: Calls = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """A tool's output; what cannot be called answers with an error.

        Raises TimeoutError.
        """
        tool, episode = self.tools[name], self.session.episode
        assert episode is not None
        try:
            keywords = tool.keywords(tool.arguments.model_validate(arguments))
            answer: Answer = await self.session.perform(
                lambda: episode.call(tool, keywords)
            )
            output = answer.output
        except ValidationError as error:
            output = f"error: {error}"
        self.calls.append((name, arguments))
        self.outputs.append(output)
        return output

    async def play(self, calls: Calls) -> None:
        """Make calls, and say messages that the class replies to."""
        episode = self.session.episode
        assert episode is not None
        for name, arguments in calls:
            if name == REPLY:
                said = functools.partial(episode.reply, arguments["answer"])
                await self.session.perform(said)
            elif name in self.tools:
                await self.call(name, arguments)

    async def reward(self, answer: str = "") -> float:
        return await self.session.reward(answer, CALL_SECONDS)

    @property
    def did(self) -> str:
        """The calls, for a message."""
        items = [{"output": output} for output in self.outputs]
        return made_calls(self.calls, items)


class FlawCheck:
    """The class, its rows, and the flaws that were looked for."""

    def __init__(self, domain_class: type, rows: list[Row]) -> None:
        self.domain_class, self.declared = domain_class, declared(domain_class)
        self.rows = rows
        self.models = Models(domain_class)
        self.limits = Limits.read(tool_seconds=CALL_SECONDS)
        project = of_class(domain_class)
        self.tools = tools_of(domain_class, project.served_tools())
        self.definitions = [tool.definition() for tool in self.tools.values()]
        self.meant = set(project.table().get("meant", []))
        if unknown := sorted(self.meant - {*CURES}):
            raise GateError(
                f"pyproject.toml, [tool.environment]: `meant` names {', '.join(unknown)}, "
                f"but the flaws are {', '.join(CURES)}"
            )
        self._oracles: dict[int, Solution] = {}
        self.deadline = math.inf  # no further row, and no further try, begins after it

    @contextlib.asynccontextmanager
    async def episode(self, row: Row) -> AsyncGenerator[Attempt]:
        """An episode of a row, which is closed at the end of the with block."""
        session = Session.of(self.domain_class, task_of(row), limits=self.limits)
        models = self.models.of_episode()
        await session.start(
            lambda: Episode(self.domain_class, task_of(row), models=models)
        )
        try:
            yield Attempt(session, self.tools)
        finally:
            with contextlib.suppress(TimeoutError):
                await session.close()

    def in_time[T](self, tries: Iterable[T]) -> Iterator[T]:
        """The tries that begin in time, at least one."""
        for number, each in enumerate(tries):
            if number and time.monotonic() > self.deadline:
                return
            yield each

    async def played(self, row: Row, calls: Calls) -> tuple[Attempt, float]:
        """An episode in which these calls were made, and its reward."""
        async with self.episode(row) as attempt:
            await attempt.play(calls)
            return attempt, await attempt.reward()

    def full(self, row: Row, reward: float) -> bool:
        """Whether a reward is that of a solved row, and more than nonsense may earn."""
        return (
            reward >= oracle_reward(self.domain_class, row) - 1e-9
            and reward > baseline_reward(self.domain_class, row) + 1e-9
        )

    def oracle(self, row: Row) -> Solution:
        """What the row's oracle does; nothing, if it has none. Computed once."""
        if id(row) not in self._oracles:
            self._oracles[id(row)] = Solution([])
            with contextlib.suppress(NoOracleError):
                self._oracles[id(row)] = solution_of(self.domain_class, row)
        return self._oracles[id(row)]

    def value(self, row: Row) -> str | None:
        """The text that the oracle submits: its answer, or its last call's only text."""
        calls, answer = self.oracle(row)
        if self.declared.ends_with_answer:
            return answer or None
        texts = [
            value
            for _, sent in calls[-1:]
            for value in sent.values()
            if isinstance(value, str)
        ]
        return texts[0] if len(texts) == 1 and calls[-1][0] != REPLY else None

    async def submitted(self, row: Row, text: str) -> tuple[Attempt, float]:
        """The oracle's episode with `text` in place of what it submits."""
        calls, answer = self.oracle(row).calls, text
        if not self.declared.ends_with_answer:
            *before, (name, sent) = calls
            new = {
                key: text if isinstance(value, str) else value
                for key, value in sent.items()
            }
            calls, answer = [*before, (name, new)], ""
        async with self.episode(row) as attempt:
            await attempt.play(calls)
            return attempt, await attempt.reward(answer)

    def too_much(self, row: Row, reward: float) -> bool:
        return reward > baseline_reward(self.domain_class, row) + 1e-9

    def texts(self, row: Row) -> dict[tuple[str, int], str]:
        """The parts of the row's prompt that a policy may copy, by their kind and place.

        Places are counted from the start, and from the end (-1).
        """
        return parts_of(prompt_text(row))

    def filled(self, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """A call of each tool that takes `text`, with it in every such parameter."""
        for tool in self.definitions:
            arguments, filled = sample_arguments(tool), False
            for name, schema in tool["parameters"]["properties"].items():
                value = value_for(schema, text)
                if value is not None:
                    arguments[name], filled = value, True
            if filled:
                yield tool["name"], arguments

    def wrong(
        self,
        flaw: str,
        row: int,
        problem: str,
        attempt: Attempt | None = None,
        answer: str = "",
    ) -> GateError:
        """The error that names a flaw, with the calls that earned, and the cure."""
        did = attempt.did if attempt and attempt.calls else ""
        if answer:
            did += f"{'; ' if did else ''}it answered {answer!r:.200}"
        task = json.dumps(task_of(self.rows[row]), ensure_ascii=False)
        did += f"{'; ' if did else ''}task: {task[:200]}"
        return GateError(
            f"{row_name(row + 1)}: {problem} ({did}). {CURES[flaw]}: see `{flaw}` in "
            "docs/grading.md of the template. If it is meant, write "
            f'`meant = ["{flaw}"]` below [tool.environment] in pyproject.toml, or a '
            "`baseline_reward` into the row"
        )


def parts_of(text: str) -> dict[tuple[str, int], str]:
    """The parts of a text, by their kind and their place from the start or the end."""
    found: dict[tuple[str, int], str] = {}
    for kind, pattern in PARTS.items():
        parts = [
            match[1] if pattern.groups else match[0] for match in pattern.finditer(text)
        ]
        parts = [part.strip() for part in parts if part.strip()]
        for place, part in enumerate(parts[: CANDIDATES // 4]):
            found[kind, place + 1] = part
        for place, part in enumerate(reversed(parts[-CANDIDATES // 4 :])):
            found[kind, -place - 1] = part
    return found


def value_for(schema: dict[str, Any], text: str) -> Any:
    """`text` as a value of a parameter; None if the parameter takes no such text."""
    if schema.keys() & {"enum", "const", "pattern", "format"}:
        return None
    kind = schema.get("type")
    if kind == "string":
        return text
    if kind == "array" and schema.get("items", {}).get("type") == "string":
        return [text]
    if kind in ("integer", "number"):
        with contextlib.suppress(ValueError):
            return int(text) if kind == "integer" else float(text)
    return None


def choices_of(schema: dict[str, Any]) -> list[Any]:
    """The values of a parameter with few of them; [] for any other."""
    if "enum" in schema:
        return schema["enum"] if len(schema["enum"]) <= CHOICES else []
    if schema.get("type") == "boolean":
        return [False, True]
    low, high = schema.get("minimum"), schema.get("maximum")
    if schema.get("type") == "integer" and low is not None and high is not None:
        return [*range(low, high + 1)] if high - low < CHOICES else []
    return []
