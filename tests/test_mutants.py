"""Mutants: the code with one protection taken out, which a test must notice.

`benchmarks/mutation.py` makes the small changes that a program can think of. These are
others: a header, a check or a layer is left out.
"""

import os
import re
import shutil
import sys
from typing import NamedTuple

import pytest

from projects import ROOT, git, run
from rendering import copy_working_tree


class Mutant(NamedTuple):
    """`old` stands once in a file of the runtime. `test` must fail without it.

    A test of the sandbox's project is in tests/backends/ or in the archetype's tests.
    """

    file: str
    old: str
    new: str
    test: str
    suite: str = "runtime"


ATTACK = "test_own_suite.py::TestAttacks::"
HTTP, COOKIES = "resources_server/http.py", "resources_server/cookies.py"
VERDICT, QUESTION = "resources_server/verdict.py", "models/question.py"
SANDBOX = "sandbox"

MUTANTS = {
    "a refusal loses the cookie": Mutant(
        HTTP,
        "headers.append(self.cookies.header(session, session, cookie))",
        "pass",
        ATTACK + "test_a_refused_call_keeps_the_cookie",
    ),
    "a body of unknown length has no limit": Mutant(
        HTTP,
        "if self.received > self.most:",
        "if False:",
        "test_limits.py::test_a_body_of_unknown_length_has_the_same_limit",
    ),
    "a policy that closes its session is masked": Mutant(
        VERDICT,
        "if ended is not None and ended.reason.startswith(IDLE):",
        "if ended is not None:",
        ATTACK + "test_playing_on_after_the_end",
    ),
    "large bodies are parsed at once": Mutant(
        HTTP,
        "await self._turn.acquire()",
        "self._turn = asyncio.Lock(); await self._turn.acquire()",
        "test_large_bodies.py::test_others_have_a_turn_between_large_bodies",
    ),
    "a page of any site is answered": Mutant(
        "auth.py",
        'headers.get(b"origin")',
        "None",
        "test_security.py::test_pages_of_other_sites_get_no_answer",
    ),
    "a malformed body is repeated": Mutant(
        "server.py",
        'for key in ("type", "loc", "msg")',
        "for key in problem",
        "test_both_ways.py::test_both_ways_have_the_same_answers",
    ),
    "every server signs with the same secret": Mutant(
        HTTP,
        "URLSafeSerializer(secret, ",
        'URLSafeSerializer("secret", ',
        "test_security.py::test_cookies_are_good_while_the_secret_is_the_same",
    ),
    "a lost session starts anew": Mutant(
        HTTP,
        "session[SEEDED] = True",
        "pass",
        "test_protocol.py::test_a_cookie_of_another_start_is_lost_and_masked",
    ),
    "a used cookie seeds": Mutant(
        COOKIES,
        "        return used_cookie()\n",
        "        session.pop(SEEDED)\n",
        "test_seeding.py::test_an_ended_session_is_not_seeded_again_once_it_is_forgotten",
    ),
    "a call reaches the newest session": Mutant(
        "resources_server/store.py",
        "if (session := self.sessions.get(name)) is not None:\n            return session",
        "if self.sessions:\n            return [*self.sessions.values()][-1]",
        "test_seeding.py::test_two_clients_play_two_episodes",
    ),
    "the task of any row counts": Mutant(
        VERDICT,
        "session is not None and compared_task(body, session.task) == session.task",
        "session is not None",
        ATTACK + "test_the_task_of_another_row",
    ),
    "a verdict ends nothing": Mutant(
        VERDICT,
        "store.end(name, reason, values)",
        "pass",
        ATTACK + "test_playing_on_after_the_verdict",
    ),
    "a policy tries row after row": Mutant(
        VERDICT,
        "store.end(name, reason, values)",
        'reason == "verified" and store.end(name, reason, values)',
        ATTACK + "test_a_verdict_on_another_task",
    ),
    "several verdicts are made at once": Mutant(
        VERDICT,
        "session.verifying if session else contextlib.nullcontext()",
        "contextlib.nullcontext()",
        "test_verdicts.py::test_verifying_at_once_answers_the_same",
    ),
    "the mark around data is known": Mutant(
        QUESTION,
        "secrets.token_hex(8)",
        '"0" * 16',
        "test_models.py::test_the_policy_s_text_is_data",
    ),
    "an answer may be compressed": Mutant(
        QUESTION,
        'PLAIN = {"Accept-Encoding": "identity"}',
        "PLAIN: dict[str, str] = {}",
        "test_models.py::test_a_compressed_answer_is_not_read",
    ),
    "commands reach the network": Mutant(
        "workspace/bubblewrap.py",
        "network: bool = False,\n) -> list[str]:",
        "network: bool = True,\n) -> list[str]:",
        "tests/test_backend.py::test_what_a_policy_can_read_with_bubblewrap",
        SANDBOX,
    ),
    "system calls are not filtered": Mutant(
        "workspace/launcher.py",
        "        confine(watches)\n",
        "",
        "tests/test_backend.py::test_doors_beside_the_namespaces_are_closed",
        SANDBOX,
    ),
    "links are followed": Mutant(
        "workspace/folder.py",
        "_FILE = os.O_NOFOLLOW | os.O_NONBLOCK",
        "_FILE = os.O_NONBLOCK",
        "tests/test_backend.py::test_planted_links_lead_nowhere",
        SANDBOX,
    ),
    "commands inherit the environment": Mutant(
        "workspace/folder.py",
        '{"LANG": "C.UTF-8", **own,',
        '{**os.environ, "LANG": "C.UTF-8", **own,',
        "tests/test_environment.py::test_the_environment_of_a_command_has_no_secrets",
        SANDBOX,
    ),
}
# An honest episode is played, and earns what it should, in spite of each mutant.
HONEST = {
    "runtime": "tests/runtime/test_threads.py::test_an_episode_runs_in_one_thread",
    SANDBOX: "tests/test_environment.py::test_the_oracle_solves_every_row",
}


