"""Tests of tool signatures: what a user may write, and what it becomes."""

import pytest


def names(tools):
    return [tool["name"] for tool in tools]


@pytest.mark.parametrize(
    "text",
    [
        "guess(word: str); hint()",
        "guess(word: str)\nhint()",
        "\n  guess ( word :str )\n\n# a comment\n hint( ) ;;",
        "guess, hint",
        "guess; hint",
        "guess(word: str) -> str; hint() -> str",
    ],
)
def test_ways_to_write_two_tools(definitions, text):
    assert names(definitions(text)) == ["guess", "hint"]


def test_a_bare_name_means_the_archetypes_signature(definitions):
    [guess] = definitions("guess")
    assert list(guess["parameters"]["properties"]) == ["word"]
    assert guess["description"] == "Guess the hidden word."


def test_a_comment_is_the_description(definitions):
    [guess] = definitions("guess(word: str)  # Try; a  word: # now.")
    assert guess["description"] == "Try; a word: # now."


def test_a_comment_ends_where_the_next_signature_begins(definitions):
    guess, hint = definitions(
        "guess  # Try; or not.; hint(n: int = 1)  # Get (a) hint."
    )
    assert guess["description"] == "Try; or not."
    assert hint["description"] == "Get (a) hint."
    assert list(hint["parameters"]["properties"]) == ["n"]


PARAMETERS = [
    ("x: str", {"type": "string"}),
    ("x: int", {"type": "integer"}),
    ("x: float = 1", {"type": "number", "default": 1}),
    ("x: bool = True", {"type": "boolean", "default": True}),
    ("x: str = 'a; b # c'", {"type": "string", "default": "a; b # c"}),
    ("x: list[int]", {"type": "array", "items": {"type": "integer"}}),
    ("x: list[str] = ['a', 'b']", {"type": "array", "items": {"type": "string"}, "default": ["a", "b"]}),
    ("x: list[float] = []", {"type": "array", "items": {"type": "number"}, "default": []}),
    ('x: Literal["a", "b, c]"]', {"enum": ["a", "b, c]"], "type": "string"}),
    ("x: Literal['only']", {"const": "only", "type": "string"}),
    ("x: Literal[1, 2, -3] = 2", {"enum": [1, 2, -3], "type": "integer", "default": 2}),
    ("x: Literal['a', 1]", {"enum": ["a", 1]}),
    ("x: list[Literal['a', 'b']]", {"type": "array", "items": {"enum": ["a", "b"], "type": "string"}}),
    ("x: str | None", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ("x: int | None = None", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    ("x: int|None=-7", {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": -7}),
]  # fmt: skip


def test_parameter_types(definitions):
    """Each parameter in a tool of its own, of one project."""
    lines = [f"f{n}({parameter})" for n, (parameter, _) in enumerate(PARAMETERS)]
    tools = definitions("\n".join(lines))
    for tool, (parameter, schema) in zip(tools, PARAMETERS, strict=True):
        [(name, found)] = tool["parameters"]["properties"].items()
        assert name == "x"
        assert found == schema, parameter  # "The x." would say nothing
        assert tool["parameters"]["required"] == ([] if "=" in parameter else ["x"])


def test_many_parameters(definitions):
    [tool] = definitions('f(a: list[int], b: Literal["x", "y"], c: str = "1, 2")')
    assert list(tool["parameters"]["properties"]) == ["a", "b", "c"]
