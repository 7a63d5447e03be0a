"""Docstrings: the text for the policy, and what each parameter is.

The styles of Google, NumPy, reST and epydoc are read alike, also mixed in one docstring:
a section begins with a title (`Args:`), an underlined title, or a field (`:param x:` or
`@param x:`).
"""

import inspect
import itertools
import re
from typing import NamedTuple

PARAMETERS = {"args", "arguments", "parameters", "params", "keyword args"}
PARAMETERS |= {"keyword arguments", "keyword parameters", "keyword params"}
PARAMETERS |= {"other args", "other arguments", "other parameters", "other params"}
# Sections for people who read the code
CODE = {"attributes", "methods", "return", "returns", "raise", "raises", "except"}
CODE |= {"exceptions", "warn", "warns", "yield", "yields", "receive", "receives"}
CODE |= {"example", "examples", "references", "see also", "todo", "deprecated"}
# Sections that may hold a rule for the policy
REMARKS = {"attention", "caution", "danger", "error", "hint", "important", "note"}
REMARKS |= {"notes", "tip", "warning", "warnings"}
SECTIONS = PARAMETERS | CODE | REMARKS
DIRECTIVES = SECTIONS | {"seealso", "versionadded", "versionchanged", "rubric"}

PARAMETER_FIELDS = {"param", "parameter", "arg", "argument"}
PARAMETER_FIELDS |= {"key", "keyword", "kwarg", "kwparam"}
FIELDS = PARAMETER_FIELDS | SECTIONS | {"type", "rtype", "ytype", "exception", "throws"}
FIELDS |= {"var", "ivar", "cvar", "vartype", "meta", "see", "seealso", "since"}
FIELDS |= {"author", "version", "requires", "bug"}

_TITLE = re.compile(r"(\w[\w ]*?)\s*::?\s*")
_UNDERLINE = re.compile(r"([-=~])\1{2,}\s*")
_DIRECTIVE = re.compile(r"\s*\.\. ([\w-]+)::")
_FIELD = re.compile(r":(\w+)([^:`]*):(?:\s+|$)(.*)|@(\w+)(?:\s+(\w+))?\s*:?\s*(.*)")
# Names of parameters, `*args` and `**x**:` and `- x:` included
_NAME = r"[*`\\]*\w+[*`]*"
_NAMES = rf"(?:[-*•+]\s+)?({_NAME}(?:\s*,\s*{_NAME})*)"
_NESTED = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"  # up to three deep
_ENTRY = re.compile(rf"{_NAMES}\s*(?:{_NESTED}|\([^)]*\))?\s*:\s*(.*)")
_NUMPY_ENTRY = re.compile(rf"{_NAMES}\s*(?::\s*(.*))?")


class Docstring(NamedTuple):
    """A docstring as a tool needs it. All white space is folded."""

    description: str  # the text up to the first section, without doctests
    parameters: dict[str, str]
    unread: list[str]  # titles of what is neither, and may hold a rule for the policy


class _Section(NamedTuple):
    kind: str  # "text", "entries", "numpy", "field" or "code"
    names: str  # the parameters of a field
    lines: list[str]


def read_docstring(text: str) -> Docstring:
    """The description of a tool, and the description of each parameter."""
    first = current = _Section("text", "", [])
    sections, unread = [first], list[str]()
    directive: int | None = None  # its indentation: what is deeper belongs to it
    doctest = False
    lines = inspect.cleandoc(text).splitlines()
    for line, below in itertools.pairwise([*lines, ""]):
        filled = bool(line.strip())
        if directive is not None and (not filled or _indent(line) > directive):
            continue
        directive = None
        if current is not first and not current.lines and _UNDERLINE.fullmatch(line):
            continue  # it underlines the title
        if started := _section(line, below, current is first):
            title, current = started
            sections.append(current)
            doctest = False
        elif title := _directive(line):
            directive = _indent(line)
        elif line.lstrip().startswith(">>>"):
            title, doctest = ">>>", True
        else:
            doctest = doctest and filled
            if not doctest:
                current.lines.append(line)
            continue
        if title.lower() in REMARKS or (doctest and current is first):
            unread.append(title)
    parameters: dict[str, str] = {}
    for section in sections:
        parameters |= _parameters(section)
    description = _fold(" ".join(first.lines))
    return Docstring(description, parameters, list(dict.fromkeys(unread)))


