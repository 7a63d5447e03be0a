"""Where a question goes: an OpenAI-compatible endpoint, NeMo Gym, or a stand-in."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ..episode.chat import chat_tools, items_of
from ..episode.types import Item
from ..errors import ModelError, NoAnswerError, one_line
from ..event_loop import loop_of
from ..settings import ModelSettings
from . import Message
from .question import (
    PLAIN,
    Completion,
    Question,
    ToolCall,
    bounded,
    check_encoding,
    read_answer,
)

# An endpoint with these statuses is busy. It may have room for a harmless question, and
# none for an honest one, so they are never taken for the text's fault.
BUSY = (429, 503, 529)
PROMPT_SECONDS = 5.0  # an endpoint that needs longer for a harmless answer is busy, too

# 32 by 32 gray pixels: some models take no smaller image
GRAY = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAAAAABWESUoAAAAFk"
    "lEQVR42mNoIAAYRhWMKhhVMFIVAABCAAAfN5c2AAAAAABJRU5ErkJggg=="
)


class Endpoint(Protocol):
    """One model of a process. `loop` runs `say`; None if `say` never waits."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None: ...

    async def say(self, question: Question, messages: list[Message]) -> Completion:
        """Ask the model. Raises ModelError if it cannot be asked.

        Raises NoAnswerError if the model takes other questions, but not this text.
        """
        ...


class StandIn:
    """The class's own `stand_in(model, prompt)`, or an answer that is merely valid."""

    loop = None

    def __init__(self, name: str, say: Callable[[str, str], Any] | None) -> None:
        self.name, self._say = name, say

    async def say(self, question: Question, messages: list[Message]) -> Completion:
        """Return what stand_in says: a text, or calls with a text at their end."""
        if self._say is None:
            return Completion(question.sample())
        said = self._say(self.name, question.text)
        *calls, text = said if isinstance(said, list) and said else [said]
        if len(messages) > len(question.messages):  # the calls have been played
            calls = []
        listed = [
            ToolCall(f"call_{number}", name, json.dumps(arguments))
            for number, (name, arguments) in enumerate(calls)
        ]
        return Completion(str(text), tuple(listed))


class NotSet:
    """An endpoint without a model. Each question raises ModelError: what to set."""

    loop = None

    def __init__(self, name: str) -> None:
        self.name = name

    async def say(self, question: Question, messages: list[Message]) -> Completion:
        name = self.name.upper()
        raise ModelError(f"neither {name}_MODEL nor {name}_BASE_URL is set")


class LimitedEndpoint:
    """An endpoint with limits on the questions at a time, and on their seconds.

    `post` sends the body of a request, and returns the body of the answer. Its second
    argument says whether the client may repeat the request.
    """

    def __init__(
        self,
        settings: ModelSettings,
        loop: asyncio.AbstractEventLoop,
        post: Callable[[dict[str, Any], bool], Awaitable[Any]],
    ) -> None:
        self.settings, self.loop, self._post = settings, loop, post
        self._room = asyncio.Semaphore(settings.concurrency)

    async def say(self, question: Question, messages: list[Message]) -> Completion:
        seconds, tools = self.settings.seconds, _tools(question, self.settings.api)
        async with self._room:
            try:
                async with asyncio.timeout(seconds):
                    return await self._ask(messages, tools)
            except TimeoutError:
                late = f"no answer in {seconds:g} s"
            try:  # a policy may ask for an endless one
                async with asyncio.timeout(min(seconds, PROMPT_SECONDS)):
                    await self._attempt(_harmless(messages), tools, retry=False)
            except (TimeoutError, ModelError):
                raise ModelError(late) from None
            raise NoAnswerError(f"{late} to this text, but to a harmless one")

    async def _ask(self, messages: list[Message], tools: dict[str, Any]) -> Completion:
        """The answer. A policy must not be able to mask its sample by what it writes.

        So after a failure the endpoint gets a harmless question. If it fails, too, the
        endpoint is to blame. If not, the first question is repeated, and if that fails
        again, its text is to blame.
        """
        try:
            return await self._attempt(messages, tools)
        except ModelError as error:
            if error.status in BUSY:
                raise
            failed = error
        try:
            await self._attempt(_harmless(messages), tools, retry=False)
        except ModelError as error:
            text = f"{failed}; a harmless question: {error}"
            raise ModelError(text, failed.said or error.said) from error
        try:
            return await self._attempt(messages, tools, retry=False)
        except ModelError as error:
            if error.status in BUSY:
                raise
            text = f"no answer to this text, but to a harmless one: {error}"
            raise NoAnswerError(text, error.said) from error

    async def _attempt(
        self, messages: list[Message], tools: dict[str, Any], *, retry: bool = True
    ) -> Completion:
        """The answer. Raises ModelError for any failure."""
        try:
            body = _request(self.settings, messages) | tools
            return read_answer(await self._post(body, retry))
        except Exception as error:  # noqa: BLE001 - the endpoint may cause anything
            raise _without_words(error) from None


