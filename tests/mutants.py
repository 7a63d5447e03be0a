"""Find out which weakened servers and classes a project's own tests notice.

    python mutants.py ARCHETYPE REPORT

Runs the tests of the rendered project in whose nemo_gym/ this file is, once for each
weakness, all in one process. Writes a JSON object: the exit status of pytest for each
weakness. Each weakness replaces one method by name.
"""

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ATTACKS = "tests/test_conformance.py::TestAttacks"
OWN = "tests/test_environment.py"

Weaken = Callable[[pytest.MonkeyPatch], None]


def before(patch: pytest.MonkeyPatch, owner: Any, name: str, change: Callable) -> None:
    """Call `change` with the arguments of a method, before the method itself."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def changed(self: Any, *arguments: Any, **named: Any) -> Any:
        change(self, *arguments, **named)
        return method(self, *arguments, **named)

    patch.setattr(owner, name, changed)


# ---------------------------------------------------------------------- the server


def session_of(server: Any, request: Any) -> Any:
    return server.sessions.get(request.session["session_id"])


def any_task_counts(patch: pytest.MonkeyPatch) -> None:
    from my_env_runtime.serving import SessionServer

    def take_the_sessions_task(server: Any, request: Any, body: Any) -> None:
        if session := session_of(server, request):
            body.ground_truth = [session.task]

    before(patch, SessionServer, "finished_session", take_the_sessions_task)


def unseeded_episodes_count(patch: pytest.MonkeyPatch) -> None:
    from my_env_runtime.serving import SessionServer

    def seed(server: Any, request: Any, body: Any) -> None:
        if session := session_of(server, request):
            session.seeded, session.task = True, body.ground_truth[0]

    before(patch, SessionServer, "finished_session", seed)


def read_all_bodies(patch: pytest.MonkeyPatch) -> None:
    """Disable the layer that refuses a used cookie before the body is read."""
    from my_env_runtime.server.bodies import LargeBodies

    patch.setattr(LargeBodies, "_refusal", lambda layer, scope, large: None)


def a_session_is_seeded_again(patch: pytest.MonkeyPatch) -> None:
    from my_env_runtime.server.seeding import Seeding

    read_all_bodies(patch)

    def forget(seeding: Any, request: Any, body: Any) -> None:
        request.session.pop("seeded", None)
        if session := seeding.store.sessions.get(request.session["session_id"]):
            session.seeded = False

    before(patch, Seeding, "seed", forget)


def a_session_is_seeded_again_by_name(patch: pytest.MonkeyPatch) -> None:
    from my_env_runtime.server.seeding import Seeding

    read_all_bodies(patch)

    def forget(seeding: Any, request: Any, body: Any) -> None:
        if hasattr(body, "resources_session_id"):
            request.session.pop("seeded", None)

    before(patch, Seeding, "seed", forget)


def a_policy_that_seeds_is_graded(patch: pytest.MonkeyPatch) -> None:
    from my_env_runtime.serving import SessionServer

    def hide_calls(server: Any, request: Any, body: Any) -> None:
        body.response.output.clear()

    before(patch, SessionServer, "finished_session", hide_calls)


def a_refusal_loses_the_cookie(patch: pytest.MonkeyPatch) -> None:
    from my_env_runtime.server.guard import RequestGuard

    class NoCookies:
        def read(self, scope: Any) -> tuple[str, dict[str, Any]]:
            return "", {}

    init: Any = RequestGuard.__init__
    patch.setattr(
        RequestGuard,
        "__init__",
        lambda self, app, limits, token, cookies: init(
            self, app, limits, token, NoCookies()
        ),
    )


def a_verdict_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    from my_env_runtime.server.store import SessionStore

    end = SessionStore.end
    patch.setattr(
        SessionStore,
        "end",
        lambda self, name, reason, verdict=None: end(self, name, reason),
    )


def a_session_never_ends(patch: pytest.MonkeyPatch) -> None:
    from my_env_runtime.server.store import SessionStore

    patch.setattr(SessionStore, "end", lambda self, name, reason, verdict=None: None)


SERVER: dict[str, Weaken] = {
    "any task counts": any_task_counts,
    "unseeded episodes count": unseeded_episodes_count,
    "a session is seeded again": a_session_is_seeded_again,
    "a session is seeded again by name": a_session_is_seeded_again_by_name,
    "a policy that seeds is graded": a_policy_that_seeds_is_graded,
    "a refusal loses the cookie": a_refusal_loses_the_cookie,
    "a verdict is forgotten": a_verdict_is_forgotten,
    "a session never ends": a_session_never_ends,
}

# ---------------------------------------------------------------------- the classes


def rewarded(reward: Callable[[Any], float]) -> Weaken:
    """The class with another reward()."""

    def weaken(patch: pytest.MonkeyPatch) -> None:
        from my_env import MyEnv

        patch.setattr(MyEnv, "reward", reward)

    return weaken


def graded_after(change: Callable[[Any], None]) -> Weaken:
    """The class with its own reward(), after a change of the object."""

    def weaken(patch: pytest.MonkeyPatch) -> None:
        from my_env import MyEnv

        before(patch, MyEnv, "reward", change)

    return weaken


def submit_the_answer(environment: Any) -> None:
    if environment.submitted is not None:
        environment.submitted = environment._task.get("expected_output")


def submit_the_answer_if_it_is_inside(environment: Any) -> None:
    expected = str(environment._task.get("expected_output")).strip()
    if expected in (environment.submitted or ""):
        submit_the_answer(environment)


def files_do_not_matter(patch: pytest.MonkeyPatch) -> None:
    from my_env import MyEnv

    patch.setattr(MyEnv, "_holds", lambda self, path, expected: True)


def the_goal_does_not_matter(patch: pytest.MonkeyPatch) -> None:
    import my_env

    patch.setattr(my_env, "_holds", lambda goal, actual: True)


def any_status_is_success(environment: Any) -> None:
    if environment.status is not None:
        environment.status = "success"


CLASSES: dict[str, dict[str, Weaken]] = {
    "game": {
        "always solved": rewarded(lambda self: 1.0),
        "any guess solves": rewarded(lambda self: float(bool(self._guesses))),
    },
    "sandbox": {
        "any answer is right": graded_after(submit_the_answer),
        "an answer that holds the right one is right": graded_after(
            submit_the_answer_if_it_is_inside
        ),
        "files do not matter": files_do_not_matter,
    },
    "vision": {
        "the goal does not matter": the_goal_does_not_matter,
        "any status is success": graded_after(any_status_is_success),
    },
}


def main(archetype: str, report: str) -> None:
    runs: list[tuple[str, Weaken, list[str]]] = [
        ("nothing", lambda patch: None, [ATTACKS, OWN])
    ]
    if archetype == "game":
        runs += [(name, weaken, [ATTACKS]) for name, weaken in SERVER.items()]
    runs += [
        (name, weaken, [ATTACKS, OWN]) for name, weaken in CLASSES[archetype].items()
    ]
    statuses = {}
    for name, weaken, tests in runs:
        print(f"\n-------- {name}", flush=True)
        with pytest.MonkeyPatch.context() as patch:
            weaken(patch)
            statuses[name] = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests])
    Path(report).write_text(json.dumps(statuses))


if __name__ == "__main__":
    main(*sys.argv[1:])