def _section(line: str, below: str, in_text: bool) -> tuple[str, _Section] | None:
    """The title and the section that begin with a line; None if none does.

    After the text, any underlined title begins one.
    """
    if not line or line[0].isspace():
        return None
    title = _fold(line.strip().removesuffix(":"))
    name = title.lower()
    if _UNDERLINE.fullmatch(below) and (name in SECTIONS or not in_text):
        return title, _Section("numpy" if name in PARAMETERS else "code", "", [])
    if found := _TITLE.fullmatch(line):
        title = _fold(found[1])
        if (name := title.lower()) in SECTIONS:
            kind = "entries" if name in PARAMETERS else "code"
            return title, _Section(kind, "", [])
    if found := _FIELD.match(line):
        kind, names, text = found.groups("")[:3] if found[1] else found.groups("")[3:]
        if kind in PARAMETER_FIELDS:
            # A type may stand before the name in reST, and behind it.
            name = re.sub(r"\(.*\)\s*$", "", names).split()[-1:]
            return kind, _Section("field", "".join(name), [text])
        if kind in FIELDS or not in_text:
            return kind, _Section("code", "", [])
    return None


def _directive(line: str) -> str:
    """The name of a directive such as `.. warning::`, which the policy does not read."""
    found = _DIRECTIVE.match(line)
    return found[1] if found and found[1].lower() in DIRECTIVES else ""


def _parameters(section: _Section) -> dict[str, str]:
    """The parameters that a section describes."""
    if section.kind == "field":
        text, ended = section.lines[0], False
        for line in section.lines[1:]:
            # A further paragraph is the field's only if it is indented.
            if ended and line and not line[0].isspace():
                break
            text, ended = f"{text} {line}", not line.strip()
        return _described(section.names, text)
    if section.kind not in ("entries", "numpy"):
        return {}
    parameters: dict[str, str] = {}
    names = ""
    for head, body in _entries(section.lines):
        if section.kind == "numpy" and (found := _NUMPY_ENTRY.fullmatch(head)):
            # Behind the colon stands the type, and sometimes a sentence.
            is_text = not body and (found[2] or "").endswith(".")
            names, text = found[1], found[2] if is_text else body
        elif found := _ENTRY.fullmatch(_fold(f"{head} {body}")):
            names, text = found[1], found[2]
        else:
            if names and section.kind == "entries":
                rest = f" {head} {body}"
                parameters |= {
                    name: _fold(parameters[name] + rest) for name in _described(names)
                }
            continue
        parameters |= _described(names, text)
    return parameters


def _entries(lines: list[str]) -> list[tuple[str, str]]:
    """The entries of a section, each with the deeper lines below it, folded."""
    filled = [line for line in lines if line.strip()]
    first = margin = _indent(filled[0]) if filled else 0
    entries: list[tuple[str, str]] = []
    for line in filled:
        indent, text = _indent(line), _fold(line)
        if indent == 0 < first:
            break  # the section is over
        if indent <= margin:
            entries.append((text, ""))
            margin = indent
        else:
            head, body = entries[-1]
            entries[-1] = (head, f"{body} {text}".strip())
    return entries


def _described(names: str, text: str = "") -> dict[str, str]:
    """The parameters of `x, *args`, each with the text."""
    return dict.fromkeys(re.findall(r"\w+", names), _fold(text))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fold(text: str) -> str:
    return " ".join(text.split())
