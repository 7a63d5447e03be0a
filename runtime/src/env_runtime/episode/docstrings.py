"""Descriptions of a tool and its parameters, read from a Google-style docstring."""

import inspect
import re

SECTIONS = re.compile(
    r"^(args|arguments|parameters|params|returns?|raises|yields?|examples?|notes?):\s*$",
    re.IGNORECASE,
)
PARAMETER_SECTIONS = ("args", "arguments", "parameters", "params")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description of a tool, and the description of each parameter.

    The tool's description ends at the first section. All white space is folded.
    """
    sections: dict[str, list[str]] = {"": []}
    current = sections[""]
    for line in inspect.cleandoc(text).splitlines():
        if title := SECTIONS.match(line):
            current = sections.setdefault(title[1].lower(), [])
        else:
            current.append(line)
    parameters: dict[str, str] = {}
    for title in PARAMETER_SECTIONS:
        parameters |= _parameters(sections.get(title, []))
    return _fold(" ".join(sections[""])), parameters


def _parameters(lines: list[str]) -> dict[str, str]:
    """The entries of one section: `name: text`, with deeper lines as its continuation."""
    parameters: dict[str, str] = {}
    name = ""
    indent = min((_indent(line) for line in lines if line.strip()), default=0)
    for line in lines:
        entry = re.match(r"\s*\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)", line)
        if entry and _indent(line) == indent:
            name = entry[1]
            parameters[name] = entry[2]
        elif name:
            parameters[name] += f" {line.strip()}"
    return {name: _fold(text) for name, text in parameters.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fold(text: str) -> str:
    return " ".join(text.split())