def openai_endpoint(settings: ModelSettings) -> LimitedEndpoint:
    """The model at an OpenAI-compatible endpoint. The client retries with backoff."""
    # imported only if a class asks models: it takes a second
    import httpx
    import openai

    from .http_client import client_options

    client = openai.AsyncOpenAI(
        base_url=settings.base_url,
        api_key=settings.api_key or "none",
        max_retries=settings.retries,
        timeout=settings.seconds,
        default_headers=PLAIN,
        http_client=openai.DefaultAsyncHttpxClient(**client_options()),
    )
    once = client.with_options(max_retries=0)

    path = "/responses" if settings.api == "responses" else "/chat/completions"

    async def post(body: dict[str, Any], retry: bool) -> Any:
        body["model"] = settings.model
        chosen = client if retry else once
        # Not as the client's own objects: from 4 MiB it may make them for a minute.
        response = await chosen.post(path, cast_to=httpx.Response, body=body)
        return json.loads(response.content)

    return LimitedEndpoint(settings, loop_of("models"), post)


def _without_words(error: Exception) -> ModelError:
    """A ModelError whose message has nothing of what the endpoint said."""
    for each in (error, error.__cause__):
        if isinstance(each, ModelError):
            return each
    kind, status = type(error).__name__, getattr(error, "status_code", None)
    said = one_line(f"{kind}: {error} {error.__cause__ or ''}")
    return ModelError(f"{kind}, status {status}" if status else kind, said, status)


def _request(settings: ModelSettings, messages: list[Message]) -> dict[str, Any]:
    """The body of a request, without the model's name."""
    heat = {} if settings.temperature is None else {"temperature": settings.temperature}
    if settings.api == "chat":
        tokens = settings.tokens
        return {"messages": messages, "max_completion_tokens": tokens, **heat}
    listed: list[Item] = []
    for message in messages:
        listed += items_of(message, listed)
    return {"input": listed, "max_output_tokens": settings.tokens, **heat}


def _harmless(messages: list[Message]) -> list[Message]:
    """A question without text of the episode, which an endpoint for `messages` can answer.

    It has a system message, or an image, if they have one.
    """
    contents = [each["content"] for each in messages]
    parts = [part for each in contents if isinstance(each, list) for part in each]
    content: Any = "Say OK."
    if any(part.get("type") == "image_url" for part in parts):
        image = {"type": "image_url", "image_url": {"url": GRAY}}
        content = [{"type": "text", "text": content}, image]
    harmless: list[Message] = [{"role": "user", "content": content}]
    if any(each["role"] == "system" for each in messages):
        harmless.insert(0, {"role": "system", "content": "You are brief."})
    return harmless


def _tools(question: Question, api: str) -> dict[str, Any]:
    """The parts of a request about tools, none if the question has no tools."""
    if not question.tools:
        return {}
    tools = chat_tools(question.tools) if api == "chat" else question.tools
    choice = "none" if question.tools_used_up else "auto"
    return {"tools": tools, "tool_choice": choice}


def gym_endpoint(server: Any, name: str) -> LimitedEndpoint | None:
    """The model's endpoint, asked by NeMo Gym's own client; None without NeMo Gym.

    That client repeats requests over broken connections, and the model's server repeats
    those that its endpoint refuses. Call it on the event loop that serves.
    """
    reference = (server.config.model_extra or {}).get(f"{name}_model_server") or {}
    model = reference.get("name")
    if model is None or model not in server.server_client.global_config_dict:
        return None
    settings = ModelSettings.read_model(name).model_copy(update={"api": "responses"})

    async def post(body: dict[str, Any], retry: bool) -> Any:
        async with await server.server_client.post(
            server_name=model,
            url_path="/v1/responses",
            json=body,
            headers={**PLAIN},  # NeMo Gym adds to it
            allow_redirects=False,
        ) as response:
            check_encoding(response.headers)
            parts = [part async for part in bounded(response.content.iter_any())]
        data = b"".join(parts)
        if response.status != 200:
            raise ModelError(
                f"{model} answered with status {response.status}",
                data[:500].decode(errors="replace"),
                response.status,
            )
        return json.loads(data)

    return LimitedEndpoint(settings, asyncio.get_running_loop(), post)
