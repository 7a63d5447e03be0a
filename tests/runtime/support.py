"""Environment classes, clients and waiting, for several test modules."""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from env_runtime import project
from env_runtime.evaluation.rows import write_rows
from env_runtime.server import SessionServer
from fastapi.testclient import TestClient

# An item of a trajectory, and its content
MESSAGE = {"type": "message", "id": "", "role": "assistant", "status": "completed"}
TEXT = {"type": "output_text", "text": "", "annotations": []}

Play = Callable[[httpx.AsyncClient], Awaitable[Any]]


def at_once(server: SessionServer, plays: list[Play]) -> list[Any]:
    """The results of coroutine functions that run together, each with its own client."""

    async def main() -> list[Any]:
        app = server.setup_webserver()
        transport = httpx.ASGITransport(app)

        async def run(play: Play) -> Any:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://server", timeout=60
            ) as client:
                return await play(client)

        async with app.router.lifespan_context(app):
            return await asyncio.gather(*map(run, plays))

    return asyncio.run(main())


def rows_file(folder: Path, *rows: dict[str, Any]) -> str:
    """The path of a file in `folder`, with these rows."""
    path = folder / "rows.jsonl"
    write_rows(path, rows)
    return str(path)


def until(condition: Callable[[], Any], seconds: float = 10) -> None:
    """Waits for something that another thread or process is about to do."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.005)


@contextlib.contextmanager
def serving(
    *arguments: str, **variables: str
) -> Generator[tuple[subprocess.Popen[str], str]]:
    """`python ARGUMENTS` in nemo_gym/, which serves: the process, and its URL."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=project.here().gym,
        env={**os.environ, "HOST": "127.0.0.1", "PORT": "0", **variables},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    try:
        for line in process.stderr:
            if match := re.search(r"running on (http://\S+)", line):
                yield process, match[1]
                return
        raise AssertionError("the server did not start")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


class Barrier:
    """Holds up a method of an environment class until the test opens it."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self.opened = threading.Event()

    def wait(self) -> None:
        self.reached.release()
        assert self.opened.wait(60)

    def await_arrival(self) -> None:
        assert self.reached.acquire(timeout=60)


def recording() -> tuple[dict[str, type], list[int]]:
    """Classes that record the thread of each method call in a list, and the list."""
    threads = []

    def record() -> None:
        threads.append(threading.get_ident())

    class Recording:
        def __init__(self, task: dict) -> None:
            record()

        def move(self) -> str:
            """Move."""
            record()
            return "moved"

        def reward(self) -> float:
            record()
            return 1.0

        def metrics(self) -> dict[str, float]:
            record()
            return {}

        def close(self) -> None:
            record()

    class Async(Recording):
        async def move(self) -> str:  # type: ignore
            """Move."""
            await asyncio.sleep(0)
            record()
            return "moved"

    class NotBlocking(Recording):
        blocking = False

    return {"blocking": Recording, "async": Async, "not blocking": NotBlocking}, threads


def play_an_episode(
    client: TestClient, row: dict[str, Any], verify: Callable[..., float]
) -> None:
    """Plays a class of `recording`, or one with its tool and reward, to the end."""
    assert client.post("/seed_session", json=row).status_code == 200
    for _ in range(3):
        assert client.post("/move", json={}).json() == {"output": "moved"}
    assert verify(client, row) == 1.0


def slow_class(barrier: Barrier) -> tuple[type, list[str]]:
    """A class whose move(wait=True) waits at the barrier, and the calls that it saw."""
    calls = []

    class Slow:
        def __init__(self, task: dict) -> None:
            calls.append("made")

        def move(self, wait: bool) -> str:
            """Move."""
            if wait:
                barrier.wait()
            calls.append(f"moved {wait}")
            return "moved"

        def reward(self) -> float:
            return 0.0

        def close(self) -> None:
            calls.append("closed")

    return Slow, calls


class Picture(NamedTuple):
    output: str
    image: str


# An image of one pixel
PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABAQAAAAA3bvkkAAAACklEQVR4nGNg"
    "AAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)


class Camera:
    """Answers with an image."""

    def __init__(self, task: dict) -> None:
        pass

    def look(self) -> Picture:
        """Look."""
        return Picture("A click.", PNG)

    def reward(self) -> float:
        return 0.0


class Riddle:
    """Tells its answer after one wrong guess."""

    blocking = False

    def __init__(self, task: dict) -> None:
        self.word = task.get("word", "crane")
        self.guesses = []

    def guess(self, word: str) -> str:
        """Guess."""
        if self.guesses:
            raise ValueError("the game is over")
        self.guesses.append(word)
        return "Right." if word == self.word else f"Wrong: it was {self.word}."

    def reward(self) -> float:
        return float(self.word in self.guesses)


def seed_by_name(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """A seed as NeMo Gym 0.7's environment servers post it."""
    return {
        **close_by_name(name),
        "task_id": {"taskset": "example", "task_id": "0"},
        "task_data": {"ground_truth": row["ground_truth"]},
    }


def close_by_name(name: str) -> dict[str, Any]:
    """A close as NeMo Gym 0.7's environment servers post it."""
    return {"resources_session_id": name, "episode_id": {"rollout_id": "0-0"}}
