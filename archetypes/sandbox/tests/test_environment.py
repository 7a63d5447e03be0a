"""Tests of the sandbox's tools, its grader and its rows."""

import json

import pytest
from env_runtime.testing import verify_body
from env_runtime.workspace.local import prepare_tests

from my_env import MyEnv as EnvironmentClass


@pytest.fixture(autouse=True)
def backend(monkeypatch, tmp_path_factory):
    """Prepares workspaces on this machine. Skips a test if they cannot be made."""
    prepare_tests(monkeypatch, tmp_path_factory.mktemp("backend"))
    if problem := EnvironmentClass.missing_requirement():
        pytest.skip(problem)


# ---------------------------------------------------------------------- the tools


def test_files_persist_between_calls(start):
    episode = start(files={"data/in.txt": "3\n4\n"})
    assert episode.read_file("data/in.txt") == "3\n4\n"
    assert episode.run_command("cat data/in.txt > copy.txt") == "(no output)"
    assert episode.run_python("print(open('copy.txt').read())").split() == ["3", "4"]
    episode.write_file("new/deep/file.txt", "short")
    episode.write_file("new/deep/file.txt", "s")
    assert episode.run_command("cat new/deep/file.txt") == "s"


def test_output_has_both_streams_and_the_exit_status(start):
    episode = start()
    output = episode.run_command("echo out; echo err >&2; exit 3")
    assert output == "out\nerr\n[exit status 3]"
    output = episode.run_python("print('before')\n1 / 0")
    assert output.startswith("before\n")
    assert "ZeroDivisionError" in output
    assert output.endswith("[exit status 1]")


