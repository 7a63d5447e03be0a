"""NeMo Gym's simple_agent, except that the environment can show images, and reply.

simple_agent gives a tool's whole answer to the model as text. Here, the `image` in it
becomes an `input_image` part of a user message right after the tool outputs.

simple_agent ends an episode at the model's first message without a tool call. Here, that
message goes to the resources server's /reply, if it has one, and the reply is the next
user message.
"""

import itertools
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
from nemo_gym.server_utils import ServerClient, get_response_json
from nemo_gym.server_utils import request as http_request
from responses_api_agents.simple_agent.app import SimpleAgent

from ..episode.types import by_model, last_message

__all__ = ["EnvironmentAgent"]

# NeMo Gym 0.7's record of one part, which would stand for the whole episode.
TRAJECTORY = "_ng_trajectory"


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


def last_answer(output: list[Any]) -> str:
    """The text of the last message in the model's last turn, "" if it has none."""
    return last_message([*itertools.takewhile(by_model, reversed(output))][::-1])


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


class EnvironmentAgent(SimpleAgent):
    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self.server_client = ImageClient(**dict(self.server_client))

    async def responses(
        self,
        request: Request,
        response: Response,
        body: NeMoGymResponseCreateParamsNonStreaming = Body(),  # noqa: B008
    ) -> NeMoGymResponse:
        """The whole episode. Its parts, from reply to reply, are simple_agent's."""
        prompt = body.input
        if isinstance(prompt, str):
            prompt = [NeMoGymEasyInputMessage(role="user", content=prompt)]
        output: list[Any] = []
        usage, left = None, self.config.max_steps
        update: dict[str, Any] = {}
        while True:
            part = body.model_copy(update={"input": prompt + output})
            # This agent, with `left` answers of the model before it ends an episode
            config = self.config.model_copy(update={"max_steps": left})
            agent = self.model_copy(update={"config": config})
            result = await SimpleAgent.responses(agent, request, response, part)
            output += result.output
            usage = add_usage(usage, result.usage)
            if left:
                turns = itertools.groupby(result.output, by_model)
                left -= sum(by_the_model for by_the_model, _ in turns)
            reply = None
            if not result.incomplete_details:
                reply = await self._reply(request, result)
            if reply is not None:
                output.append(reply)
            if reply is None or (left is not None and left <= 0):
                break
            if hasattr(result, TRAJECTORY):
                update[TRAJECTORY] = None
        # The trajectory for grading and training must be what the model saw.
        update |= {"output": with_images(output), "usage": usage}
        return result.model_copy(update=update)

    async def _reply(
        self, request: Request, result: NeMoGymResponse
    ) -> NeMoGymEasyInputMessage | None:
        """The environment's reply to the model's message; None if the episode is over."""
        text = last_answer(result.output)
        if not text:
            return None
        # A model chooses the path of a call, but no header, so it cannot post here.
        message: dict[str, Any] = {
            "json": {"answer": text},
            "headers": {"X-Harness": "1"},
        }
        session, server = self._session(request), self.config.resources_server
        if session is not None and (access := session.tool_access) is not None:
            message["headers"] |= access.headers
            answer = await http_request(
                method="POST",
                url=f"{str(access.base_url).rstrip('/')}/reply",
                cookies=session.resources_cookies,
                _internal=True,
                **message,
            )
        elif session is None and server is not None:
            answer = await self.server_client.post(
                server_name=server.name,
                url_path="/reply",
                cookies=request.cookies,
                **message,
            )
        else:
            return None
        if answer.status != 200:  # the class has no reply()
            return None
        message = (await get_response_json(answer))["message"]
        return message and NeMoGymEasyInputMessage.model_validate(message)

    def _session(self, request: Request) -> Any:
        """The session in which an environment server of 0.7 calls this agent, or None."""
        if not hasattr(self, "_require_agent_session"):  # NeMo Gym 0.4
            return None
        name = self._agent_session_id_from_request(request)
        return None if name is None else self._require_agent_session(name)


def add_usage(total: Any, part: Any) -> Any:
    """The tokens of two parts of an episode. Either may be None."""
    if total is None or part is None:
        return total or part
    names = ("input_tokens", "output_tokens", "total_tokens")
    sums = {name: getattr(total, name) + getattr(part, name) for name in names}
    return total.model_copy(update=sums)
