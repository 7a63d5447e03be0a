"""Mutants of the guard, of limits on bodies and sessions, and of what masks a sample."""

import asyncio
import os

from fastapi.exception_handlers import request_validation_exception_handler

from . import by_attacks, by_runtime, replaces

NO_LIMIT = 1 << 40


def without(message, name):
    """A message of ASGI without a header."""
    if "headers" not in message:
        return message
    headers = [header for header in message["headers"] if header[0] != name]
    return {**message, "headers": headers}


# ---------------------------------------------------------------------- the guard


@replaces("RequestGuard.__call__")
@by_attacks("test_a_refused_call_keeps_the_cookie")
async def a_refusal_loses_the_cookie(original, guard, scope, receive, send):
    async def lose(message):
        refused = message.get("status", 0) >= 400
        await send(without(message, b"set-cookie") if refused else message)

    await original(guard, scope, receive, lose)


@replaces("RequestGuard.__call__")
@by_runtime("test_security.py::test_without_the_token_every_route_but_health_is_closed")
async def no_token_is_asked_for(original, guard, scope, receive, send):
    if scope["type"] == "http":
        token = f"Bearer {os.environ.get('API_TOKEN')}".encode()
        headers = without(scope, b"authorization")["headers"]
        scope = {**scope, "headers": [*headers, (b"authorization", token)]}
    await original(guard, scope, receive, send)


@replaces("RequestGuard.__call__")
@by_runtime("test_security.py::test_without_the_token_every_route_but_health_is_closed")
async def a_token_with_spaces_is_the_token(original, guard, scope, receive, send):
    if scope["type"] == "http":
        headers = [(name, value.strip()) for name, value in scope["headers"]]
        scope = {**scope, "headers": headers}
    await original(guard, scope, receive, send)


@replaces("RequestGuard.__call__")
@by_runtime("test_large_bodies.py::test_a_long_row_is_refused")
async def bodies_have_no_limit(original, guard, scope, receive, send):
    guard.limits = guard.limits.model_copy(update={"max_seed_bytes": NO_LIMIT})
    await original(guard, scope, receive, send)


@replaces("RequestGuard._bounded")
@by_runtime("test_limits.py::test_a_body_of_unknown_length_has_the_same_limit")
def only_the_announced_length_counts(original, guard, scope, receive):
    return receive


@replaces("RequestGuard.__call__")
@by_runtime("test_verdicts.py::test_a_path_with_a_line_break_is_not_found")
async def a_line_break_in_a_path_is_ignored(original, guard, scope, receive, send):
    if scope["type"] == "http":
        scope = {**scope, "path": scope["path"].strip()}
    await original(guard, scope, receive, send)


# ---------------------------------------------------------------------- bodies


@replaces("verdict.lowest_verdict")
@by_runtime("test_limits.py::test_a_trajectory_of_too_many_bytes_earns_nothing")
def a_trajectory_that_is_too_long_is_masked(original, reason, lowest, *mask, **named):
    return original(reason, lowest, True)


@replaces("verdict.lowest_verdict")
@by_runtime("test_reward_range.py::test_a_trajectory_that_is_too_long")
def a_trajectory_that_is_too_long_loses_nothing(original, reason, lowest, *rest):
    return original(reason, 0.0, *rest)


@replaces("http.count_separators")
@by_runtime("test_large_bodies.py::test_a_row_of_too_many_values_is_refused_unread")
def the_structure_of_a_body_is_not_counted(original, text, most):
    return 0


@replaces("LargeBodies._in_turn")
@by_runtime("test_large_bodies.py::test_others_have_a_turn_between_large_bodies")
def large_bodies_are_parsed_at_once(original, layer, scope, receive, send):
    return layer.app(scope, receive, send)


@replaces("LargeBodies._refusal")
@by_runtime("test_large_bodies.py::test_one_session_cannot_ask_for_ever")
def one_session_asks_for_ever(original, layer, scope, large):
    layer._large_posts.clear()
    return original(layer, scope, large)


