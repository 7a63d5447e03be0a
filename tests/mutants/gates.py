"""Mutants of the gates, and of the frameworks: each passes a broken environment."""

import functools

from . import by_runtime, replaces

by = functools.partial(
    by_runtime,
    honest="tests/runtime/test_answers.py::test_the_gates_of_a_class_without_tools",
)

# ---------------------------------------------------------------------- import


@replaces("class_checks._unserved")
@by("test_class_checks.py::test_a_tool_without_a_line")
def a_missing_line_is_not_reported(original, *arguments):
    return []


@replaces("server._check_paths")
@by("test_class_checks.py::test_two_lines_of_one_path")
def two_lines_of_one_path_pass(original, app):
    return None


@replaces("class_checks._check_signature")
@by("test_class_checks.py::test_a_signature_is_compared_with_the_method")
def signatures_are_not_compared(original, *arguments):
    return None


@replaces("class_checks._check_constructor")
@by("test_class_checks.py::test_a_constructor_without_a_task")
def any_constructor_passes(original, domain_class):
    return None


@replaces("class_checks._construct")
@by("test_class_checks.py::test_a_tool_that_an_attribute_hides")
def no_object_is_made(original, *arguments):
    return ""


@replaces("class_checks._check_static_hooks")
@by("test_class_checks.py::test_a_coroutine_that_nobody_awaits")
def a_hook_that_nobody_awaits_passes(original, domain_class):
    return None


@replaces("class_checks._check_text_parameter")
@by("test_answers.py::test_what_reward_may_take")
def any_reward_passes(original, *arguments, **named):
    return None


@replaces("class_checks._check_answer")
@by("test_answers.py::test_a_server_of_release_0_3")
def a_grade_without_the_answer_passes(original, domain_class, app):
    return None


# ---------------------------------------------------------------------- server


@replaces("smoke.server_gate")
@by("test_gates.py::test_the_server_gate_reads_the_status")
def any_answer_of_health_passes(original, client):
    client.session().request("GET", "/health")
    return f"{client.url}/health answers"


@replaces("runner.report")
@by("test_gates.py::test_the_exit_status_is_that_of_the_gates")
def a_failed_gate_is_a_success(original, results, as_json):
    original(results, as_json)
    return True


@replaces("runner._check_requirement")
@by("test_gates.py::test_where_no_episode_can_run_only_the_import_gate_passes")
def a_machine_without_the_backend_passes(original):
    return None


@replaces("runner.run")
@by("test_gates.py::test_the_exit_status_is_that_of_the_gates")
def only_a_gate_error_fails(original, gates, **options):
    for result in original(gates, **options):
        yield {**result, "passed": result["passed"] or "Error in" in result["detail"]}


# ---------------------------------------------------------------------- smoke


@replaces("smoke._call")
@by("test_gates.py::test_the_smoke_gate_sees_a_bug_behind_a_tool")
def a_bug_behind_a_tool_passes(original, session, name, arguments, *caller):
    answer = session.request("POST", f"/{name}", arguments)
    return answer.json()["output"]


@replaces("smoke._check_refused")
@by("test_gates.py::test_the_smoke_gate_posts_malformed_calls")
def malformed_calls_are_not_tried(original, *arguments):
    return None


@replaces("smoke._echoes")
@by("test_gates.py::test_the_smoke_gate_warns_of_an_echo")
def echoes_are_not_reported(original, *arguments):
    return []


@replaces("smoke.read_rows")
@by("test_answers.py::test_rows_without_the_key_tools_have_the_tools_of_no_server")
def the_tools_of_rows_are_not_compared(original, domain_class, path):
    rows = original(domain_class, path)
    for row in rows:
        row["responses_create_params"]["tools"] = tools_of(row)
    return rows


def tools_of(row):
    """The tools that the server of test_answers.py would have for a row."""
    from env_runtime import project
    from env_runtime.episode.tools import tools_of

    tools = tools_of(project.here().load_class()).values()
    return [tool.definition() for tool in tools]


# ---------------------------------------------------------------------- rollout


@replaces("RewardCheck.check")
@by("test_reward_range.py::test_a_reward_for_nothing")
def doing_nothing_is_not_played(original, check, policy, *arguments):
    if policy != "noop":
        original(check, policy, *arguments)


@replaces("RewardCheck.check")
@by("test_answers.py::test_the_gate_shows_what_it_submitted")
def nonsense_is_not_played(original, check, policy, *arguments):
    if policy != "nonsense":
        original(check, policy, *arguments)


@replaces("RewardCheck.check")
@by("test_reward_range.py::test_an_oracle_that_earns_less")
def the_oracle_is_not_played(original, check, policy, *arguments):
    if policy != "oracle":
        original(check, policy, *arguments)


@replaces("rewards.reward_problem")
@by("test_reward_range.py::test_a_reward_for_nothing")
def any_reward_for_nothing_passes(original, domain_class, row, policy, reward):
    if policy == "oracle":
        return original(domain_class, row, policy, reward)


@replaces("RewardCheck.check")
@by("test_gates.py::test_the_rollout_gate_names_the_row_or_the_call")
def only_the_first_row_is_played(original, check, policy, *arguments):
    check.rows = check.rows[:1]
    original(check, policy, *arguments)


@replaces("rollout._compare")
@by("test_gates.py::test_calls_that_are_answered_otherwise_the_second_time")
def chance_passes(original, *arguments):
    return None


@replaces("project_files.outdated_manifests")
@by("test_gates.py::test_a_class_that_is_not_deterministic")
def manifests_may_say_anything(original, domain_class):
    return iter(())


@replaces("RolloutCheck.check_prompts")
@by("test_protocol.py::test_the_rollout_gate_says_if_a_prompt_lacks_it")
def a_prompt_may_lack_the_observation(original, *arguments):
    return ""


@replaces("RolloutCheck.check_turns")
@by("test_answers.py::test_an_oracle_that_needs_more_turns_than_there_are")
def any_number_of_turns_passes(original, *arguments):
    return None


# ---------------------------------------------------------------------- frameworks

frameworks = functools.partial(
    by_runtime,
    honest="tests/runtime/test_framework_protocol.py::test_the_gates_over_the_bare_class",
)


@replaces("gates.check_tools")
@frameworks("test_frameworks.py::test_the_gates_over_the_bare_class")
def a_framework_lists_any_tools(original, *arguments):
    return None


@replaces("gates._check_tricks")
@frameworks("test_frameworks.py::test_a_framework_with_other_rewards_fails")
async def a_framework_is_not_tricked(original, *arguments):
    return None


@replaces("AsyncEpisode.call")
@frameworks("test_framework_protocol.py::test_the_first_answer_ends_the_episode")
def a_second_answer_counts(original, episode, *arguments):
    episode.over = False
    return original(episode, *arguments)


@replaces("auth.guarded")
@frameworks("test_frameworks.py::test_the_token_guards_an_app")
def a_framework_asks_for_no_token(original, app, *arguments):
    return app