def test_what_a_mutant_replaces_is_there_once():
    """By day, so that a line that has changed does not wait for the night."""
    for name, mutant in MUTANTS.items():
        text = (ROOT / "runtime/src/env_runtime" / mutant.file).read_text()
        assert text.count(mutant.old) == 1, name


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the repository, whose runtime the tests import."""
    folder = tmp_path_factory.mktemp("mutants") / "tree"
    copy_working_tree(folder)
    git(folder, "init", "--quiet")
    return folder


@pytest.fixture(scope="module")
def suite(tree, render, tmp_path_factory):
    """Runs tests of a suite in the copy. Returns the status and what was printed."""
    source, project = (
        tree / "runtime/src",
        tmp_path_factory.mktemp("sandbox") / "my_env",
    )
    shutil.copytree(render(archetype=SANDBOX), project)
    gym = project / "nemo_gym"
    for name in ("test_contract.py", "local/test_backend.py"):
        test = tree / "tests/backends" / name
        (gym / "tests" / test.name).write_bytes(test.read_bytes())
    options = ["-q", "-rA", "--no-header", "-n0", "-oaddopts=", "-pno:schemathesis"]
    options += ["-m", "not nightly"]
    places = {
        "runtime": (tree, [source]),
        SANDBOX: (gym, [source, gym, project]),
    }

    def run_tests(name, *tests):
        folder, path = places[name]
        return run(
            [sys.executable, "-B", "-m", "pytest", *options, *tests],
            folder,
            check=False,
            PYTHONPATH=os.pathsep.join(map(str, path)),
            PYTHONDONTWRITEBYTECODE="1",  # a file may change within one second
            SANDBOX_SECONDS="10",
            COLUMNS="400",  # the reason of a failure is on its line
        )

    return run_tests


@pytest.mark.nightly
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(tree, suite, name):
    """Its test fails at an assertion, and an honest episode does not."""
    mutant = MUTANTS[name]
    file = tree / "runtime/src/env_runtime" / mutant.file
    place = "" if mutant.suite == SANDBOX else "tests/runtime/"
    before = file.read_text()
    try:
        file.write_text(before.replace(mutant.old, mutant.new))
        done = suite(mutant.suite, HONEST[mutant.suite], place + mutant.test)
    finally:
        file.write_text(before)
    if re.search(r"^SKIPPED", done.stdout, re.MULTILINE):
        pytest.skip("this machine cannot isolate commands")
    assert f"PASSED {HONEST[mutant.suite]}" in done.stdout, done.stdout
    failed = re.findall(rf"^FAILED .*{mutant.test}.* - (.*)", done.stdout, re.MULTILINE)
    assert failed, done.stdout
    assert all(re.match("(AssertionE|Failed: |assert )", text) for text in failed)
