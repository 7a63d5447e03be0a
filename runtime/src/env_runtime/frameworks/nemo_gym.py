"""NeMo Gym's simple_agent with a loop of its own: no call of a policy ends a run.

simple_agent raises for arguments that its client cannot send, and posts to any path that
the model names. Here, such a call has an error as its output, and only the row's tools are
posted to.

simple_agent gives a tool's whole answer to the model as text. Here, the `image` in it
becomes an `input_image` part of a user message right after the tool outputs.

simple_agent ends an episode at the model's first message without a tool call. Here, that
message goes to the resources server's /reply, if it has one, and the reply is the next
user message. A message beside calls is not sent, and the last call's output says so.
"""

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import Awaitable
from typing import Any
from urllib.parse import quote, urlsplit

from aiohttp import ClientError, ClientResponseError
from fastapi import Body, Request, Response
from pydantic import PrivateAttr, ValidationError

from ..episode.answers import TOO_LONG, says_more, with_note
from ..episode.tools import call_body
from ..episode.types import (
    HARNESS,
    REPLY,
    as_response,
    by_model,
    function_call,
    last_message,
)
from ..errors import one_line
from ..gym_series import (
    NeMoGymEasyInputMessage,
    NeMoGymFunctionCallOutput,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    ServerClient,
    SimpleAgent,
    SimpleAgentRunRequest,
    SimpleAgentVerifyResponse,
    get_first_server_config_dict,
    get_response_json,
    raise_for_status,
)
from ..gym_series import request as http_request
from .gym_record import Record

__all__ = ["EnvironmentAgent"]

# How long a request waits before it looks whether its server still listens, in seconds.
# NeMo Gym's client would try without end.
PATIENCE = 60.0
CLOSE_SECONDS = 10.0

# Where NeMo Gym 0.7 says why an episode ended, if the model said nothing.
TERMINATION = "ng_termination_reason"


class EnvironmentAgent(SimpleAgent):
    async def responses(
        self,
        request: Request,
        response: Response,
        body: NeMoGymResponseCreateParamsNonStreaming = Body(),  # noqa: B008
    ) -> NeMoGymResponse:
        """The whole episode as one response. Raises if the model server fails."""
        episode = Episode(self, request, body)
        result = await episode.play()
        cookies = episode.model_cookies
        if episode.session is None:  # /run verifies with these cookies
            cookies = episode.cookies | cookies
        for name, value in cookies.items():
            response.set_cookie(name, value)
        return result

    async def run(
        self, request: Request, body: SimpleAgentRunRequest
    ) -> SimpleAgentVerifyResponse:
        """The verdict on an episode. Raises if the model server fails.

        If the resources server fails, the sample is masked instead.
        """
        client = RunClient(**dict(self.server_client))
        # This agent, with a client that remembers the session
        agent = self.model_copy(update={"server_client": client})
        try:
            return await SimpleAgent.run(agent, request, body)
        except BaseException as error:
            # In a task of its own: if the request is canceled, nothing can be awaited.
            await asyncio.shield(asyncio.create_task(client.close()))
            if client.path not in (SEED, VERIFY) or not isinstance(error, Exception):
                raise
            return masked(body, client, error)

    def session_of(self, request: Request) -> Any:
        """The session in which an environment server of 0.7 calls this agent, or None."""
        if not hasattr(self, "_require_agent_session"):  # NeMo Gym 0.4
            return None
        name = self._agent_session_id_from_request(request)
        return None if name is None else self._require_agent_session(name)


# ---------------------------------------------------------------------- the loop


