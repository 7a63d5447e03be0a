"""Clients that play episodes on a framework's server, and the command that runs them."""

import asyncio
import json
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from ..command_line import exit_status, new_parser, positive
from ..episode.episode import Answer
from ..episode.tools import tools_of
from ..episode.types import Calls, Definitions, Row
from ..errors import NoOracleError
from ..project import load_class, number_of_turns
from ..rollouts.policies import PLANS
from ..settings import ClientSettings
from .episodes import refusal
from .rows import prompt_of, read_rows

MODEL_SECONDS = 600  # that a model may think about one answer


class Player(Protocol):
    """An episode as a framework's client plays it."""

    @property
    def reward(self) -> float:
        """The reward of the calls so far."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer: ...


# Starts an episode of a row of example.jsonl, counted from 0.
Start = Callable[[int], AbstractAsyncContextManager[Player]]


def definitions_of(domain_class: type) -> Definitions:
    """The tools of a class as the Responses API takes them."""
    return [tool.definition() for tool in tools_of(domain_class).values()]


async def play(start: Start, index: int, calls: Calls) -> float:
    """The reward of these calls in an episode of their own."""
    async with start(index) as player:
        for name, arguments in calls:
            await player.call(name, arguments)
    return player.reward


async def converse(
    player: Player, domain_class: type, row: Row, max_turns: int
) -> None:
    """Let a model play an episode: MODEL, over Chat Completions at OPENAI_BASE_URL.

    Ends when the model calls no tool, or after `max_turns` of its answers. Images come
    in a user message after the tools' answers. Raises OSError if the model fails.
    """
    keys = ("name", "description", "parameters")
    tools = [
        {"type": "function", "function": {key: definition[key] for key in keys}}
        for definition in definitions_of(domain_class)
    ]
    messages: list[dict[str, Any]] = [*prompt_of(row)]
    for _ in range(max_turns):
        message = await asyncio.to_thread(_complete, messages, tools)
        messages.append(message)
        images = []
        for call in message.get("tool_calls") or []:
            answer = await _called(player, call["function"])
            result = {"role": "tool", "tool_call_id": call["id"]}
            messages.append({**result, "content": answer.output})
            if image := answer.extra.get("image"):
                images.append({"type": "image_url", "image_url": {"url": image}})
        if images:
            messages.append({"role": "user", "content": images})
        if not message.get("tool_calls"):
            return


async def _called(player: Player, function: dict[str, str]) -> Answer:
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError as error:
        return refusal(f"the arguments are not JSON: {error}")
    return await player.call(function["name"], arguments)


def _complete(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    """The model's next message. Needs no package beside Python's library."""
    settings = ClientSettings.read()
    body = {"model": settings.model, "messages": messages, "tools": tools}
    request = urllib.request.Request(
        f"{settings.openai_base_url.rstrip('/')}/chat/completions",
        json.dumps(body).encode(),
        {
            "Authorization": f"Bearer {settings.openai_api_key}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=MODEL_SECONDS) as response:
        return json.load(response)["choices"][0]["message"]


def run_rollouts(
    connect: Callable[[str], Start], default_url: str, description: str | None
) -> int:
    """The command line of a framework's rollout.py. Returns its exit status.

    `connect` makes episodes on the server at a URL.
    """
    parser = new_parser(description)
    add = parser.add_argument
    add("--policy", choices=["llm", *PLANS], default="llm")
    add("--limit", type=positive, metavar="N", help="play only the first N rows")
    add("--url", metavar="URL", help=f"ENV_URL, else {default_url}")
    options = parser.parse_args()

    def run() -> int:
        settings = ClientSettings.read()
        if options.policy == "llm":
            for name in ("model", "openai_api_key"):
                if getattr(settings, name) is None:
                    needed = f"the environment variable {name.upper()}"
                    parser.error(f"--policy llm needs {needed}")
        named = "env_url" in settings.model_fields_set
        url = options.url or (settings.env_url if named else default_url)
        domain_class, start = load_class(), connect(url)
        rows = read_rows(domain_class)[: options.limit]
        max_turns = number_of_turns()

        async def rollout(index: int, row: Row) -> float:
            if options.policy != "llm":
                calls = PLANS[options.policy](row, definitions_of(domain_class)).calls
                return await play(start, index, calls)
            async with start(index) as player:
                await converse(player, domain_class, row, max_turns)
            return player.reward

        rewards = asyncio.run(_rewards(rollout, rows))
        print(f"mean reward: {sum(rewards) / len(rewards) if rewards else 0.0}")
        return 0 if len(rewards) == len(rows) else 1

    return exit_status("rollout.py", run)


async def _rewards(
    rollout: Callable[[int, Row], Awaitable[float]], rows: list[Row]
) -> list[float]:
    """Play the rows in turn, and print the reward of each that could be played."""
    rewards = []
    for index, row in enumerate(rows):
        try:
            reward = await rollout(index, row)
        except NoOracleError:  # no other row would have one
            raise
        except Exception as error:  # noqa: BLE001 - clients raise errors of their own
            kind = type(error).__name__
            print(f"row {index + 1}: failed: {kind}: {error}", file=sys.stderr)
        else:
            rewards.append(reward)
            print(f"row {index + 1}: reward {reward}", flush=True)
    return rewards
