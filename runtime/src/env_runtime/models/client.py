"""The models of one process, and those of one episode with a record of their calls.

A model may call methods of the class, which are its tools and not the policy's.
"""

import asyncio
import inspect
import json
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MethodType
from typing import Any

from pydantic import BaseModel, ValidationError

from ..episode.answers import as_answer, clipped, sendable
from ..episode.declaration import declared
from ..episode.episode import run_without_loop
from ..episode.tasks import validation_problem
from ..episode.tools import Tool, make_tool
from ..errors import ModelError, NoAnswerError, ToolError, one_line
from ..settings import ModelSettings, StandInSettings
from . import Message, Prompt
from .endpoints import Endpoint, NotSet, StandIn, openai_endpoint
from .question import Completion, Question, ToolCall, called, returned

log = logging.getLogger(__name__)
# The log of questions and answers, which goes to session.log only: launch.log_to_file.
texts = logging.getLogger(f"{__name__}.texts")

# The most calls, and characters in their texts, that an episode keeps. Others are only
# counted: a policy may write a lot, and a conversation repeats it each time.
MAX_CALLS = 100
MAX_CHARACTERS = 1 << 20
# One ask() allows so many calls, and so many seconds in which a model may start one.
MAX_TOOL_CALLS = 10
MAX_SECONDS = 15.0


@dataclass(frozen=True)
class UserTool:
    """A tool of one ask(). `tool` has the name that the model sees."""

    tool: Tool
    method: MethodType

    async def output(self, arguments: str) -> str:
        """The text that a call returns. `arguments` is the model's JSON.

        An exception that the class raises on purpose becomes a text that starts with
        `error:`. Raises any other exception of the method.
        """
        try:
            read = self.tool.arguments.model_validate(json.loads(arguments or "{}"))
        except (ValueError, RecursionError) as error:
            invalid = isinstance(error, ValidationError)
            return f"error: {validation_problem(error) if invalid else 'not JSON'}"
        try:
            value = self.method(**self.tool.keywords(read))
            if inspect.isawaitable(value):
                value = await value
            return as_answer(value).output
        except Exception as error:
            if not declared(type(self.method.__self__)).is_expected(error):
                raise
            return sendable(f"error: {str(error) or type(error).__name__}")


def user_tools(methods: Iterable[Callable[..., Any]]) -> dict[str, UserTool]:
    """The tools by the names that the model sees.

    Raises ToolError for anything but a bound method whose parameters have types.
    """
    tools: dict[str, UserTool] = {}
    for method in methods:
        if not isinstance(method, MethodType):
            raise ToolError(f"tools must be methods such as self._pay; got {method!r}")
        tool = make_tool(method.__func__)
        name = tool.name.lstrip("_")
        if name in tools:
            raise ToolError(f"two tools have the name {name!r}: rename one of them")
        description = name if tool.description == tool.name else tool.description
        tool = replace(tool, name=name, description=description)
        tools[name] = UserTool(tool, method)
    return tools


async def output_of(tools: dict[str, UserTool], call: ToolCall) -> str:
    """The output of a model's call, for the model. Raises what the tool raises."""
    if call.name not in tools:
        return f"error: no tool {call.name!r}; there are {', '.join(tools)}"
    return await tools[call.name].output(call.arguments)


def cut(prompt: Prompt, most: int) -> Prompt:
    """A prompt whose texts have at most so many characters: a policy may have written one.

    A model would refuse a longer text, or be busy with it.
    """
    if isinstance(prompt, str):
        return clipped(prompt, most)
    messages = []
    for message in prompt:
        content = message["content"]
        if isinstance(content, str):
            content = clipped(content, most)
        elif isinstance(content, list):
            content = [
                {**part, "text": clipped(part["text"], most)}
                if "text" in part
                else part
                for part in content
            ]
        messages.append({**message, "content": content})
    return messages


@dataclass
class ModelCall:
    """One question to a model, as the rollout records it."""

    model: str
    messages: list[Message]
    said: str = ""
    # The model's calls: their name, arguments (JSON) and output
    tool_calls: list[dict[str, str]] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0
    tokens: int = 0