@replaces("SessionServer.aggregate_metrics", without="LargeBodies._refusal")
@by_runtime("test_security.py::test_metrics_are_not_for_policies")
def a_session_may_aggregate(original, server, request, body):
    request.session.pop("seeded", None)
    return original(server, request, body)


@replaces("messages.reject_oversized")
@by_runtime("test_limits.py::test_a_trajectory_of_too_many_items_earns_nothing")
def the_items_of_a_trajectory_are_not_counted(original, body):
    return None


# ---------------------------------------------------------------------- sessions


@replaces("SessionStore._make_room")
@by_runtime("test_limits.py::test_one_session_too_many_is_refused")
def there_is_always_room(original, store):
    return None


@replaces("SessionStore.hung_calls")
@by_runtime("test_hangs.py::test_calls_that_hang_are_bounded")
def calls_that_hang_are_not_counted(original, store):
    return 0


@replaces("Declaration.tool_seconds")
@by_runtime("test_hangs.py::test_a_tool_may_take_longer_than_tool_seconds")
def every_tool_has_the_usual_limit(original, domain_class):
    return {}


@replaces("Session.perform")
@by_runtime("test_threads.py::test_the_calls_of_a_session_never_overlap")
def calls_of_a_session_overlap(original, session, *arguments, **named):
    session.lock = asyncio.Lock()
    return original(session, *arguments, **named)


# ---------------------------------------------------------------------- masks


@replaces("Session.reward")
@by_runtime("test_hangs.py::test_a_policy_whose_call_hangs_is_graded_all_the_same")
async def a_call_that_hangs_masks_the_sample(original, session, *arguments, **named):
    if session.job is not None:
        session.episode.failure = "a call hangs"
    return await original(session, *arguments, **named)


@replaces("Episode.problem")
@by_attacks("test_nonsense")
def a_call_that_fails_masks_the_sample(original, episode, name, error):
    episode.failure = f"{name} failed"
    return original(episode, name, error)


@replaces("verdict.verdict")
@by_attacks("test_playing_on_after_the_end")
def a_closed_session_masks_the_sample(original, store, request, *arguments):
    response = original(store, request, *arguments)
    ended = store.ended.get(request.session["session_id"])
    response.mask_sample = response.mask_sample or bool(ended)
    return response


@replaces("verdict.verdict")
@by_attacks("test_the_task_of_another_row")
def a_row_of_another_task_masks_the_sample(original, store, request, body, *rest):
    response = original(store, request, body, *rest)
    session = store.sessions.get(request.session["session_id"])
    response.mask_sample = bool(session) and session.task != body.task
    return response


@replaces("verdict.verdict")
@by_runtime("test_seeding.py::test_a_session_of_an_earlier_server_is_known_to_be_lost")
def a_lost_session_is_not_masked(original, *arguments):
    response = original(*arguments)
    response.mask_sample = False
    return response


@replaces("Declaration.is_expected")
@by_runtime("test_failures.py::test_an_exception_in_a_tool")
def the_policy_reads_every_exception(original, domain_class, error):
    return True


@replaces("answers._composed")
@by_runtime("test_text_match.py::test_text_that_the_policy_wrote_earns_nothing")
def text_put_together_from_words_counts(original, text, pieces):
    return False


@replaces("answers.printed")
@by_runtime("test_text_match.py::test_text_that_the_policy_wrote_earns_nothing")
def an_echo_counts(original, calls, text):
    return any(text.strip() in call.output for call in calls)


# ---------------------------------------------------------------------- browsers


@replaces("auth._is_own")
@by_runtime("test_security.py::test_without_a_token_the_host_must_be_this_machine")
def any_host_is_this_machine(original, *arguments):
    return True


@replaces("auth.origin_problem")
@by_runtime("test_security.py::test_pages_of_other_sites_get_no_answer")
def pages_of_any_site_are_answered(original, scope, settings):
    return original(without(scope, b"origin"), settings)


@replaces("SessionServer._invalid_body")
@by_runtime("test_both_ways.py::test_both_ways_have_the_same_answers")
async def a_malformed_body_is_repeated(original, server, request, error):
    return await request_validation_exception_handler(request, error)
