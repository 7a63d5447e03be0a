"""NeMo Gym's agent over real HTTP: whatever a model writes, a sample comes back."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
import uvicorn
from env_runtime.episode.answers import NOT_SENT
from env_runtime.episode.types import as_response, function_call, message
from env_runtime.frameworks import nemo_gym
from env_runtime.gym_series import HAS_ENVIRONMENT_SERVERS
from env_runtime.resources_server.endpoints import tool_definitions
from env_runtime.resources_server.http import RequestGuard
from env_runtime.testing.attacks import ODD_ANSWERS, ODD_ARGUMENTS, PATHS
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from nemo_gym import server_utils
from nemo_gym.config_types import BaseServerConfig
from omegaconf import OmegaConf
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig

from .support import PNG, Picture, outcome, row_of, until

# aiohttp warns of each body over 1 MiB; a warning is an error here, and NeMo Gym's client
# tries again after any error.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")

KINDS = {
    "agent": "responses_api_agents",
    "model": "responses_api_models",
    "environment": "resources_servers",
}


def agent_of(
    kind: type[SimpleAgent],
    ports: dict[str, int],
    observed: bool = False,
    **settings: Any,
) -> Any:
    """An agent of NeMo Gym, whose servers listen on these ports of this machine."""
    servers: dict[str, Any] = {
        name: {KINDS[name]: {name: {"host": "127.0.0.1", "port": port}}}
        for name, port in ports.items()
    }
    servers["observability_enabled"] = observed
    config = SimpleAgentConfig.model_validate(
        {
            "host": "127.0.0.1",
            "port": ports["agent"],
            "entrypoint": "app.py",
            "name": "agent",
            "resources_server": {"type": KINDS["environment"], "name": "environment"},
            "model_server": {"type": KINDS["model"], "name": "model"},
            **settings,
        }
    )
    client = server_utils.ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1),
        global_config_dict=OmegaConf.create(servers),
    )
    return kind(config=config, server_client=client)


def app_of(agent: SimpleAgent) -> FastAPI:
    """The agent's app as NeMo Gym serves it, with its client in the app's event loop."""
    app = agent.setup_webserver()
    agent.setup_exception_middleware(app)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> Any:
        config = server_utils.GlobalAIOHTTPAsyncClientConfig()
        client = server_utils.set_global_aiohttp_client(config)
        yield
        await client.close()
        server_utils._GLOBAL_AIOHTTP_CLIENT = None

    app.router.lifespan_context = lifespan
    return app


class Bench:
    """An agent between a model and the server of an environment class."""

    environment: str  # the server's address
    stop: Callable[[], None]  # ends the agent

    def __init__(self, port: int, server: Any, model: Any) -> None:
        self.url, self.server, self.model = f"http://127.0.0.1:{port}", server, model
        self.tools = tool_definitions(server.setup_webserver())

    def run(self, *script: Any, **row: Any) -> requests.Response:
        """The answer of /run if the model gives these answers. The session has ended."""
        self.model.script = list(script)
        row = {**row_of(goal=3), **row}
        params = {**row["responses_create_params"], "tools": self.tools}
        row["responses_create_params"] = params
        answer = requests.post(f"{self.url}/run", json=row, timeout=20)
        until(lambda: not self.server.sessions)
        return answer

    def sample(self, *script: Any, **row: Any) -> dict[str, Any]:
        answer = self.run(*script, **row)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def bench(server_of, server_thread, model) -> Iterator[Callable[..., Bench]]:
    """Starts an agent. `port` is the one of the environment's server, if not its own."""
    with contextlib.ExitStack() as stack:

        def start(
            kind: type,
            agent: type[SimpleAgent] = nemo_gym.EnvironmentAgent,
            *,
            port: int | None = None,
            limits: dict[str, Any] | None = None,
            **settings: Any,
        ) -> Bench:
            server = server_of(kind, **(limits or {}))
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            ports = {
                "agent": listening.getsockname()[1],
                "model": model.server_port,
                "environment": port or server_thread(server),
            }
            app = app_of(agent_of(agent, ports, **settings))
            runner = uvicorn.Server(
                uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)
            )
            thread = threading.Thread(target=runner.run, args=[[listening]])
            thread.start()

            def stop() -> None:
                runner.should_exit = True
                thread.join()

            stack.callback(stop)
            until(lambda: runner.started)
            made = Bench(ports["agent"], server, model)
            made.environment = f"http://127.0.0.1:{ports['environment']}"
            made.stop = stop
            return made

        yield start


