"""The parameters of an environment: what they are, their values, and what a row may set.

They are the keyword-only parameters of the constructor that have a default and a type
that JSON has, and are no models: `def __init__(self, task: dict, *, size: int = 8)`.

The values come from configs/<env>.yaml, and above that from ENV_PARAMETERS, which `-p` of
the commands sets. A framework gives each episode its own, and hands them down. The steps:

collected   the values that this process was given, which it reads once
read        values as the constructor takes them
bound       the constructor's arguments for one row
effective   these and the defaults, for what names some of them
shown       the same as JSON
"""

import contextlib
import copy
import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from .. import project
from ..errors import RolloutError, SettingError, ToolError
from ..settings import ParameterSettings
from .declaration import declared, hint_of
from .types import PARAMETERS, Task

Values = Mapping[str, Any]

# What collected() has read, by class
_of_process: WeakKeyDictionary[type, Values] = WeakKeyDictionary()


@functools.cache
def readers(domain_class: type) -> dict[str, TypeAdapter[Any]]:
    """The environment's parameters, each with what reads its values."""
    found = {}
    for name in declared(domain_class).parameters:
        # Without a type that JSON has, it always has its default.
        with contextlib.suppress(Exception):
            if (annotation := hint_of(domain_class.__init__, name)) is not None:
                reader = TypeAdapter(annotation)
                reader.json_schema()
                found[name] = reader
    return found


def signature_of(domain_class: type, name: str) -> str:
    """A parameter as the constructor has it, without limits: `size: int = 8`."""
    parameter = inspect.signature(domain_class).parameters[name]
    if get_origin(parameter.annotation) is Annotated:
        parameter = parameter.replace(annotation=get_args(parameter.annotation)[0])
    return str(parameter)


# ---------------------------------------------------------------------- values


def collected(domain_class: type, values: Values | None = None) -> Values:
    """The values that this process was given, and above them those of one episode.

    Those of the process are read once: configs/<env>.yaml, and above it ENV_PARAMETERS.
    Raises SettingError.
    """
    if domain_class not in _of_process:
        own = project.of_class(domain_class)
        path = own.gym / "configs" / f"{own.called}.yaml"
        changed = path.stat().st_mtime_ns if path.exists() else 0
        _of_process[domain_class] = with_variable(_in_file(own, path, changed))
    return {**_of_process[domain_class], **(values or {})}


def forget() -> None:
    """Have the process read its values anew: tests set others."""
    _of_process.clear()


@functools.cache
def _in_file(own: project.Project, path: Path, changed: int) -> Any:
    """The values in the configuration of a project, read once."""
    if not path.parent.is_dir():  # a wheel has none
        return {}
    try:
        return own.server_block()[1].get("parameters") or {}
    except ModuleNotFoundError as error:
        if changed and "\n      parameters:" not in path.read_text("utf-8"):
            return {}
        raise SettingError(
            f"{path} names parameters, but no package here reads it: add {error.name}"
        ) from None


def with_variable(values: Any) -> dict[str, Any]:
    """The values of a configuration, and above them those of ENV_PARAMETERS.

    Raises SettingError.
    """
    if not isinstance(values, Mapping):
        raise SettingError(
            "`parameters` of the server in configs/ must be names and values, such as "
            f"{{size: 12}}; got {values!r:.80}"
        )
    return {**values, **(ParameterSettings.read().env_parameters or {})}


def read(domain_class: type, given: Values) -> dict[str, Any]:
    """The values as the constructor takes them. Raises SettingError.

    A text may be the value's JSON: a command line has only texts.
    """
    values = {}
    for key, value in given.items():
        reader = readers(domain_class).get(key)
        if reader is None:
            raise SettingError(_unknown(domain_class, key))
        try:
            values[key] = _read(reader, value)
        except ValidationError as error:
            raise SettingError(
                f"{domain_class.__name__} takes `{signature_of(domain_class, key)}`, but "
                f"{key} is {value!r:.80}: {error.errors()[0]['msg']}. Correct it where it "
                f"is set: -p {key}=VALUE, or `parameters` in configs/"
            ) from None
    return values


def _read(reader: TypeAdapter[Any], value: Any) -> Any:
    """The value of a parameter. Raises ValidationError."""
    try:
        return reader.validate_python(copy.deepcopy(value))
    except ValidationError:
        if isinstance(value, str):
            with contextlib.suppress(ValidationError):
                return reader.validate_json(value)
        raise


