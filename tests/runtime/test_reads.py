"""How often a process reads its settings: once, however many rows and episodes it plays."""

import asyncio
import os
import tomllib
from collections import UserDict
from typing import Any

import pytest
from env_runtime.episode import parameters
from env_runtime.episode.tasks import solved_rows, task_of
from env_runtime.episode.tools import tools_of
from env_runtime.evaluation.episodes import LocalEpisode
from env_runtime.evaluation.observations import first_observation
from env_runtime.evaluation.policies import solution_for
from env_runtime.evaluation.rows import read_rows, write_rows
from env_runtime.settings import Limits

from projects import CLASSES, load_module

from .rendered import PROJECT
from .support import Player, app_of, row_of, server_class


class Variables(UserDict):
    """The environment, which counts how often somebody looks into it."""

    looks = 0

    def __getitem__(self, key: str) -> str:
        type(self).looks += 1
        return super().__getitem__(key)

    def __iter__(self) -> Any:
        type(self).looks += 1
        return super().__iter__()


class Reads:
    """Counts the reads of variables and of TOML files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files, loads = 0, tomllib.loads
        monkeypatch.setattr(Variables, "looks", 0)
        monkeypatch.setattr(os, "environ", Variables(os.environ))

        def counting(text: str) -> dict[str, Any]:
            self.files += 1
            return loads(text)

        monkeypatch.setattr(tomllib, "loads", counting)

    def of(self, work: Any) -> tuple[int, int]:
        """The reads of variables and of files while `work` is done."""
        before = Variables.looks, self.files
        work()
        return Variables.looks - before[0], self.files - before[1]


@pytest.fixture
def maze(monkeypatch) -> type:
    """A class with parameters, new to this process."""
    monkeypatch.setenv("ENV_PARAMETERS", '{"size": 5}')
    return load_module(CLASSES / "maze.py", "read").Maze


@pytest.fixture
def reads(maze, monkeypatch) -> Reads:
    parameters.forget()
    (PROJECT / "nemo_gym/pyproject.toml").touch()
    return Reads(monkeypatch)


def test_a_run_of_a_thousand_rows_reads_as_often_as_one_of_two(maze, reads, tmp_path):
    tools, limits = tools_of(maze), Limits.read()
    definitions = [tool.definition() for tool in tools.values()]

    async def rewards(plans: list[Any]) -> list[float]:
        earned = []
        for row, plan in plans:
            async with LocalEpisode(maze, task_of(row), tools, limits) as episode:
                await episode.play(plan.calls)
                earned.append(await episode.reward())
        return earned

    def play(count: int) -> None:
        path = tmp_path / f"{count}.jsonl"
        write_rows(path, [row_of(id=n, start=1 + n % 3) for n in range(count)])
        rows = read_rows(maze, path)
        assert len(solved_rows(maze, rows)) == count
        plans = [(row, solution_for(row, definitions, maze)) for row in rows]
        assert all(first_observation(maze, row) for row in rows)
        assert asyncio.run(rewards(plans)) == count * [1.0]

    once = reads.of(lambda: play(2))
    assert once[0] > 0
    # The second run has nothing left to read but what each run reads.
    again = reads.of(lambda: play(2))
    assert reads.of(lambda: play(1000)) == again
    assert again[1] == 0


def test_a_server_reads_before_its_episodes(maze, reads):
    server = server_class(maze).build()
    with Player(app_of(server)) as client:

        def play(count: int) -> None:
            for _ in range(count):
                client.seed(row_of(start=4)).call("step", direction="right")
                assert client.verdict()["reward"] == 1.0
                client.cookies.clear()

        play(1)
        assert reads.of(lambda: play(100)) == (0, 0)
