"""Where a question goes: an OpenAI-compatible endpoint, NeMo Gym, or a stand-in."""

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import ModelError, NoAnswerError, one_line
from ..settings import ModelSettings
from .protocol import Message
from .question import Question

# The statuses of an endpoint that refuses a question's text as too long or malformed
REFUSED = (400, 413, 422)


@dataclass(frozen=True)
class Said:
    """A model's answer, and its cost."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    # Whether the token limit cut it off: the verdict at its end may be missing.
    cut_off: bool = False


class Endpoint(Protocol):
    """One model of a process. `loop` runs `say`; None if `say` never waits."""

    loop: asyncio.AbstractEventLoop | None

    async def say(self, question: Question, messages: list[Message]) -> Said:
        """Ask the model. Raises ModelError if it cannot be asked.

        Raises NoAnswerError if the model takes other questions, but not this text.
        """
        ...


class StandIn:
    """The class's own `stand_in(model, prompt)`, or an answer that is merely valid."""

    loop = None

    def __init__(self, name: str, say: Callable[[str, str], str] | None) -> None:
        self.name, self._say = name, say

    async def say(self, question: Question, messages: list[Message]) -> Said:
        if self._say is not None:
            return Said(str(self._say(self.name, question.text)))
        return Said(question.sample())


class NotSet:
    """An endpoint without a model. Each question raises ModelError: what to set."""

    loop = None

    def __init__(self, name: str) -> None:
        self.name = name

    async def say(self, question: Question, messages: list[Message]) -> Said:
        name = self.name.upper()
        raise ModelError(f"neither {name}_MODEL nor {name}_BASE_URL is set")


class Bounded:
    """An endpoint with limits on the questions at a time, and on their seconds.

    `post` sends the body of a request, and returns the body of the answer.
    """

    def __init__(
        self,
        settings: ModelSettings,
        loop: asyncio.AbstractEventLoop,
        post: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> None:
        self.settings, self.loop, self._post = settings, loop, post
        self._room = asyncio.Semaphore(settings.concurrency)
        self._has_answered = False

    async def say(self, question: Question, messages: list[Message]) -> Said:
        settings = self.settings
        if len(question.data or "") > settings.characters:
            raise NoAnswerError(
                f"{len(question.data or '')} characters of data are too many: a model "
                f"is given {settings.characters} at most"
            )
        async with self._room:
            try:
                async with asyncio.timeout(settings.seconds):
                    answer = await self._post(_request(settings, messages))
                said = _said(answer)
                self._has_answered = True
                return said
            except TimeoutError:
                raise ModelError(f"no answer in {settings.seconds:g} s") from None
            except ModelError:
                raise
            except Exception as error:
                text = one_line(f"{error} {error.__cause__ or ''}").strip()
                text = f"{type(error).__name__}: {text}"
                status = getattr(error, "status_code", getattr(error, "status", None))
                # A policy must not be able to mask its sample by what it writes.
                if status in REFUSED and question.data and self._has_answered:
                    raise NoAnswerError(f"the text was refused: {text}") from error
                raise ModelError(text) from error


def openai_endpoint(settings: ModelSettings) -> Bounded:
    """The model at an OpenAI-compatible endpoint. The client retries with backoff."""
    import openai  # imported only if a class asks models: it takes a second

    client = openai.AsyncOpenAI(
        base_url=settings.base_url,
        api_key=settings.api_key or "none",
        max_retries=settings.retries,
        timeout=settings.seconds,
    )

    async def post(body: dict[str, Any]) -> dict[str, Any]:
        body["model"] = settings.model
        if settings.api == "responses":
            answer: Any = await client.responses.create(**body)
        else:
            answer = await client.chat.completions.create(**body)
        return answer.model_dump(warnings=False)

    return Bounded(settings, background_loop(), post)


@functools.cache
def background_loop() -> asyncio.AbstractEventLoop:
    """The event loop of one thread of this process, which waits for models."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="models", daemon=True).start()
    return loop


def _request(settings: ModelSettings, messages: list[Message]) -> dict[str, Any]:
    """The body of a request, without the model's name."""
    heat = {} if settings.temperature is None else {"temperature": settings.temperature}
    if settings.api == "chat":
        tokens = settings.tokens
        return {"messages": messages, "max_completion_tokens": tokens, **heat}
    listed = [_as_item(message) for message in messages]
    return {"input": listed, "max_output_tokens": settings.tokens, **heat}


def _as_item(message: Message) -> dict[str, Any]:
    """A message of Chat Completions as the Responses API takes it."""
    content = message["content"]
    if not isinstance(content, str):
        content = [
            {"type": "input_text", "text": part["text"]}
            if part["type"] == "text"
            else {
                "type": "input_image",
                "image_url": part["image_url"]["url"],
                "detail": part["image_url"].get("detail", "auto"),
            }
            for part in content
        ]
    return {"type": "message", "role": message["role"], "content": content}


def _said(answer: dict[str, Any]) -> Said:
    """The text of an answer of either API, without reasoning."""
    usage = answer.get("usage") or {}
    read = usage.get("input_tokens") or usage.get("prompt_tokens") or 0
    wrote = usage.get("output_tokens") or usage.get("completion_tokens") or 0
    if "choices" in answer:
        [choice, *_] = answer["choices"]
        text = choice["message"]["content"] or ""
        cut_off = choice.get("finish_reason") == "length"
    else:
        cut_off = answer.get("status") == "incomplete"
        text = "".join(
            part.get("text") or ""
            for item in answer["output"]
            if item["type"] == "message"
            for part in item["content"]
        )
    return Said(text, read, wrote, cut_off)
