"""Each setting of a project with its value and where that comes from.

One order holds for all of them: a command's option, an environment variable, the server's
block in configs/, [tool.environment], the class, the default. docs/running.md says which
settings each of these places may have.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .. import command_line
from ..episode.declaration import declared
from ..project import of_class
from ..settings import (
    ClientSettings,
    Limits,
    ModelSettings,
    ParameterSettings,
    ServerSettings,
    Settings,
    ShardSettings,
)

DEFAULT, TABLE, CLASS = "default", "[tool.environment]", "the class"
SECRETS = ("token", "secret", "key")  # in names of settings whose values nobody prints


class Setting(NamedTuple):
    """A setting, its value as JSON or text, and the place that decided."""

    name: str
    value: Any
    source: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value!r}  ({self.source})"


def settings_of(domain_class: type) -> list[Setting]:
    """The settings that this process would serve and play the class with.

    Raises SettingError, ProjectError and ToolError if one is wrong.
    """
    own = of_class(domain_class)
    table, (_, block) = own.table(), own.server_block()
    file = f"configs/{own.called}.yaml"
    client = ClientSettings.read()
    found = list[Setting]()
    for name, field in type(table).model_fields.items():
        value = getattr(table, name)
        source = TABLE if name in table.model_fields_set else DEFAULT
        if name == "max_turns" and client.max_turns:
            value, source = client.max_turns, "variable MAX_TURNS"
        found.append(Setting(field.alias or name, value, source))
    by_option = "ENV_VARIANT" in command_line.by_option
    variable = "variable ENV_VARIANT" if own.variant else DEFAULT
    source = "option --variant" if by_option else variable
    found.append(Setting("variant", own.variant, source))
    found += _parameters(domain_class, block.get("parameters") or {}, file)
    found += _read(Limits.of_server(block), Limits.read(), block, file)
    for tool, seconds in declared(domain_class).tool_seconds.items():
        found.append(Setting(f"tool_seconds of {tool}", seconds, CLASS))
    server = ServerSettings.read()
    found += _read(server.over(block), server, block, file)
    shards = ShardSettings.read()
    found += _read(shards.over(block), shards, block, file)
    for name in declared(domain_class).models:
        settings = ModelSettings.read_model(name)
        found += _read(settings, settings, {}, file, prefix=f"{name}_")
    known = {one.name for one in found}  # API_TOKEN is of servers and of clients
    found += [one for one in _read(client, client, {}, file) if one.name not in known]
    return found


def _read(
    settings: Settings,
    variables: Settings,
    block: Mapping[str, Any],
    file: str,
    prefix: str = "",
) -> Iterator[Setting]:
    """The fields of `settings`; `variables` are those without the block of the server."""
    for name in type(settings).model_fields:
        value, source = getattr(settings, name), DEFAULT
        if name in variables.model_fields_set:
            source = f"variable {f'{prefix}{name}'.upper()}"
        elif name in settings.model_fields_set and name in block:
            source = file
        if value and any(word in name for word in SECRETS):
            value = "set, not shown"
        yield Setting(f"{prefix}{name}", value, source)


def _parameters(
    domain_class: type, block: Mapping[str, Any], file: str
) -> Iterator[Setting]:
    """The environment's parameters. Raises SettingError."""
    if not declared(domain_class).parameters:
        return
    from ..episode.parameters import read, shown, with_variable

    variable = ParameterSettings.read().env_parameters or {}
    values = shown(domain_class, read(domain_class, with_variable(block)))
    for name, value in values.items():
        source = CLASS
        if name in command_line.by_option:
            source = "option -p"
        elif name in variable:
            source = "variable ENV_PARAMETERS"
        elif name in block:
            source = file
        yield Setting(f"parameter {name}", value, source)