class Models:
    """The models that the episodes of one class ask, in this process.

    `connect` returns the endpoint of a model that NeMo Gym serves, None for others.
    Raises SettingError.
    """

    def __init__(
        self,
        domain_class: type,
        connect: Callable[[str], Endpoint | None] = lambda name: None,
    ) -> None:
        self.domain_class, self._connect = domain_class, connect
        self.names = declared(domain_class).models
        self._settings = {name: ModelSettings.read_model(name) for name in self.names}
        self._endpoints: dict[str, Endpoint] = {}

    def of_episode(self, label: str = "an episode") -> "EpisodeModels":
        """The models of a new episode. `label` names it in the log."""
        # Not in the constructor: NeMo Gym's client needs a running event loop.
        for name in self.names:
            if name not in self._endpoints:
                self._endpoints[name] = self._endpoint(name)
        return EpisodeModels(
            self._endpoints,
            declared(self.domain_class).has_async_methods,
            label,
            most={name: each.characters for name, each in self._settings.items()},
        )

    def _endpoint(self, name: str) -> Endpoint:
        settings = self._settings[name]
        if settings.model is None and StandInSettings.read().stand_in == "1":
            return StandIn(name, declared(self.domain_class).stand_in)
        if served := self._connect(name):
            return served
        return openai_endpoint(settings) if settings.model else NotSet(name)


@dataclass
class EpisodeModels:
    """The models of one episode, and what they were asked. An Episode's `models`."""

    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    awaited: bool = False
    label: str = "an episode"
    # The most characters in the data of a question, by model
    most: dict[str, int] = field(default_factory=dict)
    calls: list[ModelCall] = field(default_factory=list)
    failure: str | None = None  # why a model could not be asked
    waiting: int = 0  # questions without an answer yet

    def __post_init__(self) -> None:
        self._figures: dict[str, float] = {}
        self._characters = 0

    @property
    def parameters(self) -> dict[str, "ModelClient"]:
        """The constructor's arguments after the task."""
        return {name: ModelClient(name, self) for name in self.endpoints}

    def metrics(self) -> dict[str, float]:
        """Calls, tokens, seconds and unreadable answers of each model that was asked."""
        return dict(self._figures)

    def trace(self) -> list[dict[str, Any]]:
        """The calls with their exact texts, for the rollout."""
        return [asdict(call) for call in self.calls]

    def count(self, name: str, figure: str, number: float) -> None:
        key = f"{name}_{figure}"
        self._figures[key] = round(self._figures.get(key, 0.0) + number, 3)

    async def read(
        self, name: str, question: Question, messages: list[Message], said: Completion
    ) -> Any:
        """The answer in what the model said, which is asked again if there is none.

        Raises NoAnswerError and ModelError.
        """
        try:
            return question.read(said.text, cut_off=said.cut_off)
        except ValueError:
            again = question.repaired(messages, said.text)
            said = await self.say(name, question, again)
        try:
            return question.read(said.text, cut_off=said.cut_off)
        except ValueError as error:
            self.count(name, "unreadable", 1)
            # The exact text is in session.log, through `texts`.
            short = one_line(said.text, 200)
            log.warning("%s: %s: %s: %s", self.label, name, error, short)
            raise NoAnswerError(f"{name} gave no answer that can be read") from None

    def keep_tool_call(self, name: str, call: ToolCall, output: str) -> None:
        """Keep a call of the model with that call's output, within MAX_CHARACTERS."""
        self.count(name, "tool_calls", 1)
        size = len(call.name) + len(call.arguments) + len(output)
        if self.calls and self._characters + size <= MAX_CHARACTERS:
            self._characters += size
            kept = {"name": call.name, "arguments": call.arguments, "output": output}
            self.calls[-1].tool_calls.append(kept)

    async def say(
        self, name: str, question: Question, messages: list[Message]
    ) -> Completion:
        """The model's next message. Raises NoAnswerError and ModelError."""
        size = sum(len(str(each["content"])) for each in messages)
        fits = self._characters + size <= MAX_CHARACTERS
        call = ModelCall(name, messages if fits else [])
        if fits and len(self.calls) < MAX_CALLS:
            self._characters += size
            self.calls.append(call)
        started = time.monotonic()
        self.waiting += 1
        try:
            said = await self.endpoints[name].say(question, messages)
            call.tokens = said.input_tokens + said.output_tokens
            if self._characters + len(said.text) <= MAX_CHARACTERS:
                self._characters += len(said.text)
                call.said = said.text
            return said
        except (NoAnswerError, ModelError) as error:
            call.error = f"{error}: {error.said}" if error.said else str(error)
            # The endpoint's words are in the log and the rollout only.
            log.warning("%s: %s: %s", self.label, name, one_line(call.error))
            if isinstance(error, NoAnswerError):
                self.count(name, "refused", 1)
            else:
                self.failure = f"{name}: {error}"
            raise
        finally:
            self.waiting -= 1
            call.seconds = round(time.monotonic() - started, 3)
            for figure in ("seconds", "tokens"):
                self.count(name, figure, getattr(call, figure))
            self.count(name, "calls", 1)
            texts.info("%s: %s", self.label, asdict(call))


