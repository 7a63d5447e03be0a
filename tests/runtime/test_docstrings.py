"""Docstrings in the styles that people use: what a policy reads of them."""

from typing import Any

import pytest
from env_runtime.checks.class_checks import check_class
from env_runtime.episode.tools import make_tool

from .support import server_class

GOOGLE = """
    Book a table.

    Args:
        day (list[tuple[int, str]] (pairs)): The day: Monday
            comes first.
        hour (Optional[Tuple[str, ...]], default=None): The hour.
"""
NUMPY = """
    Book a table.

    Parameters
    ----------
    day : {'mon', 'tue'}, optional
        The day: Monday
        comes first.
    hour: int
        The hour.

    Returns
    -------
    str
        SECRET.
"""
REST = """
    Book a table.

    :param str day: The day: Monday
        comes first.
    :type day: SECRET
    :param hour: The hour.
    :returns: SECRET.
    :raises ValueError: SECRET

    SECRET.
"""
EPYDOC = """
    Book a table.

    @param day: The day: Monday
        comes first.
    @type day: SECRET
    @param hour: The hour.
    @return: SECRET.
"""


def read(docstring: str) -> tuple[str, dict[str, str]]:
    """The descriptions of a tool and of its parameters, as the policy reads them."""

    def book(self, day: str, hour: int = 9) -> str: ...  # type: ignore

    book.__doc__ = docstring
    definition = make_tool(book).definition()
    properties = definition["parameters"]["properties"].items()
    described = {key: each.get("description", "") for key, each in properties}
    return definition["description"], described


DESCRIBED = {"day": "The day: Monday comes first.", "hour": "The hour."}


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST, EPYDOC])
def test_each_style_describes_the_tool_and_its_parameters(docstring):
    assert read(docstring) == ("Book a table.", DESCRIBED)


SECTIONS = ["Attributes", "Caution", "Danger", "Error", "Example", "Examples", "Hint"]
SECTIONS += ["Important", "Methods", "Note", "Notes", "Raises", "References", "Returns"]
SECTIONS += ["See Also", "Tip", "Todo", "Warning", "Warnings", "Warns", "Yields"]


@pytest.mark.parametrize("title", [*SECTIONS, "Attention", "Receives", "See also"])
@pytest.mark.parametrize("underlined", [False, True])
def test_a_section_of_another_kind_takes_nothing_away(title, underlined):
    head = f"{title}\n    {'-' * len(title)}" if underlined else f"{title}:"
    section = f"\n    {head}\n        secret: SECRET.\n"
    for first, docstring in ((GOOGLE, GOOGLE + section), (NUMPY, NUMPY + section)):
        assert read(docstring) == ("Book a table.", DESCRIBED), first
        text, rest = first.split("\n\n", 1)
        assert read(f"{text}\n{section}\n{rest}") == ("Book a table.", DESCRIBED)


@pytest.mark.parametrize(
    "docstring",
    [
        GOOGLE + "\n    Side Effects:\n        secret: SECRET.\n",
        GOOGLE + "    Returns: SECRET.\n",
        NUMPY + "\n    Algorithm\n    ---------\n    SECRET : int\n        SECRET.\n",
        NUMPY.replace("Parameters", "Parameters:"),
        REST.replace("str day", "day (str)"),
        REST.replace(
            "    :type", "\n    .. warning:: SECRET\n       SECRET\n\n    :type"
        ),
        EPYDOC.replace("@param day:", "@param day"),
    ],
)
def test_other_ways_to_end_or_to_write_a_section(docstring):
    assert read(docstring) == ("Book a table.", DESCRIBED)


@pytest.mark.parametrize(
    "title", ["Keyword Args", "Keyword Arguments", "Other Parameters", "Params"]
)
def test_parameters_may_be_in_several_sections(title):
    first, second = "Args:\n    day: The day.", f"{title}:\n    hour: The hour."
    both = {"day": "The day.", "hour": "The hour."}
    assert read(f"Book.\n\n{first}\n\n{second}") == ("Book.", both)


@pytest.mark.parametrize(
    "entries",
    [
        "    day, hour: Both.",
        "    - day: Both.\n    - `hour` (int): Both.",
        "    **day**: Both.\n    hour (Callable[[int],\n        str]): Both.",
        '    day (Literal["(", "a:b"]): Both.\n    hour (str, default="("): Both.',
        "day: Both.\nhour: Both.",
    ],
)
def test_ways_to_write_an_entry(entries):
    assert read(f"Book.\n\nArgs:\n{entries}")[1] == {"day": "Both.", "hour": "Both."}


def test_numpy_names_several_parameters_in_one_entry():
    section = "Parameters\n----------\nday, hour : int\n    Both.\n"
    assert read(f"Book.\n\n{section}")[1] == {"day": "Both.", "hour": "Both."}
    section = "Parameters\n----------\nday : str\nhour: The hour.\n"
    assert read(f"Book.\n\n{section}")[1] == {"day": "", "hour": "The hour."}


def test_no_doctest_reaches_the_policy():
    doctest = ">>> book('mon')\n'SECRET'\n"
    text = f"Book.\n\n{doctest}\nAt most once.\n\nArgs:\n    day: The day.\n"
    deeper = "".join(f"        {line}\n" for line in doctest.splitlines())
    assert read(text + deeper) == (
        "Book. At most once.",
        {"day": "The day.", "hour": ""},
    )


PROSE = """
    Book. Note: not on Sundays.

    Directions:
        north: up
        :day: is no field
    @noon is free. :class:`Table` and ``>>>`` are words.
    Rules
    -----
    One a day.
"""


def test_other_text_stays_in_the_description():
    assert read(PROSE)[0] == " ".join(PROSE.split())
    assert read(":class:`Table` is booked.")[0] == ":class:`Table` is booked."


@pytest.mark.parametrize(
    ("more", "unread"),
    [
        ("\n\n    Warnings:\n        At most once.\n", "Warnings"),
        ("\n\n    .. note:: At most once.\n", "note"),
        ("\n\n    >>> book()\n    'x'\n", ">>>"),
        ("\n\n    Returns:\n        A text.\n", ""),
    ],
)
def test_the_import_gate_says_what_the_policy_does_not_read(more, unread):
    class Inn:
        def __init__(self, task: dict[str, Any]): ...

        def book(self) -> str:
            return ""

    Inn.book.__doc__ = "Book a table." + more
    says = f"the policy does not read {unread} in the docstring of book"
    assert (says in check_class(Inn, server_class(Inn))) is bool(unread)