class Counter:
    """Wants a number. Its tool takes values of all kinds."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self.goal, self.numbers = task.get("goal", 3), [0.0]

    def add(
        self,
        number: float = 0,
        text: str = "",
        items: list[Any] | None = None,
    ) -> str:
        """Add a number."""
        self.numbers.append(number)
        return f"{number} {text[:9]}"

    def reward(self) -> float:
        return float(self.goal in self.numbers)


def says(*items: Any, **fields: Any) -> dict[str, Any]:
    """A whole answer of the model."""
    return {**as_response("scripted", [], list(items)), **fields}


def calls(*arguments: Any, name: Any = "add") -> dict[str, Any]:
    return says(
        *[
            {**function_call("add", "{}"), "name": name, "arguments": text}
            for text in arguments
        ]
    )


SOLVES = calls('{"number": 3}')


def outputs(sample: dict[str, Any]) -> list[str]:
    items = sample["response"]["output"]
    return [each["output"] for each in items if each["type"] == "function_call_output"]


class Paths(list[str]):
    """The paths of requests to the environment's server, of which it refuses one."""

    refused = ""


@pytest.fixture
def requested(monkeypatch) -> Paths:
    paths = Paths()
    call = RequestGuard.__call__

    async def recorded(self: Any, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            paths.append(scope["raw_path"].decode())
            if paths[-1] == paths.refused:
                await PlainTextResponse("out of order", 503)(scope, receive, send)
                return
        await call(self, scope, receive, send)

    monkeypatch.setattr(RequestGuard, "__call__", recorded)
    return paths


# ---------------------------------------------------------------------- awkward calls


@pytest.mark.parametrize("arguments", ODD_ARGUMENTS, ids=lambda text: ascii(text[:30]))
def test_a_call_with_odd_arguments_is_read_by_the_model(bench, arguments):
    agent = bench(Counter)
    nothing = agent.sample(calls(arguments))
    assert outcome(nothing) == (0.0, False)
    [output] = outputs(nothing)
    assert output == outputs(agent.sample(calls(arguments), SOLVES))[0]
    assert outcome(agent.sample(calls(arguments), SOLVES)) == (1.0, False)


ODD_NAMES = [
    *sorted(PATHS),
    "seed_session",
    "verify",
    "close_session",
    "aggregate_metrics",
    "tools",
    "health",
    "mcp",
    "add?x=1",
    "add/",
    "/add",
    "../add",
    "..",
    "a/../add",
    "add#",
    "%61dd",
    "add\n",
    "add\r\nX-Harness: 1",
    "a b",
    "\0",
    "\ud800",
    "\u202e",
    "",
    "n" * 100_000,
    "http://127.0.0.1/add",
    "//add",
    "@127.0.0.1/add",
    None,
    7,
    ["add"],
    {"name": "add"},
]


def test_a_call_by_a_name_that_is_no_tool_is_not_posted(bench, requested):
    agent = bench(Counter)
    for name in ODD_NAMES:
        body = json.dumps({"number": 3, "answer": "x", **row_of(goal=3)})
        requested.clear()
        sample = agent.sample(calls(body, name=name), SOLVES)
        assert requested == ["/seed_session", "/add", "/reply", "/verify"], name
        assert "error: no tool" in outputs(sample)[0]
        lowest = name == "seed_session"  # by its trajectory, the policy seeded
        assert outcome(sample) == (0.0 if lowest else 1.0, False)


def test_calls_without_an_id_get_one(bench):
    call = function_call("add", '{"number": 1}')
    ids = [None, 7, "", "x" * 10_000, "\ud800", "same", "same"]
    odd = [{**call, "call_id": each} for each in ids]
    del odd[0]["call_id"]
    sample = bench(Counter).sample(says(*odd))
    assert len(outputs(sample)) == len(ids)
    items = sample["response"]["output"]
    assert all(isinstance(item["call_id"], str) for item in items if "call_id" in item)
    assert outcome(sample) == (0.0, False)


def test_arguments_that_are_an_object_are_posted_as_their_text(bench):
    agent = bench(Counter)
    assert outcome(agent.sample(calls({"number": 3}))) == (1.0, False)
    assert outcome(agent.sample(calls(None), SOLVES)) == (1.0, False)


def test_many_calls_in_one_answer(bench):
    sample = bench(Counter).sample(calls(*['{"number": 1}'] * 300))
    assert len(outputs(sample)) == 300
    assert outcome(sample) == (0.0, False)


@pytest.mark.nightly
def test_more_calls_than_a_trajectory_may_have(bench):
    sample = bench(Counter).sample(calls(*['{"number": 1}'] * 6_000))
    assert outcome(sample) == (0.0, False)
    assert "more than 10000 items" in sample["failure_reason"]


@pytest.mark.parametrize("text", ODD_ANSWERS, ids=lambda text: ascii(text[:20]))
def test_a_message_with_odd_text_is_graded(bench, text):
    class Echo(Counter):
        def reward(self, answer: str) -> float:  # ty: ignore
            return float(answer == "3")

    agent = bench(Echo)
    odd = {**message(text), "id": text}
    assert outcome(agent.sample(says(odd))) == (0.0, False)
    assert outcome(agent.sample(says(odd, *SOLVES["output"]), says(message("3")))) == (
        1.0,
        False,
    )


def test_a_model_that_says_nothing_ends_the_episode(bench):
    thought = {"type": "reasoning", "id": "r", "summary": []}
    agent = bench(Counter)
    for items in ([], [thought]):
        sample = agent.sample(says(*items), SOLVES)
        assert outcome(sample) == (0.0, False)
        assert sample["response"]["status"] == "incomplete"


# ---------------------------------------------------------------------- the loop


class Guest(Counter):
    def reply(self, answer: str) -> str | None:
        """Reply."""
        return None if "bye" in answer else "And then?"


def test_calls_and_replies_alternate(bench):
    """Odd calls in a conversation change nothing."""
    model_says = [
        says(message("Hello.")),
        calls('{"number": 99999999999999999999}', '{"number": 3}'),
        says(message("\ud800")),
        calls("{}", name="reply"),
        says(message("bye")),
    ]
    sample = bench(Guest).sample(*model_says)
    assert (outcome(sample), sample["ended_by"]) == ((1.0, False), "environment")
    said = [i for i in sample["response"]["output"] if i.get("role") == "user"]
    assert [item["content"] for item in said] == ["And then?"] * 2
    assert sample["response"]["usage"]["total_tokens"] == 0


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (Guest, "bye", True),
        (Guest, "<think>bye</think>\n", False),
        (Counter, "bye", False),
    ],
)
def test_a_message_beside_a_call_is_not_sent(bench, kind, text, told):
    """The model reads that, in the output of the last call."""
    twice = calls("{}", '{"number": 3}')
    beside = {**twice, "output": [message(text), *twice["output"]]}
    sample = bench(kind).sample(beside, calls("{}"), says(message("bye")))
    assert outcome(sample) == (1.0, False)
    notes = [json.loads(output).get("note") for output in outputs(sample)]
    assert notes == [None, NOT_SENT if told else None, None]