class ModelClient:
    """A model, as the class sees it: a Model, or an AsyncModel."""

    def __init__(self, name: str, episode: EpisodeModels) -> None:
        self._name, self._episode = name, episode

    def ask(
        self,
        prompt: Prompt,
        choices: Sequence[str] | None = None,
        *,
        schema: type[BaseModel] | None = None,
        data: str | None = None,
        tools: Sequence[Callable[..., Any]] = (),
    ) -> Any:
        """The model's answer, as in `Model.ask`. A class with async methods awaits it."""
        callable_tools = user_tools(tools)
        definitions = [each.tool.definition() for each in callable_tools.values()]
        usual = ModelSettings.model_fields["characters"].default
        most = self._episode.most.get(self._name, usual)
        prompt, data = cut(prompt, 10 * most), data and clipped(data, most)
        question = Question(prompt, choices, schema, data, definitions)
        steps = self._answer(question, callable_tools)
        return steps if self._episode.awaited else run_without_loop(steps)

    async def _answer(self, question: Question, tools: dict[str, UserTool]) -> Any:
        """The answer, after the model's calls. They run where ask() was called."""
        episode, messages, calls = self._episode, question.messages, 0
        question.tools_used_up = not tools
        until = time.monotonic() + MAX_SECONDS
        while True:
            said = await self._wait(episode.say(self._name, question, messages))
            if not said.calls or question.tools_used_up:
                break
            messages = [*messages, called(said)]
            for call in said.calls:
                output = "error: too many calls"
                if calls < MAX_TOOL_CALLS:
                    calls += 1
                    output = await output_of(tools, call)
                    episode.keep_tool_call(self._name, call, output)
                messages.append(returned(call, output))
            late = time.monotonic() > until
            question.tools_used_up = late or calls == MAX_TOOL_CALLS
        return await self._wait(episode.read(self._name, question, messages, said))

    async def _wait(self, steps: Coroutine[Any, Any, Any]) -> Any:
        """The result of `steps`, which run in the loop of the model's endpoint.

        In a class without async methods, this blocks, and never yields.
        """
        loop = self._episode.endpoints[self._name].loop
        if loop is None:
            return await steps  # a stand-in never waits
        if not self._episode.awaited:
            if asyncio._get_running_loop() is not None:
                steps.close()
                raise RuntimeError(
                    f"{self._name}.ask() waits, and a class with `blocking = False` "
                    "must not: remove that, or write async methods"
                )
            return asyncio.run_coroutine_threadsafe(steps, loop).result()
        try:
            running = asyncio.run_coroutine_threadsafe(steps, loop)
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            self._episode.failure = f"{self._name}: no answer before the call's end"
            raise
