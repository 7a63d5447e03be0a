"""An episode that a person plays, one turn after the other."""

import contextlib
import json
import threading
import time
from typing import Any

from ..episode.types import Row
from ..errors import RolloutError
from ..evaluation.client import Client, check_verdict
from ..evaluation.policies import Turn
from ..evaluation.stats import PLAYER, SECONDS
from ..evaluation.trajectory import Item, as_response, function_call, message


class PlayedEpisode:
    """An episode of the row with the number `task`, counted from 0.

    It ends as a model's does: after `max_turns` turns, or when nothing answers a message.
    """

    def __init__(
        self, client: Client, task: int, row: Row, player: str, max_turns: int
    ) -> None:
        self.client, self.task, self.row, self.player = client, task, row, player
        self.definitions = client.tools_in(row)
        self.turns_left = max_turns
        self.over = False  # nothing is left but to grade it
        self.out_of_turns = False
        self.output: list[Item] = []
        self.rollout: dict[str, Any] | None = None  # once it is graded
        self.kept: dict[str, int] = {}  # the images that the page has
        self._lock = threading.Lock()  # a page may send two requests at a time
        self._session = client.session()
        self._session.post("/seed_session", row)
        self._started = time.monotonic()

    def call(self, tool: str, arguments: Any) -> list[Item]:
        """Call a tool. Returns the new items of the trajectory. Raises RolloutError."""
        return self._act(Turn([function_call(tool, json.dumps(arguments))]))

    def say(self, text: str) -> list[Item]:
        """Send a message. Returns the new items: itself, and the environment's reply."""
        return self._act(Turn([message(text)]))

    def _act(self, turn: Turn) -> list[Item]:
        with self._lock:
            if self.over or self.rollout:
                raise RolloutError("the episode is over: start another one")
            answers = self._session.respond(self.definitions, turn)
            self.turns_left -= 1
            self.out_of_turns = bool(answers) and self.turns_left == 0
            self.over = not answers or self.out_of_turns
            self.output += (new := [*turn.items, *answers])
            return new

    def grade(self) -> dict[str, Any]:
        """End the episode. Returns its rollout. Raises RolloutError if it has no reward."""
        with self._lock:
            if self.rollout is None:
                seconds = time.monotonic() - self._started
                response = as_response(self.player, self.definitions, self.output)
                body = {**self.row, "response": response}
                self.over = True
                verdict = self._session.post("/verify", body)
                check_verdict(verdict, self.client.reward_range())
                self.rollout = {
                    "agent_ref": {"name": "play.py"},
                    "response": response,
                    "out_of_turns": self.out_of_turns,
                    **verdict,
                    PLAYER: self.player,
                    SECONDS: round(seconds, 3),
                }
            return self.rollout

    def close(self) -> None:
        """End the episode without a grade, if it has none."""
        if self.rollout is None:
            with contextlib.suppress(RolloutError):
                self._session.post("/close_session", {})

    def steps(self) -> list[Any]:
        """The calls and the messages so far, as a row's `oracle` has them."""
        steps: list[Any] = []
        for item in self.output:
            if item["type"] == "function_call":
                steps.append([item["name"], json.loads(item["arguments"])])
            elif item.get("role") == "assistant":
                steps.append("".join(part["text"] for part in item["content"]))
        return steps
