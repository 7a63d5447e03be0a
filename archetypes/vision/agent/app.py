"""NeMo Gym's simple_agent, except that the model sees the images of tool answers.

simple_agent gives a tool's whole answer to the model as text. Here, the `image` in it
becomes an `input_image` part of a user message right after the tool outputs.
"""

import json
from typing import Any

from fastapi import Request, Response
from nemo_gym.base_responses_api_agent import Body
from nemo_gym.openai_utils import (
    NeMoGymEasyInputMessage,
    NeMoGymFunctionCallOutput,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from nemo_gym.server_utils import ServerClient
from responses_api_agents.simple_agent.app import SimpleAgent


def with_images(items: list[Any]) -> list[Any]:
    """`items` with the images of tool outputs in user messages of their own.

    The outputs of one turn stay together, as APIs require: its images follow the last
    output. Items that this function returned do not change if they are passed in again.
    """
    shown: list[Any] = []
    images: list[dict[str, Any]] = []

    def show() -> None:
        if images:
            message = NeMoGymEasyInputMessage(role="user", content=list(images))
            shown.append(message)
            images.clear()

    for item in items:
        if not isinstance(item, NeMoGymFunctionCallOutput):
            show()
        elif found := _image(item.output):
            rest, url = found
            item = item.model_copy(update={"output": json.dumps(rest)})
            images.append({"type": "input_image", "image_url": url, "detail": "auto"})
        shown.append(item)
    show()
    return shown


def _image(output: Any) -> tuple[dict[str, Any], str] | None:
    """A tool's answer without its image, and the image; None if it has no image."""
    try:
        answer = json.loads(output)
        url = answer.pop("image")
    except (TypeError, ValueError, AttributeError, KeyError):
        return None
    return (answer, url) if isinstance(url, str) else None


class ImageClient(ServerClient):
    """A client that shows the model the images in its requests."""

    async def post(self, server_name: str, url_path: str, **options: Any) -> Any:
        body = options.get("json")
        if isinstance(body, NeMoGymResponseCreateParamsNonStreaming) and isinstance(
            body.input, list
        ):
            shown = with_images(body.input)
            options["json"] = body.model_copy(update={"input": shown})
        return await super().post(server_name, url_path, **options)


class ImageAgent(SimpleAgent):
    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self.server_client = ImageClient(**dict(self.server_client))

    async def responses(
        self,
        request: Request,
        response: Response,
        body: NeMoGymResponseCreateParamsNonStreaming = Body(),  # noqa: B008
    ) -> NeMoGymResponse:
        result = await super().responses(request, response, body)
        # The trajectory for grading and training must be what the model saw.
        result.output = with_images(result.output)
        return result


if __name__ == "__main__":
    ImageAgent.run_webserver()
