"""What the grader pays for, and what it does not."""

import asyncio

import httpx
import pytest

from conftest import verify_body
from rollout import environment_class

NEEDED = {"run_command", "run_python", "write_file", "read_file", "submit"}


@pytest.fixture(autouse=True)
def needs_the_usual_tools(tools):
    if missing := NEEDED - {tool["name"] for tool in tools}:
        pytest.skip(f"the server does not expose {', '.join(sorted(missing))}")
    if problem := environment_class().missing_requirement():
        pytest.skip(problem)


@pytest.fixture
def row(rows):
    """A task with a file that has to be right, too."""
    return next(row for row in rows if row["ground_truth"][0].get("expected_files"))


@pytest.fixture
def task(row):
    return row["ground_truth"][0]


@pytest.fixture
def player(client, row):
    client.post("/seed_session", json=row)
    return client


def submit(client, answer):
    return client.post("/submit", json={"answer": answer}).json()["output"]


def write_expected_files(client, task):
    for path, content in task["expected_files"].items():
        client.post("/write_file", json={"path": path, "content": content})


def test_the_right_answer_and_files_are_paid(player, row, task, verify):
    write_expected_files(player, task)
    submit(player, f"  {task['expected_output']}\n")
    assert verify(player, row) == 1.0


def test_the_right_answer_alone_is_not(player, row, task, verify):
    submit(player, task["expected_output"])
    assert verify(player, row) == 0.0


def test_an_answer_that_only_holds_the_right_one_is_not(player, row, task, verify):
    write_expected_files(player, task)
    submit(player, f"It is {task['expected_output']}, or 14.")
    assert verify(player, row) == 0.0


def test_an_answer_in_the_trajectory_is_not(player, row, task, verify):
    write_expected_files(player, task)
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": task["expected_output"], "annotations": []}
        ],
    }
    assert verify(player, row, [message]) == 0.0


def test_an_answer_that_is_printed_is_not(player, row, task, verify):
    write_expected_files(player, task)
    player.post("/run_command", json={"command": f"echo '{task['expected_output']}'"})
    assert verify(player, row) == 0.0


def test_the_last_answer_counts(player, row, task, verify):
    write_expected_files(player, task)
    submit(player, task["expected_output"])
    submit(player, "something else")
    assert verify(player, row) == 0.0


def test_a_task_of_the_policys_own_is_not(player, row, verify):
    own = {"expected_output": "easy"}
    player.post("/seed_session", json={"ground_truth": [own]})
    submit(player, "easy")
    assert verify(player, row) == 0.0


def test_an_infrastructure_failure_is_no_zero(server, player, row):
    """NeMo Gym 0.7 leaves a masked sample out of its scores; 0.4 has no such field."""
    [session] = server.sessions.values()
    session.episode.infrastructure_failure = "the disk is gone"
    answer = player.post("/verify", json=verify_body(row)).json()
    assert answer.get("mask_sample", True) is True
    assert answer["reward"] == 0.0


def test_a_call_that_hangs_delays_no_other_session(server, monkeypatch):
    monkeypatch.setenv("SANDBOX_SECONDS", "5")
    finished = []

    async def call(transport, name, command):
        async with httpx.AsyncClient(
            transport=transport, base_url="http://server", timeout=60
        ) as client:
            await client.post("/seed_session", json={"ground_truth": []})
            answer = await client.post("/run_command", json={"command": command})
            finished.append(name)
            return answer.json()["output"]

    async def main():
        transport = httpx.ASGITransport(server.setup_webserver())
        hanging = asyncio.create_task(call(transport, "hanging", "sleep 1000"))
        others = [call(transport, n, f"echo {n}") for n in range(50)]
        return await asyncio.gather(*others, hanging)

    *outputs, hung = asyncio.run(main())
    assert [output.strip() for output in outputs] == [str(n) for n in range(50)]
    assert hung.startswith("error: ")
    assert finished[-1] == "hanging"
