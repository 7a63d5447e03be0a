"""The agent of the vision archetype shows images to the model as images."""

import json

import pytest
from env_runtime.episode.types import as_response, message
from env_runtime.frameworks import nemo_gym as agent
from nemo_gym.openai_utils import (
    NeMoGymEasyInputMessage,
    NeMoGymFunctionCallOutput,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)

URL = "data:image/png;base64,aGVsbG8="


def output(call_id, **answer):
    return NeMoGymFunctionCallOutput(
        type="function_call_output", call_id=call_id, output=json.dumps(answer)
    )


def shown(*items):
    return [item.model_dump() for item in agent.with_images(list(items))]


def test_an_image_becomes_a_part_of_a_user_message():
    text, message = shown(output("a", output="Clicked.", image=URL))
    assert json.loads(text["output"]) == {"output": "Clicked."}
    assert message["role"] == "user"
    [part] = message["content"]
    assert (part["type"], part["image_url"]) == ("input_image", URL)


def test_the_outputs_of_one_turn_stay_together():
    outputs = [output(name, output="Clicked.", image=URL) for name in "ab"]
    kinds = [item["type"] for item in shown(*outputs)]
    assert kinds == ["function_call_output", "function_call_output", "message"]
    once = agent.with_images(outputs)
    assert agent.with_images(once) == once


@pytest.mark.parametrize("text", ["not JSON", "[]", '{"image": 1}', '{"output": "x"}'])
def test_other_outputs_stay_as_they_are(text):
    item = output("a")
    item.output = text
    assert agent.with_images([item]) == [item]


def test_nemo_gym_takes_it_as_input_and_as_a_trajectory():
    items = shown(output("a", output="Clicked.", image=URL))
    NeMoGymResponseCreateParamsNonStreaming.model_validate({"input": items})
    response = as_response("test", [], items)
    trajectory = NeMoGymResponse.model_validate(response).output
    assert trajectory[1].model_dump()["content"][0]["image_url"] == URL


def test_the_last_message_of_a_turn_is_what_the_model_says():
    """rollout.py and a replay post it, too, whatever else the turn has."""
    thought = {"type": "reasoning", "id": "r", "summary": []}
    items = [message("When?"), thought]
    output = NeMoGymResponse.model_validate(as_response("test", [], items)).output
    assert agent.last_answer(output) == "When?"
    reply = NeMoGymEasyInputMessage(role="user", content="At 8.")
    assert agent.last_answer([*output, reply, output[1]]) == ""
    assert agent.last_answer([]) == ""


def test_an_image_of_a_reply_stays_in_its_message():
    """The message as /reply answers it."""
    parts = [
        {"type": "input_text", "text": "Look."},
        {"type": "input_image", "image_url": URL, "detail": "auto"},
    ]
    reply = {"type": "message", "role": "user", "content": parts}
    [message] = agent.with_images([NeMoGymEasyInputMessage.model_validate(reply)])
    NeMoGymResponseCreateParamsNonStreaming.model_validate({"input": [message]})
    trajectory = as_response("test", [], [message.model_dump()])
    [kept] = NeMoGymResponse.model_validate(trajectory).output
    assert (kept.role, kept.model_dump()["content"]) == ("user", parts)