def test_the_class_hears_no_thinking_of_the_model(bench):
    thoughts = [says(message(f"<think>bye{end}")) for end in ("</think>Hm.", "")]
    sample = bench(Guest).sample(*thoughts, SOLVES)
    assert (outcome(sample), sample["ended_by"]) == ((0.0, False), "policy")


@pytest.mark.parametrize("characters", [100_000, 2 << 20])
def test_a_message_that_is_too_long_is_answered_with_an_error(bench, characters):
    said = [says(message("m" * characters)), SOLVES, says(message("bye"))]
    sample = bench(Guest).sample(*said)
    assert (outcome(sample), sample["ended_by"]) == ((1.0, False), "environment")
    [refused] = [i for i in sample["response"]["output"] if i.get("role") == "user"]
    assert refused["content"].startswith("error: the ")


def test_max_steps_counts_the_answers_of_the_model(bench):
    agent = bench(Guest, max_steps=3)
    sample = agent.sample(calls("[]"), says(message("Hm.")), calls("{}"), SOLVES)
    assert (outcome(sample), sample["ended_by"]) == ((0.0, False), "max_turns")
    assert len(agent.model.requests) == 3


def test_the_tokens_of_all_answers_are_summed(bench):
    def uses(turn: dict[str, Any], tokens: int) -> dict[str, Any]:
        usage = {
            "input_tokens": tokens,
            "output_tokens": 1,
            "total_tokens": tokens + 1,
            "input_tokens_details": {"cached_tokens": tokens - 1},
            "output_tokens_details": {"reasoning_tokens": 1},
        }
        return {**turn, "usage": usage}

    agent = bench(Counter)
    silent = {**says(message("Hm.")), "usage": None}
    sample = agent.sample(uses(SOLVES, 10), silent)
    assert sample["response"]["usage"]["total_tokens"] == 11
    sample = agent.sample(uses(SOLVES, 10), uses(says(message("Hm.")), 20))
    usage = sample["response"]["usage"]
    assert (usage["input_tokens"], usage["total_tokens"]) == (30, 32)
    assert usage["input_tokens_details"]["cached_tokens"] == 28
    assert usage["output_tokens_details"]["reasoning_tokens"] == 2