class Episode:
    """An episode from the prompt to the model's last answer."""

    def __init__(
        self,
        agent: EnvironmentAgent,
        request: Request,
        body: NeMoGymResponseCreateParamsNonStreaming,
    ) -> None:
        self.agent, self.body = agent, body
        self.session = agent.session_of(request)
        kept = self.session and self.session.resources_cookies
        self.cookies = dict(request.cookies if kept is None else kept)
        self.model_cookies: dict[str, str] = {}
        self.model_path = "/v1/responses"
        if hasattr(agent, "url_path_for_request"):  # NeMo Gym 0.7
            self.model_path = agent.url_path_for_request(self.model_path, request)
        prompt = body.input
        if isinstance(prompt, str):
            prompt = [NeMoGymEasyInputMessage(role="user", content=prompt)]
        self.prompt = with_images(prompt)
        self.output: list[Any] = []
        self.tools = {name_of(tool) for tool in body.tools or []}
        self.lost = False  # whether the resources server has gone
        self.replies: bool | None = None  # whether the class has reply(), if asked for
        self.record = Record(agent, request, self.session)

    async def play(self) -> NeMoGymResponse:
        """The last answer of the model, with the whole trajectory as its output."""
        usage, most = None, self.agent.config.max_steps
        for step in itertools.count(1):
            answer = await self._ask()
            usage = add_usage(usage, answer.usage)
            self.output += answer.output
            following = await self._follow(answer)
            self.output += following
            if not following or self.lost or (most and step >= most):
                break
        silent = not any(item.type != "reasoning" for item in answer.output)
        if silent and not answer.incomplete_details:
            answer.status = "incomplete"
            reason = "incomplete_reasoning" if answer.output else "empty_output"
            answer.metadata = {**(answer.metadata or {}), TERMINATION: reason}
        # The trajectory for grading and training must be what the model saw.
        update = {"output": self.output, "usage": usage}
        complete = not (silent or answer.incomplete_details or following)
        update |= self.record.finish(self.prompt, self.output, complete=complete)
        return answer.model_copy(update=update)

    async def _ask(self) -> NeMoGymResponse:
        """The model's next answer."""
        asked = self.prompt + self.output
        self.record.turn(asked)
        response = await self.agent.server_client.post(
            server_name=self.agent.config.model_server.name,
            url_path=self.model_path,
            json=self.body.model_copy(update={"input": asked}),
            cookies=self.model_cookies,
        )
        await raise_for_status(response)
        self.model_cookies = cookies_of(response)
        found = mended(await json_of(response))
        try:
            answer = NeMoGymResponse.model_validate(found)
        except ValidationError as error:
            text = f"the model server answered with something other than a response: {json.dumps(found)}"
            raise RuntimeError(text) from error
        self.record.answer(answer)
        return answer

    async def _follow(self, answer: NeMoGymResponse) -> list[Any]:
        """Run the answer's calls, or ask for a reply. Returns [] if the episode is over."""
        if answer.incomplete_details:
            return []
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            reply = await self._reply(last_answer(answer.output))
            return [reply] if reply else []
        if not getattr(self.agent.config, "execute_tools", True):
            return []  # the environment server makes the calls
        outputs = [await self._call(call) for call in calls]
        if says_more(answer.output) and await self._replies():
            outputs[-1].output = with_note(outputs[-1].output)
        return with_images(outputs)

    async def _call(self, call: Any) -> NeMoGymFunctionCallOutput:
        """The output of a call. Whatever is wrong with it, the model can read it."""
        began, status = time.time(), None
        try:
            if self.lost:
                raise ConnectionError("the environment does not answer")
            body = call_body(self.tools, call.name, call.arguments)
            response = await self._post(call.name, json.dumps(body))
            status = response.status
            output = (await response.read()).decode("utf-8", "replace")
        except (ValueError, ClientError, OSError) as error:
            self.lost = self.lost or not isinstance(error, ValueError)
            output = json.dumps({"output": f"error: {one_line(error)}"})
        self.record.call(call, output, began, status)
        return NeMoGymFunctionCallOutput(
            type="function_call_output", call_id=call.call_id, output=output
        )

    async def _reply(self, text: str) -> NeMoGymEasyInputMessage | None:
        """The environment's reply to the model's message; None if the episode is over."""
        if not text:
            return None
        # A model chooses the path of a call, but no header, so it cannot post here.
        try:
            body = json.dumps({"answer": text})
            answer = await self._post(REPLY, body, {HARNESS: "1"})
            if answer.status == 413:  # the model wrote too much
                return NeMoGymEasyInputMessage(role="user", content=TOO_LONG)
            if answer.status != 200:  # the class has no reply()
                return None
            message = (await get_response_json(answer))["message"]
        except (ValueError, ClientError, OSError):
            return None
        return message and NeMoGymEasyInputMessage.model_validate(message)

    async def _replies(self) -> bool:
        """Whether the class answers messages. An empty one reaches no class."""
        if self.replies is None and not self.lost:
            with contextlib.suppress(ValueError, ClientError, OSError):
                body = json.dumps({"answer": ""})
                answer = await self._post(REPLY, body, {HARNESS: "1"})
                self.replies = answer.status == 200
        return bool(self.replies)

    async def _post(
        self, name: str, body: str, headers: dict[str, str] | None = None
    ) -> Any:
        """The resources server's answer. Raises OSError if nothing listens there."""
        agent = self.agent
        path = f"/{quote(name, safe='')}"
        headers = {"Content-Type": "application/json", **(headers or {})}
        options: dict[str, Any] = {"data": body.encode(), "cookies": self.cookies}
        if self.session is not None:
            access = self.session.tool_access
            if access is None:
                raise ValueError("this session has no tools")
            url = str(access.base_url).rstrip("/")
            options["headers"] = dict(access.headers) | headers
            asked = http_request("POST", f"{url}{path}", _internal=True, **options)
        else:
            server = agent.config.resources_server
            if server is None:
                raise ValueError("this agent has no resources server")
            url = url_of_server(agent.server_client, server.name)
            options["headers"] = headers
            asked = agent.server_client.post(server.name, path, **options)
        response = await while_served(url, asked)
        self.cookies |= cookies_of(response)
        return response


def name_of(tool: Any) -> Any:
    """The name of a tool in a request; None if it has none."""
    return tool.get("name") if isinstance(tool, dict) else getattr(tool, "name", None)