def test_the_environment_of_a_command_has_no_secrets(start, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    output = start().run_command("env")
    assert "HOME=" in output
    assert "secret" not in output


def test_a_path_makes_a_bounded_number_of_folders(start):
    with pytest.raises(ValueError, match="the path is over 1000 characters"):
        start().write_file("d/" * 1000 + "f", "x")


def test_two_episodes_share_nothing(start):
    first, second = start(files={"a": "1"}), start(files={"b": "2"})
    first.run_command("echo one > mine")
    assert second.run_command("ls") == "b"
    first.close()
    assert second.read_file("b") == "2"


def test_only_the_files_of_a_task_are_in_the_workspace(start):
    episode = start(
        files={"a": "b"},
        expected_output="ANSWER",
        expected_files={"out": "ANSWER"},
        solution=[["run_command", {"command": "echo ANSWER"}]],
    )
    assert episode.run_command("find . -type f; grep -r ANSWER .").split() == [
        *("./a", "[exit", "status", "1]")
    ]


def test_the_same_calls_have_the_same_outputs(start):
    """The workspace's place does not matter: gates and replays compare outputs."""
    script = "x; pwd; echo $HOME; cd ..; pwd; cat missing; (exit 3)"
    code = "import os\nprint(os.getcwd(), os.environ['HOME'])\nopen('missing')"

    def outputs():
        episode = start()
        yield episode.run_command(script)
        yield episode.run_python(code)
        yield episode.run_python("x x")

    first, again = list(outputs()), list(outputs())
    assert first == again
    assert "command.sh: line 1: x: " in first[0]
    assert 'program.py", line 3' in first[1]
    assert 'program.py", line 1' in first[2]


def test_nothing_works_after_close(start):
    episode = start()
    episode.run_command("ls")
    episode.close()
    episode.close()
    with pytest.raises(RuntimeError, match="closed"):
        episode.run_command("ls")
    with pytest.raises(RuntimeError, match="closed"):
        episode.submit("x")


# ---------------------------------------------------------------------- the grader


def test_the_last_submission_counts(start):
    episode = start(expected_output="17\n")
    assert episode.reward() == 0.0
    episode.submit(" 17 ")  # white space around it does not matter
    assert episode.reward() == 1.0
    episode.submit("It is 17.")
    assert episode.reward() == 0.0


def test_expected_files_must_be_there(start):
    episode = start(expected_output="x", expected_files={"out/a.txt": "1\n2\n"})
    episode.submit("x")
    assert episode.reward() == 0.0
    episode.write_file("out/a.txt", "1\n3\n")
    assert episode.reward() == 0.0
    episode.write_file("out/a.txt", "1\n2")
    assert episode.reward() == 1.0


@pytest.mark.parametrize(
    "mess",
    [
        "mkdir out",
        "mkfifo out",
        "ln -s out out",
        "echo right > other; ln -s other out",
        "ln -s /dev/zero out",
        "printf '\\377\\000' > out",
        "dd if=/dev/zero of=out bs=1048576 count=50",
        'rm -rf "$PWD"',
    ],
)
def test_a_mess_in_place_of_a_file_is_not_that_file(start, mess):
    episode = start(expected_output="x", expected_files={"out": "right"})
    episode.run_command(mess)
    episode.submit("x")
    assert episode.reward() == 0.0
    assert episode.infrastructure_failure is None


@pytest.mark.parametrize("task", [{}, {"files": None, "expected_output": None}])
def test_without_an_expected_output_nothing_is_solved(start, task):
    episode = start(**task)
    assert episode.run_command("ls") == "(no output)"
    episode.submit("")
    assert episode.reward() == 0.0


def test_a_workspace_that_fails_is_not_the_policys_fault(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_SECONDS", "soon")
    episode = start(expected_output="1", expected_files={"a": "b"})
    for _ in range(2):
        with pytest.raises(RuntimeError, match="SANDBOX_SECONDS must be"):
            episode.run_command("ls")
        monkeypatch.undo()  # the workspace stays failed: its content is lost
    assert "SANDBOX_SECONDS" in episode.infrastructure_failure
    assert episode.reward() == 0.0


def test_a_task_with_an_unusable_file_is_not_the_policys_fault(start):
    episode = start(files={"../a": "b"})
    with pytest.raises(RuntimeError, match="the task has an unusable file"):
        episode.run_command("ls")
    assert "unusable file" in episode.infrastructure_failure


# ------------------------------------------------------------ the grader, through HTTP


@pytest.fixture
def row(rows):
    """A task with a file that must be right, too."""
    for row in rows:
        if row["ground_truth"][0].get("expected_files"):
            return row
    pytest.skip("no row has expected_files")


@pytest.fixture
def task(row):
    return row["ground_truth"][0]


@pytest.fixture
def player(client, tools, row, task):
    """A client whose session plays the row, with the expected files in place."""
    exposed = {tool["name"] for tool in tools}
    if missing := {"run_command", "write_file", "submit"} - exposed:
        pytest.skip(f"the server does not expose {', '.join(sorted(missing))}")
    client.post("/seed_session", json=row)
    for path, content in task["expected_files"].items():
        client.post("/write_file", json={"path": path, "content": content})
    return client


def test_the_right_answer_and_files_earn_one(player, row, task, verify):
    player.post("/submit", json={"answer": f"  {task['expected_output']}\n"})
    assert verify(player, row) == 1.0


def test_the_right_answer_without_the_files_earns_nothing(player, row, task, verify):
    for path in task["expected_files"]:
        player.post("/run_command", json={"command": f"rm {path}"})
    player.post("/submit", json={"answer": task["expected_output"]})
    assert verify(player, row) == 0.0


def test_an_answer_that_is_only_printed_earns_nothing(player, row, task, verify):
    player.post("/run_command", json={"command": f"echo '{task['expected_output']}'"})
    assert verify(player, row) == 0.0


def test_an_infrastructure_failure_masks_the_sample(server, player, row):
    """NeMo Gym 0.7 leaves a masked sample out of its scores."""
    [session] = server.sessions.values()
    session.environment.infrastructure_failure = "the disk is gone"
    answer = player.post("/verify", json=verify_body(row)).json()
    assert answer["reward"] == 0.0
    assert answer["mask_sample"] is True
    session = answer["session_name"]
    assert answer["failure_reason"] == f"the disk is gone (session {session})"


def test_the_policy_reads_what_is_wrong_with_its_call(player):
    answer = player.post("/write_file", json={"path": "../x", "content": ""}).json()
    assert answer["output"].startswith("error: path '../x' must name a file")


# ---------------------------------------------------------------------- the rows


def test_the_oracle_solves_every_row(start, rows):
    for row in rows:
        task = row["ground_truth"][0]
        episode = start(**task)
        calls = EnvironmentClass.oracle(task)
        outputs = [getattr(episode, tool)(**given) for tool, given in calls]
        # The answer is what the tools printed, not only what the row says.
        if task.get("solution") and not task.get("expected_files"):
            assert outputs[-2].strip() == str(task["expected_output"]).strip(), task
        assert episode.reward() == 1.0, task


def test_no_row_gives_its_answer_away(rows):
    for row in rows:
        task = row["ground_truth"][0]
        if task.get("expected_files"):  # then no answer alone is enough
            continue
        answer = str(task["expected_output"]).strip()
        assert answer not in json.dumps(row["responses_create_params"])
        assert all(answer not in text for text in (task.get("files") or {}).values())