def _unknown(domain_class: type, key: str) -> str:
    """Why nothing can set `key`, and what to do."""
    name, known = domain_class.__name__, readers(domain_class)
    if key in (fixed := declared(domain_class).parameters):
        kind = type(fixed[key]).__name__
        return (
            f"{key} of {name} cannot be set, because it has no type that JSON has: write "
            f"`{key}: {kind} = {fixed[key]!r:.40}` in its constructor"
        )
    if close := difflib.get_close_matches(key, known, 1):
        return f"{name} has no parameter {key!r}: write {close[0]}"
    if known:
        return f"{name} has no parameter {key!r}; there are {', '.join(known)}"
    return (
        f"{name} has no parameter {key!r}, and no other: a parameter of the environment "
        f"is keyword-only and has a default, `def __init__(self, task, *, {key}: int = 8)`"
    )


def effective(domain_class: type, values: Values) -> dict[str, Any]:
    """All parameters: those of `values`, which the class has read, and the defaults."""
    defaults = declared(domain_class).parameters
    return {key: values.get(key, defaults[key]) for key in readers(domain_class)}


def shown(domain_class: type, values: Values) -> dict[str, Any]:
    """The same as JSON, for a verdict or a client."""
    return to_jsonable_python(effective(domain_class, values), fallback=repr)


# ---------------------------------------------------------------------- episodes


def bound(
    domain_class: type, task: Task, given: Values | None = None
) -> dict[str, Any]:
    """The constructor's arguments for an episode of `task`.

    `given` are the values, by default those of the process. The row may set those that
    the class names in `row_parameters`, and repeat the others. Raises SettingError, which
    is a ValueError.
    """
    values = read(domain_class, collected(domain_class) if given is None else given)
    free = row_parameters(domain_class)
    asked = task.get(PARAMETERS)
    if asked is None and free:  # the keys of a native row are its task
        asked = task.get("parameters")
    if asked is None:
        return values
    if not isinstance(asked, Mapping):
        raise SettingError(
            f"the row's `parameters` must be an object; got {asked!r:.80}"
        )
    now = effective(domain_class, values)
    for key, value in read(domain_class, asked).items():
        if key in free:
            values[key] = value
        elif value != now[key]:
            raise SettingError(
                f"the row asks for {key}={value!r}, but {domain_class.__name__} plays with "
                f"{now[key]!r}. Set it for all rows, with -p {key}={value} or `parameters` in "
                f'configs/, or let rows set it: `row_parameters = {{"{key}"}}` in the class'
            )
    return values


def row_parameters(domain_class: type) -> set[str]:
    """The parameters that a row may set: `row_parameters` of the class. Raises ToolError."""
    named, known = getattr(domain_class, "row_parameters", ()), readers(domain_class)
    if isinstance(named, str) or not {*named} <= known.keys():
        raise ToolError(
            f"{declared(domain_class).place}.row_parameters must be a set of names of its "
            f"parameters ({', '.join(known) or 'it has none'}); got {named!r:.80}"
        )
    return {*named}


def named_by(
    domain_class: type,
    function: Callable[..., Any],
    task: Task,
    given: Values | None = None,
) -> dict[str, Any]:
    """The parameters that a function such as oracle() names, with the values of a row.

    `given` are as of bound().
    """
    own = inspect.signature(function).parameters
    every = any(one.kind is one.VAR_KEYWORD for one in own.values())
    values = effective(domain_class, bound(domain_class, task, given))
    return {key: values[key] for key in values if every or key in own}


def described(domain_class: type) -> list[str]:
    """Return the import gate's notes: the parameters, and the keywords that nobody can set.

    Raises SettingError if a value of this process is wrong, and ToolError.
    """
    free, parts = row_parameters(domain_class), []
    defaults = shown(domain_class, {})
    for key, value in shown(domain_class, bound(domain_class, {})).items():
        now = "" if value == defaults[key] else f", now {value!r}"
        by_rows = ", set by rows" if key in free else ""
        parts.append(f"{signature_of(domain_class, key)}{now}{by_rows}")
    lines = [f"parameters: {'; '.join(parts)}"] if parts else []
    if fixed := [
        key for key in declared(domain_class).parameters if key not in defaults
    ]:
        lines.append(f"no parameter, without a type that JSON has: {', '.join(fixed)}")
    return lines


def share(
    domain_class: type, served: Values, given: Values, url: str
) -> dict[str, Any]:
    """Have this process's oracle solve what the server at `url` plays.

    Returns the `given` values that rows set. Raises RolloutError if this process was given
    others than those that are `served`, and SettingError.
    """
    free = row_parameters(domain_class)
    own = shown(domain_class, bound(domain_class, {}))
    for name in sorted(given.keys() - free):
        if served.get(name) != own[name]:
            raise RolloutError(
                f"the server at {url} plays with {name}={served.get(name)}: "
                f"start it with `uv run python server.py -p {name}={given[name]}`"
            )
    in_rows = {name: own[name] for name in given if name in free}
    _of_process[domain_class] = {**served, **in_rows}
    return in_rows
