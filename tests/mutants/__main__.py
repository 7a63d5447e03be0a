"""Find out which mutants of a suite are noticed.

    python -m mutants SUITE REPORT

Runs in the folder of the suite's tests, with the runtime and this package importable.
Writes a JSON object: for each mutant, and for "nothing" weakened, the problem, or "".

A mutant is noticed if the weakened server starts, an honest oracle earns the full reward
over HTTP, and the named test fails at an assertion of a test. A mutant that crashes
proves nothing, and neither does a test that fails in its preparation.
"""

import contextlib
import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from . import MUTANTS, Mutant, classes, gates, limits, models, room, sandbox, sessions

__all__ = ["classes", "gates", "limits", "models", "room", "sandbox", "sessions"]

OPTIONS = ["-q", "-o", "addopts=", "-p", "no:cacheprovider"]
OPTIONS += ["-p", "no:unraisableexception"]  # it collects garbage after each run
FAILED = (AssertionError, pytest.fail.Exception)


@contextlib.contextmanager
def serving() -> Generator[str]:
    """The URL of the project's server, in a thread."""
    from env_runtime.project import here

    app = here().load_server().build().setup_webserver()
    server = uvicorn.Server(uvicorn.Config(app, log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=[[listening]])
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def problem_of_an_honest_episode() -> str:
    """Why the oracle does not earn the full reward over HTTP; "" if it does."""
    from env_runtime.episode.tasks import oracle_reward
    from env_runtime.evaluation.client import Client, play
    from env_runtime.evaluation.policies import FIXED_TURNS, fixed_policy
    from env_runtime.evaluation.rows import load_rows
    from env_runtime.project import here

    row = load_rows(here().rows)[0]
    try:
        with serving() as url:
            client = Client(url)
            oracle = fixed_policy("oracle")
            result = play(client, client.tools(), row, oracle, FIXED_TURNS)
    except Exception as error:  # noqa: BLE001 - whatever it is, the mutant is too weak
        return f"no honest episode: {type(error).__name__}: {error}"
    full = oracle_reward(here().load_class(), row)
    earned = result["reward"]
    return "" if abs(earned - full) < 1e-9 else f"the oracle earned {earned}"


class Watch:
    """A plugin of pytest: weakens the code once all is imported, and sees what fails."""

    def __init__(self, mutant: Mutant | None, patch: pytest.MonkeyPatch) -> None:
        self.mutant, self.patch = mutant, patch
        self.noticed, self.skipped, self.problem = False, "", ""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self.mutant:
            self.mutant.apply(self.patch)
        self.problem = problem_of_an_honest_episode()
        if self.problem:
            session.shouldstop = self.problem
        if self.mutant:
            self.mutant.calls = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.skipped:
            self.skipped = f"skipped: {item.nodeid}"
        if report.failed and call.excinfo is not None:
            self._failed(item, call.when, call.excinfo)
        return report

    def _failed(
        self, item: pytest.Item, when: str, failure: pytest.ExceptionInfo
    ) -> None:
        shown = failure.traceback.filter(failure) or failure.traceback
        place, text = Path(shown[-1].path), str(failure.value)
        if self.mutant is None:
            self.problem = f"{item.nodeid} fails without a mutant: {text:.300}"
        elif item.nodeid.startswith(self.mutant.honest or "-"):
            self.problem = f"{item.nodeid} fails, too: {text:.300}"
        elif when != "call" or not isinstance(failure.value, FAILED):
            self.problem = f"{when} of {item.nodeid}: {failure.typename}: {text:.300}"
        elif not {"tests", "testing"} & set(place.parts):
            self.problem = f"an assertion outside of tests failed: {place}"
        elif "Internal Server Error" in text:
            self.problem = f"the server failed: {text:.300}"
        elif not self.mutant.calls:
            self.problem = f"{item.nodeid} fails, but did not call the mutant"
        else:
            self.noticed = True
            item.session.shouldstop = "noticed"

    def verdict(self, status: int) -> str:
        if self.problem:
            return self.problem
        if status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
            return f"pytest ended with {pytest.ExitCode(status).name}"
        if self.mutant and self.mutant.crashes:
            return f"the mutant does not fit: {self.mutant.crashes[0]}"
        if self.noticed or self.mutant is None:
            return ""
        return self.skipped or "no test noticed it"


def run(mutant: Mutant | None, tests: list[str]) -> str:
    """Run tests with a mutant in place. Returns the problem, "" if they noticed it."""
    print(f"\n-------- {mutant.name if mutant else 'nothing'}", flush=True)
    with pytest.MonkeyPatch.context() as patch:
        watch = Watch(mutant, patch)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            options = [*OPTIONS, f"--basetemp={folder}/base"]
            status = pytest.main([*options, *tests], plugins=[watch])
        verdict = watch.verdict(int(status))
    if verdict:
        print(verdict, flush=True)
    return verdict


def main(suite: str, report: str, *names: str) -> None:
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # it takes half of the time
    chosen = [mutant for mutant in MUTANTS if mutant.suite == suite]
    if names:
        chosen = [mutant for mutant in chosen if mutant.name in names]
    tests = {
        mutant.name: [*filter(None, [mutant.honest]), mutant.test] for mutant in chosen
    }
    every: Any = sorted({test for named in tests.values() for test in named})
    problems = {"nothing": run(None, every)}
    for mutant in chosen:
        problems[mutant.name] = run(mutant, tests[mutant.name])
    Path(report).write_text(json.dumps(problems, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
