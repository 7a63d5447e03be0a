"""What holds for every input: hypothesis looks for one for which it does not."""

import asyncio
import itertools
import json
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from env_runtime.episode.answers import printed
from env_runtime.episode.samples import sample_arguments
from env_runtime.episode.tools import tools_of
from env_runtime.resources_server import http
from env_runtime.resources_server.http import SessionCookies
from env_runtime.resources_server.messages import TaskDigest, compared_task
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nemo_gym.server_utils import SESSION_ID_KEY
from openapi_schema_validator import OAS31Validator

# ------------------------------------------------------------------ whole-line matching

# Neither lines end nor letters change inside of these.
LINES = st.text(st.characters(categories=["Lu", "Ll", "Nd", "Po"]), min_size=1)
KEYS = st.text("abcdef", min_size=1, max_size=3)


def played(arguments: dict[str, Any], output: str, failed: bool = False) -> Any:
    """A call as a grade by text reads it."""
    return SimpleNamespace(arguments=arguments, output=output, failed=failed)


@given(text=LINES, cuts=st.lists(st.integers(0, 99), max_size=4), data=st.data())
def test_no_echo_of_the_policy_s_pieces_is_rewarded(text, cuts, data):
    """Whatever the pieces are, and whether one call brings them or several."""
    places = sorted({0, len(text), *(cut % len(text) for cut in cuts)})
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    if data.draw(st.booleans()):
        calls = [({"pieces": pieces}, text)]
    else:
        calls = [({"piece": piece}, "Noted.") for piece in pieces]
        calls.append(({}, text))
    assert not printed([played(*call) for call in calls], text)


@given(text=st.text("xyz", min_size=1), before=LINES, after=LINES, said=KEYS)
def test_a_whole_line_that_the_policy_did_not_write_is_rewarded(
    text, before, after, said
):
    output = f"{before}\n{text}\n{after}"
    assert printed([played({"text": said}, output)], text)
    failed = played({"text": said}, output, failed=True)
    assert not printed([failed], text)


@given(text=st.text("xyz", min_size=1), beside=st.text("abc", min_size=1))
def test_a_part_of_a_line_is_not_rewarded(text, beside):
    for output in (f"{beside}{text}", f"{text}{beside}", f"{beside} {text}"):
        assert not printed([played({}, output)], text)


# ---------------------------------------------------------------------- task identity

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
SCALARS |= st.floats(allow_nan=False)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=6,
)
TASKS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)


def fits(task: dict[str, Any], posted: dict[str, Any], *, native: bool) -> bool:
    """Whether a session and what is kept of an ended one accept the posted task."""
    body: Any = SimpleNamespace(task=posted, native=native)
    while_open = compared_task(body, task) == task
    assert while_open == TaskDigest.of(task).fits(body)
    return while_open


@given(task=TASKS, native=st.booleans())
def test_a_task_is_the_same_after_json_and_in_another_order(task, native):
    other = json.loads(json.dumps(dict(reversed(task.items()))))
    assert fits(task, other, native=native)


@given(task=TASKS, native=st.booleans(), data=st.data())
def test_a_task_with_another_value_is_another(task, native, data):
    key = data.draw(st.sampled_from(sorted(task)))
    for other in ([task[key]], {"a": task[key]}):
        assert not fits(task, {**task, key: other}, native=native)
    assert not fits(
        task,
        {name: value for name, value in task.items() if name != key},
        native=native,
    )


@given(task=TASKS, key=KEYS, value=VALUES)
def test_only_a_native_row_may_get_another_key(task, key, value):
    assume(key not in task)
    more = {**task, key: value}
    assert fits(task, more, native=True)
    assert not fits(task, more, native=False)


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
BOUNDS = st.builds(
    lambda low, space, kinds: {
        **({kinds[0]: low} if kinds[0] else {}),
        **({kinds[1]: low + space + 2} if kinds[1] else {}),
    },
    LOW,
    SPACE,
    st.tuples(
        st.sampled_from(["", "minimum", "exclusiveMinimum"]),
        st.sampled_from(["", "maximum", "exclusiveMaximum"]),
    ),
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


@given(text=TEXTS, most=st.integers(0, 60))
def test_separators_are_counted_as_far_as_the_bound(text, most):
    separators = http.count_separators(text, float("inf"))
    assert (http.count_separators(text, most) > most) == (separators > most)
    assert http.count_separators(text + b"{", float("inf")) == separators + 1
    assert http.count_separators(text + b":", float("inf")) == separators + 10


@given(value=VALUES)
def test_a_value_has_at_least_a_separator_for_each_of_its_parts(value):
    """So nothing with much structure looks simple."""

    def parts(one: Any) -> int:
        inner = list(one.values()) if isinstance(one, dict) else one
        return 1 + sum(map(parts, inner)) if isinstance(inner, list) else 1

    text = json.dumps(value).encode()
    assert http.count_separators(text, float("inf")) + 1 >= parts(value)


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
    separators = http.count_separators(whole, float("inf"))
    with mock.patch.object(http, "MAX_SEPARATORS", most):
        if separators > most:
            with pytest.raises(http.TooMuchError, match=f"over {most} "):
                asyncio.run(http.read_body(receive, "/guess"))
        else:
            read = asyncio.run(http.read_body(receive, "/guess"))
            assert read == (whole, separators)
    assert next(left, None) is None  # all of it is received
