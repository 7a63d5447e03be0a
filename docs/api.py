"""Write api.md, the page of the public modules, and a table of running.md, from docstrings.

uv run python docs/api.py
"""

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_origin

from env_runtime import project_settings

PAGE = Path(__file__).with_suffix(".md")
RUNNING = PAGE.with_name("running.md")
TABLE = re.compile(
    r"(?<=writes this table -->\n).*?(?=<!-- end of the table)", re.DOTALL
)
# Those that the files of every project import, then those that only some classes need
EVERYWHERE = ["server", "gates", "rollouts", "rows", "testing"]
ADVANCED = ["graders", "models", "gymnasium", "mcp", "sql"]
MODULES = [*EVERYWHERE, *ADVANCED]
SETTINGS = PAGE.parents[1] / "template/nemo_gym/pyproject.toml.jinja"
INTRODUCTION = """# The public modules of `env_runtime`

A project's files import these modules only, and names change only with a line in the
[CHANGELOG](../CHANGELOG.md). Every other module is private to the package, except those of one
archetype or framework: `env_runtime.workspace.<backend>`, `env_runtime.desktop` and its backends, which a
class uses, and `env_runtime.frameworks`, which `verifiers/`, `openenv/` and `ors/` use.
[Commands](running.md#commands), such as `python -m env_runtime.prepare`, print their own `--help`.

The files of every project import {everywhere}.
Advanced: {advanced} are for classes that need them.

`uv run python docs/api.py` writes this page from the docstrings.
"""

# NeMo Gym calls these or has them itself, in one of its release series or in both. The page
# leaves them out by name: it must not depend on the series that is installed.
OF_NEMO_GYM = {"aggregate_metrics", "close_resources_session", "failure_kind"}
OF_NEMO_GYM |= {"get_reverify_mode", "get_session_middleware_key", "mcp_tools"}
OF_NEMO_GYM |= {"model_post_init", "seed_session", "setup_cancellation_middleware"}
OF_NEMO_GYM |= {"setup_exception_middleware", "setup_session_middleware"}


def page() -> str:
    """The page."""
    names = {"everywhere": EVERYWHERE, "advanced": ADVANCED}
    listed = {key: ", ".join(f"`{one}`" for one in each) for key, each in names.items()}
    parts = [INTRODUCTION.format(**listed).strip()]
    for name in MODULES:
        module = importlib.import_module(f"env_runtime.{name}")
        parts += [f"## `env_runtime.{name}`", inspect.getdoc(module) or ""]
        for public in module.__all__:
            parts += entry(public, getattr(module, public))
    return "\n\n".join(filter(None, parts)) + "\n"


def entry(name: str, thing: Any) -> Iterator[str]:
    """The heading, the docstring and the methods of a name."""
    if wrapped := getattr(thing, "_get_wrapped_function", None):
        yield f"### `{name}`, a fixture"
        yield inspect.getdoc(wrapped()) or ""
        return
    if isinstance(thing, str) or get_origin(thing) is Annotated:
        text = isinstance(thing, str)
        yield f"### `{name}`"
        yield f"The text `{thing}`" if text else f"The type {thing.__metadata__[0]}."
        return
    yield f"### `{name}{signature(thing)}`"
    yield inspect.getdoc(thing) or ""
    if inspect.isclass(thing):
        yield "\n".join(methods(thing))


def methods(owner: type) -> Iterator[str]:
    """A line for each public method that the package defines, except those of NeMo Gym."""
    own = [base for base in owner.__mro__ if base.__module__.startswith("env_runtime")]
    validators = getattr(owner, "__pydantic_decorators__", None)
    hidden = OF_NEMO_GYM | set(validators.model_validators if validators else ())
    members = {
        name: member for base in reversed(own) for name, member in vars(base).items()
    }
    for name, member in members.items():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if name.startswith(("_", "test_")) or name in hidden:
            continue
        if inspect.isfunction(function) and function.__doc__:
            shown = name if isinstance(member, property) else name + signature(function)
            yield f"- `{shown}`: {' '.join((inspect.getdoc(function) or '').split())}"


def signature(thing: Any) -> str:
    """The names of the parameters, as in a call; "" for errors and protocols."""
    if isinstance(thing, type) and (
        issubclass(thing, BaseException) or getattr(thing, "_is_protocol", False)
    ):
        return ""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = inspect.signature(thing).parameters
    names = [
        stars.get(each.kind, "")
        + name
        + ("=..." if each.default is not each.empty else "")
        for name, each in parameters.items()
        if name not in {"self", "cls", *OF_NEMO_GYM} and not name.startswith("_")
    ]
    return f"({', '.join(names)})"


def running() -> str:
    """The page on playing, with the tables of the project's settings."""
    table = SETTINGS.read_text(encoding="utf-8").partition("[tool.environment]\n")[2]
    written = re.findall(r"^(\w+) = ", table.partition("\n[")[0], re.MULTILINE)
    head = ["| key | it must be | default | meaning |", "| --- | --- | --- | --- |"]
    copiers, others = [], []
    for key, field in project_settings.keys().items():
        default = "needed" if field.is_required() else json.dumps(field.default)
        default = {"null": "none", '""': "none", "[]": "none"}.get(default, default)
        kind = project_settings.expected(field)
        line = f"| `{key}` | {kind} | {default} | {field.description} |"
        (copiers if key in written else others).append(line)
    lines = ["", "Copier writes these:", "", *head, *copiers, ""]
    lines += ["Advanced: you add one of these if a gate or a page names it.", ""]
    lines += [*head, *others]
    text = RUNNING.read_text(encoding="utf-8")
    return TABLE.sub(lambda _: "\n".join([*lines, "", ""]), text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    RUNNING.write_text(running(), encoding="utf-8")
