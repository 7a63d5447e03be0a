"""What holds for every input: hypothesis looks for one for which it does not."""

import asyncio
import json
from typing import Any
from unittest import mock

import pytest
from env_runtime.episode.samples import sample_arguments
from env_runtime.episode.tools import tools_of
from env_runtime.resources_server import bodies
from env_runtime.resources_server.cookies import SessionCookies
from hypothesis import given, settings
from hypothesis import strategies as st
from nemo_gym.server_utils import SESSION_ID_KEY
from openapi_schema_validator import OAS31Validator

# The same examples each time, however slow the machine is: a failure is no accident.
settings.register_profile("tests", deadline=None, derandomize=True, database=None)
settings.load_profile("tests")

KEYS = st.text("abcdef", min_size=1, max_size=3)
SCALARS = st.none() | st.booleans() | st.integers() | st.text()
SCALARS |= st.floats(allow_nan=False)

# ---------------------------------------------------------------------------- cookies


async def nothing(*_: Any) -> None:
    """An app that does nothing."""


def read(cookies: SessionCookies, header: str) -> dict[str, Any]:
    scope = {"type": "http", "headers": [(b"cookie", header.encode("latin-1"))]}
    return cookies.read(scope)[1]


@given(
    content=st.dictionaries(KEYS, SCALARS, max_size=3),
    others=st.lists(st.tuples(KEYS, KEYS), max_size=2),
    place=st.integers(0, 500),
    character=st.sampled_from("aZ0-_.%"),
)
def test_a_cookie_is_read_as_it_was_signed_or_not_at_all(
    content, others, place, character
):
    cookies = SessionCookies(nothing, "secret", "session")
    session = {SESSION_ID_KEY: "one", **content}
    _, header = cookies.header(session, {}, "")
    pair = header.decode().partition(";")[0]
    beside = [f"{name}={value}" for name, value in others if name != "session"]
    assert read(cookies, "; ".join([*beside, pair])) == session
    # The last character of a signature has bits that mean nothing.
    start = len("session=")
    place = start + place % (len(pair) - start)
    changed = pair[:place] + character + pair[place + 1 :]
    assert read(cookies, changed) in ({}, session)
    if changed[start:-1] != pair[start:-1]:
        assert read(cookies, changed) == {}
    assert read(SessionCookies(nothing, "other", "session"), pair) == {}


# ----------------------------------------------------------- schemas from signatures

# Types of parameters, with values of them and values that they are not.
TYPES: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "str": (st.text(), 1),
    "int": (st.integers(-(2**53), 2**53), "x"),
    "bool": (st.booleans(), "x"),
    "float": (st.floats(-1e9, 1e9), "x"),
    "list[int]": (st.lists(st.integers(-9, 9), max_size=3), "x"),
    "dict[str, int]": (st.dictionaries(KEYS, st.integers(-9, 9)), "x"),
    "int | None": (st.none() | st.integers(-9, 9), "x"),
}
NAMES = ["word", "title", "json", "copy", "model_config", "schema", "dict", "x1"]


@settings(max_examples=50)  # each makes a class
@given(
    kinds=st.lists(st.sampled_from(sorted(TYPES)), max_size=4),
    given_default=st.integers(0, 4),
    data=st.data(),
)
def test_a_schema_allows_what_the_tool_takes(kinds, given_default, data):
    """The schema that a model reads, and the model that validates its calls."""
    names = NAMES[: len(kinds)]
    values = [data.draw(TYPES[kind][0]) for kind in kinds]
    parameters = [
        f"{name}: {kind}" + (f" = {value!r}" if n >= given_default else "")
        for n, (name, kind, value) in enumerate(zip(names, kinds, values, strict=True))
    ]
    code = f"class Made:\n    def play({', '.join(['self', *parameters])}) -> str: ..."
    scope: dict[str, Any] = {"__name__": __name__}
    exec(code, scope)  # noqa: S102 - only the code above
    tool = tools_of(scope["Made"])["play"]
    schema = tool.definition()["parameters"]
    assert list(schema["properties"]) == names
    assert schema["required"] == names[:given_default]
    allows = OAS31Validator(schema).is_valid
    sent = json.loads(json.dumps(dict(zip(names, values, strict=True))))
    required = dict(list(sent.items())[:given_default])
    for call in (sent, required):
        assert allows(call)
        assert tool.keywords(tool.arguments.model_validate(call)) == sent
    wrong = [
        {**sent, name: TYPES[kind][1]} for name, kind in zip(names, kinds, strict=True)
    ]
    missing = [
        {key: required[key] for key in required if key != one} for one in required
    ]
    for call in (*wrong, *missing):
        assert not allows(call)
        with pytest.raises(ValueError, match="play_arguments"):
            tool.arguments.model_validate(call)


LOW, SPACE = st.integers(-9, 9), st.integers(0, 5)
LOWEST = st.sampled_from(["", "minimum", "exclusiveMinimum"])
HIGHEST = st.sampled_from(["", "maximum", "exclusiveMaximum"])
BOUNDS = st.builds(
    lambda low, space, *names: {
        name: bound
        for name, bound in zip(names, (low, low + space + 2), strict=True)
        if name
    },
    *(LOW, SPACE, LOWEST, HIGHEST),
)


def tool_with(schema: dict[str, Any]) -> dict[str, Any]:
    """The definition of a tool with the parameter `n`."""
    parameters = {"type": "object", "properties": {"n": schema}, "required": ["n"]}
    return {"name": "tool", "parameters": parameters}


@given(
    bounds=BOUNDS,
    kind=st.sampled_from(["integer", "number"]),
    step=st.sampled_from([1, 3]),
)
def test_a_sample_is_a_number_within_its_bounds(bounds, kind, step):
    schema = {"type": kind, **bounds}
    if len(bounds) < 2:  # otherwise there may be no multiple between them
        schema["multipleOf"] = step
    low, high = (
        sample_arguments(tool_with(schema), high=high)["n"] for high in (False, True)
    )
    for number in (low, high):
        OAS31Validator(schema).validate(number)
        assert type(number) is {"integer": int, "number": float}[kind]
    assert low <= high


# ----------------------------------------------------------- the counters of a body

TEXTS = st.text('ab ,:[]{}"').map(str.encode)


@given(chunks=st.lists(TEXTS, min_size=1, max_size=5), most=st.integers(0, 60))
def test_a_body_is_the_same_however_it_arrives(chunks, most):
    messages = [
        {"type": "http.request", "body": chunk, "more_body": n < len(chunks)}
        for n, chunk in enumerate(chunks, 1)
    ]
    left = iter(messages)

    async def receive() -> Any:
        return next(left)

    whole = b"".join(chunks)
    separators = bodies.count_separators(whole, float("inf"))
    with mock.patch.object(bodies, "MAX_SEPARATORS", most):
        if separators > most:
            with pytest.raises(bodies.ComplicatedError, match=f"over {most} "):
                asyncio.run(bodies.read_body(receive, "/guess"))
        else:
            read = asyncio.run(bodies.read_body(receive, "/guess"))
            assert read == (whole, separators)
    assert next(left, None) is None  # all of it is received
