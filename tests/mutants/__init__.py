"""Mutants: the runtime, or a class, with one weakness each, which a test must notice.

A mutant is a small function that takes the place of one function or method. It gets the
original as its first argument. Its decorators say what it replaces, by class and method,
or by module and function, and which test must notice it:

    @replaces("messages.same_task")
    @by_attacks("test_the_task_of_another_row")
    def any_task_counts(original, task, body):
        return True

`python -m mutants SUITE REPORT` runs the mutants of a suite: see __main__.py.
"""

import contextlib
import functools
import inspect
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

# The tests of `runtime` are the template's own. The other suites are archetypes, with
# the tests that a rendered project has.
SUITES = ("runtime", "sandbox", "game", "gymnasium", "vision")  # the longest first
ATTACKS = "tests/test_conformance.py::TestAttacks::"

# What a mutant that does not fit its place raises. Then it proves nothing.
CRASHES = (TypeError, AttributeError, NameError, LookupError)


@dataclass
class Mutant:
    """One weakness. `test` must fail because of it, and `honest` must pass in spite."""

    weaken: FunctionType
    suite: str
    test: str
    honest: str | None = None
    place: str = ""
    without: str = ""  # returns None instead: a layer that has the same strength
    calls: int = 0
    crashes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.weaken.__name__.replace("_", " ")

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Put it in its place. Raises LookupError if there is none."""
        replace(patch, self.place, self._called)
        if self.without:
            replace(patch, self.without, lambda original, *arguments, **named: None)

    def _called(self, original: Any, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        if not inspect.iscoroutinefunction(original):
            with self._watched():
                return self.weaken(original, *arguments, **named)

        async def finish() -> Any:
            with self._watched():
                value = self.weaken(original, *arguments, **named)
                return await value if inspect.isawaitable(value) else value

        return finish()

    @contextlib.contextmanager
    def _watched(self) -> Generator[None]:
        """Note an exception of the mutant's own code: it does not fit its place."""
        try:
            yield
        except CRASHES as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            if Path(last.filename).parent == Path(__file__).parent:
                self.crashes.append(f"{type(error).__name__}: {error}")
            raise


MUTANTS: list[Mutant] = []


def _by(suite: str, folder: str, test: str, **options: Any) -> Callable[..., Mutant]:
    def register(weaken: FunctionType) -> Mutant:
        MUTANTS.append(Mutant(weaken, suite, folder + test, **options))
        return MUTANTS[-1]

    return register


def replaces(place: str, *, without: str = "") -> Callable[[Mutant], Mutant]:
    """Say what a mutant takes the place of, and which other layer is left out."""

    def complete(mutant: Mutant) -> Mutant:
        mutant.place, mutant.without = place, without
        return mutant

    return complete


# Decorators, with the name of the test that must notice the mutant.
by_attacks = functools.partial(_by, "game", ATTACKS)
by_runtime = functools.partial(_by, "runtime", "tests/runtime/")
by_game = functools.partial(_by, "game", "tests/")
by_sandbox = functools.partial(_by, "sandbox", "tests/")
by_vision = functools.partial(_by, "vision", "tests/")
by_gymnasium = functools.partial(_by, "gymnasium", "tests/")


# ---------------------------------------------------------------------- places


def replace(patch: pytest.MonkeyPatch, place: str, change: Callable[..., Any]) -> None:
    """Have `change(original, ...)` called in place of a function or method."""
    first, name = place.split(".")
    owners = list(_owners(first, name))
    if len(owners) != 1:
        raise LookupError(f"{place} is in {len(owners)} places; correct the mutant")
    [owner] = owners
    found = vars(owner)[name]
    if isinstance(found, property):
        patch.setattr(owner, name, property(_around(found.fget, change)))
    elif isinstance(found, staticmethod | classmethod):
        patch.setattr(owner, name, type(found)(_around(found.__func__, change)))
    elif inspect.isclass(owner):
        patch.setattr(owner, name, _around(found, change))
    else:
        new = _around(found, change)
        for module in list(sys.modules.values()):  # some have imported it by its name
            if vars(module).get(name) is found:
                patch.setattr(module, name, new)


def _owners(first: str, name: str) -> Iterator[Any]:
    """The class, or the module, called `first` that has its own `name`."""
    for path, module in list(sys.modules.items()):
        if path.partition(".")[0] not in ("my_env", "env_runtime"):
            continue
        owner = vars(module).get(first)
        if path.rpartition(".")[2] == first and name in vars(module):
            yield module
        elif (
            inspect.isclass(owner) and owner.__module__ == path and name in vars(owner)
        ):
            yield owner


def _around(original: Any, change: Callable[..., Any]) -> Any:
    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def replaced(*arguments: Any, **named: Any) -> Any:
            value = change(original, *arguments, **named)
            return await value if inspect.isawaitable(value) else value

    else:

        @functools.wraps(original)
        def replaced(*arguments: Any, **named: Any) -> Any:
            return change(original, *arguments, **named)

    return replaced
