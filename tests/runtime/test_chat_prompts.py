"""Tests of prompts of datasets as input of the Responses API, which NeMo Gym checks."""

import base64

import pytest
from env_runtime.episode.chat import responses_tools
from env_runtime.rows import responses_input
from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming

from .support import refusal

USER = {"role": "user", "content": "Is it raining?"}
PNG = b"\x89PNG and more"
URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x": 1}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "yes"}


def called(**call):
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def image(part):
    return [{"role": "user", "content": [{"type": "text", "text": "What?"}, part]}]


SEEN = [
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What?"},
            {"type": "input_image", "image_url": URL, "detail": "auto"},
        ],
    }
]
FUNCTION = {"name": "f", "arguments": '{"x": 1}'}
TOOL = {"role": "tool", "tool_call_id": "c1", "content": "yes"}


@pytest.mark.parametrize(
    ("prompt", "items"),
    [
        ("Is it raining?", [USER]),
        (
            [
                {"role": "system", "content": "s"},
                {"role": "developer", "content": "d"},
                USER,
            ],
            [
                {"role": "system", "content": "s"},
                {"role": "developer", "content": "d"},
                USER,
            ],
        ),
        (
            [USER, {"role": "assistant", "content": "No."}, USER],
            [USER, {"role": "assistant", "content": "No."}, USER],
        ),
        # ShareGPT, with a key that Parquet fills with None
        (
            [{"from": "human", "value": "Is it raining?", "weight": None}],
            [USER],
        ),
        (
            [USER, {"from": "gpt", "value": "No."}, {"from": "human", "value": "?"}],
            [
                USER,
                {"role": "assistant", "content": "No."},
                {"role": "user", "content": "?"},
            ],
        ),
        # Calls of earlier turns: ids, arguments as text and as an object, none at all
        (
            [USER, called(id="c1", type="function", function=FUNCTION), TOOL],
            [USER, CALL, RESULT],
        ),
        (
            [
                USER,
                called(id="c1", function={"name": "f", "arguments": {"x": 1}}),
                TOOL,
            ],
            [USER, CALL, RESULT],
        ),
        (
            [USER, called(function=FUNCTION), {"role": "tool", "content": "yes"}],
            [USER, {**CALL, "call_id": "call_1"}, {**RESULT, "call_id": "call_1"}],
        ),
        (
            [
                USER,
                {
                    "role": "assistant",
                    "content": "Let me see.",
                    "function_call": FUNCTION,
                },
                {"role": "function", "name": "f", "content": {"rain": "für"}},
            ],
            [
                USER,
                {"role": "assistant", "content": "Let me see."},
                {**CALL, "call_id": "call_1"},
                {**RESULT, "call_id": "call_1", "output": '{"rain": "für"}'},
            ],
        ),
        # Items of the Responses API stay as they are
        ([USER, CALL, RESULT], [USER, CALL, RESULT]),
        (
            [USER, {**CALL, "role": None}, {**RESULT, "status": None}],
            [USER, CALL, RESULT],
        ),
        (
            [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "a"}],
                }
            ],
            [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}],
        ),
        # Images
        (image({"type": "image_url", "image_url": {"url": URL}, "text": None}), SEEN),
        (image({"type": "image_url", "image_url": URL}), SEEN),
        (image({"type": "input_image", "image_url": URL, "detail": "auto"}), SEEN),
        (image({"type": "image", "image": PNG}), SEEN),
        (image({"type": "image", "image": {"bytes": PNG, "path": None}}), SEEN),
    ],
)
def test_messages_become_items_that_nemo_gym_takes(prompt, items):
    converted = responses_input(prompt)
    assert converted == items
    NeMoGymResponseCreateParamsNonStreaming.model_validate({"input": converted})


def test_two_calls_without_ids_get_their_results_in_order():
    calls = {"role": "assistant", "tool_calls": [{"name": "f"}, {"name": "g"}]}
    results = [{"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}]
    items = responses_input([USER, calls, *results])
    assert [item.get("call_id") for item in items[1:]] == 2 * ["call_1", "call_2"]
    assert [item["name"] for item in items[1:3]] == ["f", "g"]


@pytest.mark.parametrize(
    ("prompt", "complaint"),
    [
        (
            [],
            "a prompt ends with what the policy answers: a message of the user or the ",
        ),
        ([USER, {"role": "assistant", "content": "No."}], "a prompt ends with what"),
        (
            [USER, called(id="c1", function=FUNCTION)],
            "a prompt ends with what the policy",
        ),
        (
            [USER, {"content": "No."}],
            "message 2 of the prompt: the role is None, which is",
        ),
        (
            [{"role": "teacher", "content": ""}],
            "message 1 of the prompt: the role is 'tea",
        ),
        ([USER, {"role": "tool", "content": ""}], "but no call is before it"),
        (
            image({"type": "audio"}),
            "its content has a part of type 'audio', not text or",
        ),
        (
            image({"type": "image", "image": "a.png"}),
            "an image is a URL or the bytes of",
        ),
        (image({"type": "image", "image": b"BM"}), "an image is a URL or the bytes of"),
        (image({"type": "image"}), "message 1 of the prompt: 'image' is missing"),
        (["text"], "message 1 of the prompt: "),
    ],
)
def test_a_message_that_cannot_be_converted_is_named(prompt, complaint):
    assert complaint in refusal(ValueError, responses_input, prompt)


def test_tools_of_either_api_are_tools_of_the_responses_api():
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    function = {"name": "f", "description": "Does.", "parameters": schema}
    definition = {"type": "function", **function, "strict": False}
    tools = [{"type": "function", "function": function}, function, definition]
    assert responses_tools(tools) == 3 * [definition]
    NeMoGymResponseCreateParamsNonStreaming.model_validate(
        {"input": "a", "tools": responses_tools(tools)}
    )
    assert "a tool has no name" in refusal(ValueError, responses_tools, [{}])


def test_parameters_with_types_of_python_become_a_schema():
    """As xLAM and others have them."""
    parameters = {
        "town": {"type": "str", "description": "Its name"},
        "days": {"type": "int, optional", "description": "So many"},
        "tags": {"type": "List[str]", "default": []},
    }
    [tool] = responses_tools([{"name": "weather", "parameters": parameters}])
    schema = tool["parameters"]
    assert schema["required"] == ["town"]
    kinds = {name: one["type"] for name, one in schema["properties"].items()}
    assert kinds == {"town": "string", "days": "integer", "tags": "array"}
    wrong = [{"name": "weather", "parameters": {"town": "text"}}]
    assert "the parameter town of a tool is 'text'" in refusal(
        ValueError, responses_tools, wrong
    )