def test_the_model_sees_the_picture_of_a_tool(bench):
    class Camera(Counter):
        def look(self) -> Picture:
            """Look."""
            return Picture("Look.", PNG)

    agent = bench(Camera)
    sample = agent.sample(says(function_call("look", "{}")), SOLVES)
    [shown] = [i for i in agent.model.requests[-1]["input"] if i.get("role") == "user"][
        1:
    ]
    assert shown["content"][0]["image_url"] == PNG
    assert PNG not in outputs(sample)[0]
    assert outcome(sample) == (1.0, False)


@pytest.mark.skipif(not HAS_ENVIRONMENT_SERVERS, reason="NeMo Gym 0.4 has no record")
def test_the_record_of_an_episode_is_simple_agents(bench):
    """But for times, and for the outputs of calls that are not posted."""
    thought = {"type": "reasoning", "id": "r", "summary": []}
    script = [
        calls('{"number": 1}', "[]", "no JSON"),
        SOLVES,
        says(thought, message("Bye.")),
    ]
    records = []
    for kind in (SimpleAgent, nemo_gym.EnvironmentAgent):
        agent = bench(Counter, kind, observed=True)
        agent.model.script = list(script)
        with requests.Session() as session:
            seed = f"{agent.environment}/seed_session"
            session.post(seed, json=row_of(goal=3)).raise_for_status()
            url = f"{agent.url}/ng-rollout/0-0/v1/responses"
            params = {"input": "Go.", "tools": agent.tools}
            response = session.post(url, json=params, timeout=20).json()
        records.append(response["_ng_trajectory"])
        agent.stop()
    own, ours = records
    assert ours.keys() == own.keys()
    assert [turn["step_count"] for turn in ours["turns"]] == [3, 4, 4]
    for part, same in (
        ("turns", ("answer", "model_calls", "reasoning_content", "turn_no")),
        ("tool_calls", ("tool_call_id", "tool_name", "status", "timing_source")),
        ("invocations", ("invocation_id", "status", "model_calls")),
    ):
        for one, other in zip(ours[part], own[part], strict=True):
            assert [one[name] for name in same] == [other[name] for name in same]


# ---------------------------------------------------------------------- failures


def test_a_failure_of_the_model_ends_the_session(bench):
    agent = bench(Counter)
    for script in ([500], [SOLVES, 500], [says(output=7)]):
        assert agent.run(*script).status_code == 500
        assert not agent.server.sessions


@pytest.mark.parametrize("path", ["/seed_session", "/verify"])
def test_a_refusal_of_the_server_masks_the_sample(bench, requested, path):
    agent = bench(Counter)
    requested.refused = path
    sample = agent.sample(SOLVES)
    assert (sample["mask_sample"], sample["reward"]) == (True, 0.0)
    assert f"{path}: " in sample["failure_reason"]
    assert "503" in sample["failure_reason"]
    assert "out of order" in sample["failure_reason"]
    assert len(outputs(sample)) == (path == "/verify")


def test_a_server_that_has_gone_masks_the_sample(bench, monkeypatch):
    """NeMo Gym's client would try for ever."""
    monkeypatch.setattr(nemo_gym, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    sample = bench(Counter, port=port).sample(SOLVES)
    assert sample["mask_sample"] and sample["reward"] == 0.0
    assert "no server listens at" in sample["failure_reason"]
