"""A command of every environment below a folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from env_runtime.shelf import environments

from projects import COPIER, git

# Runs what the command gives to uv, with this interpreter and Copier's own command.
UV = f"""#!/bin/sh -e
echo "$@" >> "$LOG"
test -z "$VIRTUAL_ENV"
case "$*" in
    "run --directory nemo_gym pytest"*) shift 4; cd nemo_gym; set -- python tests.py "$@" ;;
    "run --directory nemo_gym python gates.py"*) shift 3; cd nemo_gym ;;
    "tool run copier update"*) shift 3; exec {COPIER} "$@" ;;
esac
shift
exec {sys.executable} "$@"
"""
PASSES = "print('PASS import')"
FAILS = """
import sys
print("PASS import    1.00 s  Counter")
print("FAIL smoke     0.20 s  add refuses 1")
print("what follows")
sys.exit(1)
"""


@pytest.fixture
def shelf(tmp_path):
    """Runs the command in a folder above environments, with a stand-in for uv."""
    (tmp_path / "uv").write_text(UV)
    (tmp_path / "uv").chmod(0o755)
    (tmp_path / "envs").mkdir()
    variables = {"UV": str(tmp_path / "uv"), "LOG": str(tmp_path / "log")}

    def run_shelf(*options, status=0, folder="envs"):
        done = subprocess.run(
            [sys.executable, "-m", "env_runtime.shelf", *options],
            cwd=tmp_path / folder,
            env={**os.environ, "VIRTUAL_ENV": sys.prefix, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    return run_shelf


def put(root: Path, gates: str = PASSES, answers: str = ".copier-answers.yml") -> None:
    (root / "nemo_gym").mkdir(parents=True)
    (root / answers).write_text(f"_commit: v0.9.0\nenv_name: {root.name}\n")
    (root / "nemo_gym/pyproject.toml").write_text(
        f"[tool.environment]\nenv_name = '{root.name}'\nmodule = 'm'\nclass = 'C'\n"
    )
    (root / "nemo_gym/gates.py").write_text(gates)


def cells(printed: str) -> list[list[str]]:
    """The table's lines, without the seconds."""
    lines = printed.rpartition("\n\n")[2].splitlines()[1:]
    parts = [line.split(None, 3) for line in lines]
    return [[name, result, *line] for name, result, _, *line in parts]


def test_one_environment_that_fails_fails_the_command(shelf, tmp_path):
    put(tmp_path / "envs/words")
    put(tmp_path / "envs/deep/sums", FAILS)
    put(tmp_path / "envs/trees", "print('WEAK rollout   9.00 s  nothing played')")
    printed = shelf("gates", status=1)
    assert cells(printed) == [
        ["deep/sums", "failed", "FAIL smoke 0.20 s add refuses 1"],
        ["trees", "weak", "WEAK rollout 9.00 s nothing played"],
        ["words", "passed"],
    ]
    assert "what follows" in printed  # the whole output of what failed


def test_a_weak_gate_fails_a_strict_run(shelf, tmp_path):
    """The table has the gate's line, and not the last one of the output."""
    weak = """
import sys
print("WEAK rollout   9.00 s  nothing played")
print("--strict: rollout looked at less than it should", file=sys.stderr)
sys.exit("--strict" in sys.argv)
"""
    put(tmp_path / "envs/trees", weak)
    line = ["trees", "failed", "WEAK rollout 9.00 s nothing played"]
    assert cells(shelf("gates", "--", "--strict", status=1)) == [line]


def test_all_pass(shelf, tmp_path):
    put(tmp_path / "envs/words")
    assert cells(shelf("gates")) == [["words", "passed"]]
    assert cells(shelf("gates", "--folder", "envs", folder=".")) == [
        ["words", "passed"]
    ]


def test_arguments_are_passed_on(shelf, tmp_path):
    for name in ("words", "sums"):
        put(tmp_path / "envs" / name)
        (tmp_path / "envs" / name / "nemo_gym/tests.py").write_text(
            "import sys; print(sys.argv[1:]); sys.exit('FAILED tests/test_a.py::test_b')"
        )
    printed = shelf("pytest", "--jobs", "1", "--", "-x", "--jobs", status=1)
    assert printed.count("['-x', '--jobs']") == 2
    assert cells(printed)[0] == ["sums", "failed", "FAILED tests/test_a.py::test_b"]


