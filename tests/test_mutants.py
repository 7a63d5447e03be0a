"""Graders weakened one by one: the tests that every project has turn red."""

import re
import shutil

import pytest

from conftest import borrow_venv

SERVER = "nemo_gym/session_server.py"
CLASS = "my_env.py"

# What is weaker: archetype, file, what is replaced, by what
MUTANTS = {
    "any task pays": (
        "game",
        SERVER,
        "return session if session.task == body.ground_truth[0] else None",
        "return session",
    ),
    "a session is seeded again": (
        "game",
        SERVER,
        "if request.session.get(SEEDED) or (session is not None and session.seeded):",
        "if False:",
    ),
    "a session is seeded again by name": (
        "game",
        SERVER,
        "if cookie.get(SEEDED) and (known is None or cookie[SESSION_ID_KEY] != name):",
        "if False:",
    ),
    "an episode pays that the policy seeded": (
        "game",
        SERVER,
        'return "seed_session" in [_url_of(call.name).path.strip("/") for call in calls]',
        "return False",
    ),
    "a refusal loses the cookie": (
        "game",
        "nemo_gym/plumbing/asgi.py",
        'if given and all(name != b"set-cookie" for name, _ in headers):',
        "if False:",
    ),
    "a verdict is forgotten": (
        "game",
        SERVER,
        "if ended and ended.verdict is not None and ended.task == task:",
        "if False:",
    ),
    "the game pays always": (
        "game",
        CLASS,
        "return float(self._target in self._guesses)",
        "return 1.0",
    ),
    "the game pays for any guess": (
        "game",
        CLASS,
        "return float(self._target in self._guesses)",
        "return float(bool(self._guesses))",
    ),
    "the sandbox pays any answer": (
        "sandbox",
        CLASS,
        "if self.submitted.strip() != str(expected).strip():",
        "if False:",
    ),
    "the sandbox pays an answer that holds the right one": (
        "sandbox",
        CLASS,
        "if self.submitted.strip() != str(expected).strip():",
        "if str(expected).strip() not in self.submitted:",
    ),
    "the sandbox looks at no file": (
        "sandbox",
        CLASS,
        "return float(all(self._holds(path, text) for path, text in files.items()))",
        "return 1.0",
    ),
    "the desktop pays an immediate end": (
        "vision",
        CLASS,
        "and _holds(self._goal, self._state)",
        "and True",
    ),
    "the desktop pays any status": (
        "vision",
        CLASS,
        'self.status == "success"',
        "self.status is not None",
    ),
}


@pytest.fixture(scope="module")
def project(render, generate, tmp_path_factory):
    """A project of an archetype on the venv of the game, made once."""
    made = {}

    def of(archetype):
        if archetype not in made:
            folder = tmp_path_factory.mktemp("mutants") / "my_env"
            shutil.copytree(render(archetype=archetype), folder)
            made[archetype] = borrow_venv(folder, generate(archetype="game"))
            made[archetype].run("gates.py", "--write-tools")
        return made[archetype]

    return of


@pytest.mark.slow
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_weakened_grader_turns_the_tests_red(project, name):
    archetype, file, old, new = MUTANTS[name]
    environment = project(archetype)
    path = environment.project / file
    source = path.read_text()
    assert source.count(old) == 1, f"{old!r} is not in {file} once"
    path.write_text(source.replace(old, new))
    try:
        tests = ["tests/test_attacks.py", "tests/test_environment.py"]
        command = ["-m", "pytest", "-q", "-x", "--no-header", *tests]
        printed = environment.run(*command, check=False)
    finally:
        path.write_text(source)
    assert re.search(r"\d+ failed", printed), printed