def last_answer(output: list[Any]) -> str:
    """The text of the last message in the model's last turn, "" if it has none."""
    return last_message([*itertools.takewhile(by_model, reversed(output))][::-1])


async def json_of(response: Any) -> Any:
    """A model server's answer. Lone surrogates, which no request may hold, become "?"."""
    try:
        return await get_response_json(response)
    except ValueError:
        text = json.dumps(json.loads(await response.read()), ensure_ascii=False)
        return json.loads(text.encode("utf-8", "replace"))


def mended(response: Any) -> Any:
    """A model's answer in which every call has an id, and texts as name and arguments."""
    if not isinstance(response, dict) or not isinstance(response.get("output"), list):
        return response
    output = []
    for item in response["output"]:
        if isinstance(item, dict) and item.get("type") == "function_call":
            name, arguments, call_id = map(item.get, ("name", "arguments", "call_id"))
            name = name if isinstance(name, str) else json.dumps(name)
            call_id = call_id if isinstance(call_id, str) else None
            item = item | function_call(name, arguments, call_id)
        output.append(item)
    return response | {"output": output}


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
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
        return None
    return (answer, url) if isinstance(url, str) else None


def add_usage(total: Any, part: Any) -> Any:
    """The tokens of two answers. Either may be None."""
    if total is None or part is None:
        return total or part
    sums = {
        name: getattr(total, name) + getattr(part, name)
        for name in ("input_tokens", "output_tokens", "total_tokens")
    }
    for details, name in (
        ("input_tokens_details", "cached_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
    ):
        ours, theirs = getattr(total, details), getattr(part, details)
        if ours and theirs:
            count = (getattr(ours, name) or 0) + (getattr(theirs, name) or 0)
            sums[details] = ours.model_copy(update={name: count})
    return total.model_copy(update=sums)


# ---------------------------------------------------------------------- requests

SEED, VERIFY = "/seed_session", "/verify"


class RunClient(ServerClient):
    """The client of one /run. It keeps the session's cookie and the path of its last request."""

    _path: str = PrivateAttr(default="")
    _server: str = PrivateAttr(default="")
    _cookies: dict[str, str] = PrivateAttr(default_factory=dict)
    _response: Any = PrivateAttr(default=None)

    @property
    def path(self) -> str:
        """The path of the last request."""
        return self._path

    @property
    def response(self) -> Any:
        """The episode as it was to be verified; None before."""
        return self._response

    async def post(self, server_name: str, url_path: str, **options: Any) -> Any:
        self._path = url_path
        asked = super().post(server_name, url_path, **options)
        if url_path not in (SEED, VERIFY):
            return await asked
        if url_path == VERIFY:
            self._response = options["json"]["response"]
        answer = await while_served(url_of_server(self, server_name), asked)
        if url_path == SEED and answer.status == 200:
            self._server, self._cookies = server_name, cookies_of(answer)
            if not self._cookies:
                raise RuntimeError("the answer has no cookie")
        return answer

    async def close(self) -> None:
        """End the session, if there is one and the server answers."""
        if self._cookies:
            asked = super().post(
                self._server, "/close_session", json={}, cookies=self._cookies
            )
            with contextlib.suppress(ClientError, OSError):
                await asyncio.wait_for(asked, CLOSE_SECONDS)


def masked(
    body: SimpleAgentRunRequest, client: RunClient, error: Exception
) -> SimpleAgentVerifyResponse:
    """The sample of an episode without a verdict."""
    problem = f"{type(error).__name__}: {error}"
    if isinstance(error, ClientResponseError):  # its text has cookies
        content = getattr(error, "response_content", b"")
        problem = f"{error.status}: {content.decode('utf-8', 'replace')}"
    reason = f"no answer from {client.path}: {one_line(problem)}"
    return SimpleAgentVerifyResponse.model_validate(
        {
            "responses_create_params": body.responses_create_params,
            "response": client.response or as_response("", [], []),
            "reward": 0.0,
            "mask_sample": True,
            "failure_reason": reason,
        }
    )


def cookies_of(response: Any) -> dict[str, str]:
    """The cookies that an answer sets."""
    return {name: morsel.value for name, morsel in response.cookies.items()}


def url_of_server(client: ServerClient, name: str) -> str:
    """The address of one of NeMo Gym's servers."""
    config: Any = get_first_server_config_dict(client.global_config_dict, name)
    return client._build_server_base_url(config)


async def while_served(url: str, request: Awaitable[Any]) -> Any:
    """The answer to a request. Raises ConnectionError if nothing listens at `url`."""
    task = asyncio.ensure_future(request)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=PATIENCE)
            if not task.done() and not await _listens(url):
                raise ConnectionError(f"no server listens at {url}")
        return await task
    finally:
        task.cancel()


async def _listens(url: str) -> bool:
    address = urlsplit(url)
    try:
        _, writer = await asyncio.open_connection(address.hostname, address.port)
    except OSError:
        return False
    writer.close()
    return True