def test_environments_run_at_once(shelf, tmp_path):
    """Each waits for the other one at a pipe, at most a minute."""
    os.mkfifo(tmp_path / "pipe")
    for name, mode in (("words", "w"), ("sums", "r")):
        wait = f"open({str(tmp_path / 'pipe')!r}, {mode!r})"
        put(tmp_path / "envs" / name, f"import signal\nsignal.alarm(60)\n{wait}")
    printed = shelf("gates", "--jobs", "2")
    assert cells(printed) == [["sums", "passed"], ["words", "passed"]]


def test_no_more_run_at_once_than_asked_for(shelf, tmp_path):
    """One that began while another ran would find its mark."""
    mark = f"""
import os
os.mkdir({str(tmp_path / "mark")!r})
import asyncio, http.server, unittest  # takes a while
os.rmdir({str(tmp_path / "mark")!r})
"""
    for number in range(4):
        put(tmp_path / f"envs/e{number}", mark)
    shelf("gates", "--jobs", "1")


def test_what_is_an_environment(tmp_path):
    put(tmp_path / "one")
    put(tmp_path / "one/inner", answers=".copier-answers.gym.yml")
    put(tmp_path / ".hidden/two")
    put(tmp_path / "node_modules/three")
    put(tmp_path / "venv/four")
    (tmp_path / "venv/pyvenv.cfg").touch()
    put(tmp_path / "conflict")
    with (tmp_path / "conflict/nemo_gym/pyproject.toml").open("a") as file:
        file.write("<<<<<<< before updating\n")
    put(tmp_path / "other")
    (tmp_path / "other/nemo_gym/pyproject.toml").write_text("[project]\n")
    put(tmp_path / "no_answers")
    (tmp_path / "no_answers/.copier-answers.yml").unlink()
    assert list(environments(tmp_path)) == ["conflict", "one", "one/inner"]


def test_a_folder_without_environments_is_an_error(shelf, tmp_path):
    printed = shelf("gates", status=1)
    assert printed.startswith(f"shelf: no environment in {tmp_path / 'envs'}, or below")


TEMPLATE = {
    "copier.yml": "_subdirectory: files\n_answers_file: .copier-answers.yml\nenv_name: {type: str}\n",
    "files/{{ _copier_conf.answers_file }}.jinja": "{{ _copier_answers | to_nice_yaml }}",
    "files/nemo_gym/pyproject.toml.jinja": (
        "[tool.environment]\nenv_name = '{{ env_name }}'\nmodule = 'm'\nclass = 'C'\n"
    ),
    "files/nemo_gym/gates.py": "one = 1\n",
}


def test_all_are_updated(shelf, tmp_path):
    """One that cannot be updated does not keep the next one from its update."""
    template = tmp_path / "template"
    for name, text in TEMPLATE.items():
        (template / name).parent.mkdir(parents=True, exist_ok=True)
        (template / name).write_text(text)
    release(template, "v1")
    git(tmp_path / "envs", "init", "--quiet")
    answers = {"sums": ".copier-answers.gym.yml", "words": ".copier-answers.yml"}
    for name, file in answers.items():
        data = ["--defaults", "-a", file, "-d", f"env_name={name}"]
        command = [COPIER, "copy", *data, template, tmp_path / "envs" / name]
        subprocess.run(command, check=True, capture_output=True)
    commit(tmp_path / "envs")
    (template / "files/nemo_gym/gates.py").write_text("two = 2\n")
    release(template, "v2")
    (tmp_path / "envs/sums/nemo_gym/left").touch()  # Copier refuses changes
    printed = shelf("update", status=1)
    assert [row[:2] for row in cells(printed)] == [
        ["sums", "failed"],
        ["words", "passed"],
    ]
    (tmp_path / "envs/sums/nemo_gym/left").unlink()
    commit(tmp_path / "envs")
    shelf("update")
    for name, file in answers.items():
        assert (
            tmp_path / "envs" / name / "nemo_gym/gates.py"
        ).read_text() == "two = 2\n"
        assert "_commit: v2" in (tmp_path / "envs" / name / file).read_text()


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "All")


def release(template: Path, tag: str) -> None:
    git(template, "init", "--quiet")
    commit(template)
    git(template, "tag", tag)
