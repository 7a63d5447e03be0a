"""The state that episodes change: class attributes, globals, and what objects lead to."""

import contextlib
import io
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from ..episode.declaration import own_classes

NO_STATE = (ModuleType, FunctionType, type, staticmethod, classmethod, property)
OBJECTS = 500  # the most that are looked at
TEMPORARY = Path(tempfile.gettempdir()).resolve()


def state_of(domain_class: type) -> dict[str, str]:
    """The values of the class's attributes, and of its module's globals, as texts."""
    module = sys.modules.get(domain_class.__module__)
    values = {
        f"the global {name}": value
        for name, value in getattr(module, "__dict__", {}).items()
    }
    for owner in own_classes(domain_class):
        values |= {
            f"{owner.__name__}.{name}": value for name, value in vars(owner).items()
        }
    return _as_texts(
        {name: value for name, value in values.items() if "__" not in name}
    )


def attributes_of(environment: Any) -> dict[str, str]:
    """The values of an object's attributes, as texts."""
    return _as_texts(getattr(environment, "__dict__", {}))


def _as_texts(values: dict[str, Any]) -> dict[str, str]:
    texts = {}
    for name, value in values.items():
        if isinstance(value, NO_STATE):
            continue
        with contextlib.suppress(Exception):  # the user may have written __repr__
            texts[name] = repr(value)
    return texts


def changed(before: dict[str, str], after: dict[str, str]) -> str:
    """The names whose values differ, for a message."""
    names = [name for name, text in after.items() if before.get(name) != text]
    return ", ".join(names)


def places_of(environment: Any) -> Iterator[sqlite3.Connection | Path]:
    """The databases of an object, and its files and folders below the temporary folder.

    Connections of its class and its module are among it: all episodes have them.
    """
    kind = type(environment)
    module = getattr(sys.modules.get(kind.__module__), "__dict__", {})
    shared = [*vars(kind).values(), *module.values()]
    databases = [one for one in shared if isinstance(one, sqlite3.Connection)]
    for value in [*databases, *_reachable(environment)]:
        if isinstance(value, sqlite3.Connection):
            yield value
            continue
        if isinstance(value, io.IOBase | tempfile.TemporaryDirectory):
            value = getattr(value, "name", None)
        if isinstance(value, str | Path) and is_temporary(value):
            yield Path(value)


def _reachable(thing: Any) -> Iterator[Any]:
    """An object, its attributes, theirs, and so on, at most OBJECTS."""
    todo, seen = [thing], set()
    for value in todo:  # which grows
        if id(value) in seen or isinstance(value, NO_STATE):
            continue
        if len(seen) == OBJECTS:
            return
        seen.add(id(value))
        yield value
        if isinstance(value, list | tuple):
            todo += value
        else:
            parts = value if isinstance(value, dict) else getattr(value, "__dict__", {})
            todo += parts.values()


def is_temporary(path: str | Path) -> bool:
    """Whether a path is an absolute one into the temporary folder."""
    try:
        return Path(path).is_absolute() and TEMPORARY in Path(path).resolve().parents
    except (OSError, ValueError, RuntimeError):  # it is a text, and no path
        return False
