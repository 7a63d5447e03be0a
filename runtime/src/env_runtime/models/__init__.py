"""Models that a class asks beside the policy: a judge, a simulated user.

A class names them in its constructor, after the task: `def __init__(self, task, judge)`.
`Model` and `AsyncModel` are their types, for editors and type checkers: a class gets an
AsyncModel if it has async methods.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, overload

from pydantic import BaseModel

__all__ = ["AsyncModel", "Model"]


Message = dict[str, Any]  # {"role": "user", "content": "..."}, as in Chat Completions
Prompt = str | Sequence[Message]


class Model(Protocol):
    """A model, in a class without async methods."""

    @overload
    def ask(
        self,
        prompt: Prompt,
        choices: Sequence[str] | None = None,
        *,
        data: str | None = None,
        tools: Sequence[Callable[..., Any]] = (),
    ) -> str: ...

    @overload
    def ask[T: BaseModel](
        self, prompt: Prompt, *, schema: type[T], data: str | None = None
    ) -> T: ...

    def ask(self, prompt: Any, choices: Any = None, **options: Any) -> Any:
        """The model's answer: text, one of `choices`, or an object of `schema`.

        `prompt` is text, or messages of Chat Completions, also with images. `data`
        is text that the model must not obey, such as the policy's answer: it goes into
        a message of its own, between two lines that the policy cannot know.

        `tools` are methods of the class that the model may call before it answers, such
        as `self._pay_bill`, which it knows as `pay_bill`: ten calls at most. They run
        in the episode's thread. Errors go to the model as they go to a policy.

        Raises ValueError if the model twice says none of the choices, or nothing that
        fits the schema. If the model cannot be asked, the sample is masked.
        """
        ...


class AsyncModel(Protocol):
    """A model, in a class with async methods."""

    @overload
    async def ask(
        self,
        prompt: Prompt,
        choices: Sequence[str] | None = None,
        *,
        data: str | None = None,
        tools: Sequence[Callable[..., Any]] = (),
    ) -> str: ...

    @overload
    async def ask[T: BaseModel](
        self, prompt: Prompt, *, schema: type[T], data: str | None = None
    ) -> T: ...

    async def ask(self, prompt: Any, choices: Any = None, **options: Any) -> Any:
        """The model's answer, as in `Model.ask`."""
        ...
