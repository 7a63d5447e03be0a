"""Mutants of verdicts, of seeds and of cookies."""

import contextlib
from typing import Any

from env_runtime.resources_server.cookies import READ
from nemo_gym.server_utils import SESSION_ID_KEY

from . import by_attacks, by_runtime, replaces

# ---------------------------------------------------------------------- verdicts


@replaces("messages.same_task")
@by_attacks("test_the_task_of_another_row")
def any_task_counts(original, task, body):
    return True


@replaces("SessionServer.finished_session")
@by_runtime("test_verdicts.py::test_an_episode_without_a_task_earns_nothing")
def unseeded_episodes_count(original, server, request, body):
    if session := server.sessions.get(request.session[SESSION_ID_KEY]):
        session.seeded, session.task = True, body.task
    return original(server, request, body)


@replaces("SessionServer.finished_session")
@by_runtime("test_verdicts.py::test_an_episode_without_a_task_earns_nothing_on_any_row")
def an_empty_task_is_a_task(original, server, request, body):
    if session := server.sessions.get(request.session[SESSION_ID_KEY]):
        session.seeded = True
    return original(server, request, body)


@replaces("verdict.policy_seeds")
@by_attacks("test_an_episode_that_the_policy_seeded")
def a_policy_that_seeds_is_graded(original, body):
    return False


@replaces("verdict.policy_seeds")
@by_runtime("test_verdicts.py::test_an_episode_that_the_policy_seeded_earns_nothing")
def only_one_spelling_seeds(original, body):
    return "seed_session" in [
        getattr(item, "name", "") for item in body.response.output
    ]


@replaces("SessionStore.end")
@by_attacks("test_the_same_verdict_twice")
def a_verdict_is_forgotten(original, store, name, reason, *verdict, **named):
    return original(store, name, reason)


@replaces("SessionStore.end")
@by_attacks("test_playing_on_after_the_verdict")
def a_verdict_ends_nothing(original, store, name, reason, *verdict, **named):
    if reason != "verified":
        original(store, name, reason, *verdict, **named)


@replaces("SessionStore.end")
@by_attacks("test_playing_on_after_the_end")
def a_close_ends_nothing(original, store, name, reason, *verdict, **named):
    if reason != "closed":
        original(store, name, reason, *verdict, **named)


@replaces("TaskDigest.fits")
@by_runtime("test_verdicts.py::test_a_repeated_verify_answers_the_same")
def a_repeated_verdict_is_for_any_row(original, digest, body):
    return True


@replaces("TaskDigest.of")
@by_runtime("test_protocol.py::test_an_ended_session_keeps_no_task")
def only_the_start_of_a_task_counts(original, kind, task):
    return original(kind, {key: str(value)[:1000] for key, value in task.items()})


@replaces("Session.of")
@by_runtime("test_verdicts.py::test_verifying_at_once_answers_the_same")
def several_verdicts_are_made_at_once(original, kind, *arguments):
    session = original(kind, *arguments)
    session.verifying = contextlib.nullcontext()
    return session


@replaces("SessionStore.lowest_reward")
@by_runtime("test_reward_range.py::test_nobody_escapes_a_loss")
def what_does_not_count_earns_nothing(original, store):
    return 0.0


@replaces("Episode._graded")
@by_runtime("test_reward_range.py::test_a_grade_outside_of_the_range_is_masked")
def a_reward_may_be_outside_of_the_range(original, episode, arguments):
    return episode.environment.reward(*arguments)


@replaces("tasks.baseline_reward")
@by_runtime(
    "test_reward_range.py::test_a_masked_sample_does_not_earn_the_highest_reward"
)
def zero_is_always_what_nothing_earns(original, domain_class, row):
    return 0.0


# ---------------------------------------------------------------------- replays


@replaces("verdict.replays")
@by_attacks("test_a_trajectory_without_an_episode")
def every_trajectory_is_replayed(original, domain_class):
    return True


@replaces("verdict.replays")
@by_runtime(
    "test_replay.py::test_only_a_deterministic_class_is_played_again_with_reverify"
)
def a_class_of_chance_is_replayed(original, domain_class):
    domain_class.deterministic = True
    return original(domain_class)


@replaces("verdict.url_of")
@by_runtime("test_replay.py::test_the_reward_is_that_of_the_calls")
def a_replay_follows_only_plain_names(original, tool):
    return original(tool if tool.isidentifier() else "")


# ---------------------------------------------------------------------- seeds


def forget(store: Any, request: Any) -> None:
    """Let a session's cookie seed once more."""
    request.session.pop("seeded", None)
    if session := store.sessions.get(request.session[SESSION_ID_KEY]):
        session.seeded = False


@replaces("Seeding.seed", without="LargeBodies._refusal")
@by_attacks("test_a_second_seed_of_the_session")
def a_session_is_seeded_again(original, seeding, request, body):
    forget(seeding.store, request)
    return original(seeding, request, body)


@replaces("Seeding.seed", without="LargeBodies._refusal")
@by_attacks("test_a_seed_with_another_task")
def a_session_is_seeded_with_another_task(original, seeding, request, body):
    session = seeding.store.sessions.get(request.session[SESSION_ID_KEY])
    if session and session.task != getattr(body, "task", session.task):
        forget(seeding.store, request)
    return original(seeding, request, body)


@replaces("Seeding.seed", without="LargeBodies._refusal")
@by_attacks("test_a_seed_that_names_its_own_session")
def a_session_is_seeded_again_by_name(original, seeding, request, body):
    if hasattr(body, "resources_session_id"):
        request.session.pop("seeded", None)
    return original(seeding, request, body)


@replaces("Seeding.seed", without="LargeBodies._refusal")
@by_runtime("test_seeding.py::test_a_closed_session_stays_closed")
def a_closed_session_is_seeded_again(original, seeding, request, body):
    if request.session[SESSION_ID_KEY] in seeding.store.ended:
        forget(seeding.store, request)
    return original(seeding, request, body)


@replaces("SessionCookies.header")
@by_runtime(
    "test_seeding.py::test_an_ended_session_is_not_seeded_again_once_it_is_forgotten"
)
def a_cookie_does_not_know_that_it_was_used(original, cookies, session, *rest):
    session = {key: value for key, value in session.items() if key != "seeded"}
    return original(cookies, session, *rest)


@replaces("SessionStore.close_unseeded")
@by_runtime("test_seeding.py::test_a_flood_of_closes_brings_no_episode_back")
def closes_push_out_what_is_remembered(original, store, name):
    store.ended.pop(next(iter(store.ended)))
    store.ended[name] = None


# ---------------------------------------------------------------------- MCP


@replaces("SessionStore._session_of")
@by_runtime("test_seeding.py::test_two_clients_play_two_episodes")
def a_call_reaches_the_last_session(original, store, request):
    return list(store.sessions.values())[-1]


# ---------------------------------------------------------------------- cookies


@replaces("SessionCookies.read")
@by_runtime("test_security.py::test_a_forged_cookie_opens_nobody_elses_session")
def any_signature_is_good(original, cookies, scope):
    text, _ = original(cookies, scope)
    return text, (cookies._signer.loads_unsafe(text)[1] if text else None) or {}


@replaces("SessionCookies.__init__")
@by_runtime("test_security.py::test_cookies_are_good_while_the_secret_is_the_same")
def every_server_has_the_same_secret(original, cookies, app, secret, *rest, **named):
    original(cookies, app, "secret", *rest, **named)


# ---------------------------------------------------------------------- MCP


@replaces("SessionStore._session_of")
@by_runtime("test_seeding.py::test_a_session_of_an_earlier_server_is_known_to_be_lost")
def a_lost_session_starts_anew(original, store, request):
    request.session.pop("seeded", None)
    return original(store, request)


@replaces("SessionCookies.read")
@by_runtime("test_protocol.py::test_a_cookie_of_another_start_is_lost_and_masked")
def an_unknown_cookie_is_no_cookie(original, cookies, scope):
    text, session = original(cookies, scope)
    return (text, session) if session else ("", {})


@replaces("SessionServer._about")
@by_runtime("test_security.py::test_no_answer_leaks_before_verify")
def anybody_can_read_the_tasks(original, server, app):
    tasks = [session.task for session in server.sessions.values()]
    return {**original(server, app), "tasks": tasks}


# ---------------------------------------------------------------------- another row


@replaces("verdict._is_own")
@by_runtime(
    "test_verdicts.py::test_a_verdict_on_another_row_tells_nothing_of_the_episode"
)
def a_verdict_on_another_row_tells_of_the_episode(original, session, body):
    return True


@replaces("SessionStore.end")
@by_attacks("test_a_verdict_on_another_task")
def a_policy_tries_row_after_row(original, store, name, reason, *verdict, **named):
    if reason != "verified with another task":
        original(store, name, reason, *verdict, **named)


# ---------------------------------------------------------------------- MCP


@replaces("SessionStore._session_of")
@by_runtime("test_mcp.py::test_a_session_that_is_lost_stays_lost")
async def a_lost_session_begins_anew_over_mcp(original, store, request):
    request.scope.setdefault(READ, ("", {}))
    return await original(store, request)
