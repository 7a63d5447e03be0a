"""Which nightly tests a change calls for: `pytest -m nightly --changed-since REF`.

The tests of a part of the code run by day only if that part changed. At night, all of them run.
"""

import math
import subprocess
import time
from collections import Counter
from typing import Any

import pytest

from projects import QUICK, ROOT, WHOLE

RUNTIME = "runtime/src/env_runtime/"

# The modules of tests/runtime/ whose servers run as `python server.py` starts them, and at
# night as NeMo Gym does.
BOTH_WAYS = [
    "test_components",
    "test_conversation_attacks",
    "test_failures",
    "test_hand_written_routes",
    "test_hangs",
    "test_large_bodies",
    "test_limits",
    "test_mcp",
    "test_native_rows",
    "test_own_suite",
    "test_protocol",
    "test_replay",
    "test_reply",
    "test_reward_range",
    "test_room",
    "test_row_tools",
    "test_security",
    "test_seeding",
    "test_shared_threads",
    "test_text_match",
    "test_threads",
    "test_tool_calls",
    "test_verdicts",
]
# Other tests of the day run commands like those of these pages.
PAGES_BY_NIGHT = [
    "README.md",
    "docs/from/dataset.md",
    "docs/from/mcp-server.md",
    "docs/from/repository.md",
    "docs/generating.md",
    "docs/running.md",
    "docs/tasks-and-data.md",
    "docs/training.md",
    "docs/your-own-class.md",
    "examples/README.md",
    "skills/generate-nemo-gym-env/SKILL.md",
]
# How many cases of a test run by day. Its others cost much, and run alike, so they run by
# night, and when a part changes that they protect.
CASES_BY_DAY = {
    "runtime/test_agent.py::test_a_call_with_odd_arguments_is_read_by_the_model": 8,
    "runtime/test_class_checks.py::test_a_tool_with_the_name_of_a_path": 4,
    "runtime/test_conversation_attacks.py::test_a_text_that_holds_up_other_episodes_is_named": 1,
    "runtime/test_deferred_imports.py::test_a_module_imports_no_statistics": 1,
    "runtime/test_deferred_imports.py::test_statistics_are_the_same_with_quick_imports": 0,
    "runtime/test_flaws.py::test_a_flaw_is_named_with_its_cure": 16,
    "runtime/test_flaws.py::test_an_honest_grade_is_left_alone": 9,
    "runtime/test_flaws_owned.py::test_a_flaw_is_named_with_its_cure": 2,
    "runtime/test_flaws_owned.py::test_an_honest_grade_is_left_alone": 2,
    "runtime/test_flaws_programs.py::test_a_file_that_the_tests_read_is_found": 0,
    "runtime/test_frameworks.py::test_a_framework_with_other_rewards_fails": 0,
    "runtime/test_fresh.py::test_a_grade_that_is_wrong_in_each_process_is_blamed": 0,
    "runtime/test_fresh.py::test_folders_that_episodes_leave_behind_are_counted": 1,
    "runtime/test_fresh.py::test_state_that_only_a_part_of_a_solution_meets_is_named": 0,
    "runtime/test_fresh.py::test_state_that_outlives_its_episode_is_named": 1,
    "runtime/test_fresh.py::test_the_order_of_a_set_is_found": 0,
    "runtime/test_gym_loop.py::test_an_agent_may_write_requests_of_its_own": 1,
    "runtime/test_fresh.py::test_what_doing_nothing_earns_is_traced_to_the_episode_that_earned_it": 0,
    "runtime/test_learned.py::test_a_choice_by_rank_is_found": 0,
    "runtime/test_learned.py::test_a_high_floor_stays_weak": 0,
    "runtime/test_learned.py::test_fields_of_rows_are_found": 0,
    "runtime/test_learned.py::test_rows_that_were_drawn_against_a_player_are_told": 0,
    "runtime/test_long_files.py::test_one_odd_row_of_a_long_file_is_named": 2,
    "runtime/test_long_files.py::test_the_server_plays_a_part_of_a_long_file": 1,
    "runtime/test_mcp_episode.py::test_calls_reach_a_server_of_the_episodes_own": 1,
    "runtime/test_mcp_episode.py::test_the_gates_find_episodes_that_see_one_another": 1,
    "runtime/test_mcp_programs.py::test_a_database_that_the_server_leaves": 1,
    "runtime/test_mcp_programs.py::test_a_file_that_the_server_leaves": 2,
    "runtime/test_mcp_programs.py::test_a_program_with_its_modules_beside_its_folder": 2,
    "runtime/test_mcp_programs.py::test_a_python_program_with_its_modules_beside_bin": 1,
    "runtime/test_mcp_programs.py::test_scripts_of_node": 4,
    "runtime/test_mcp_programs.py::test_uv_run_in_a_folder": 1,
    "runtime/test_mcp_programs.py::test_uv_run_of_a_script_with_dependencies_of_its_own": 1,
    "runtime/test_models.py::test_a_failure_for_every_question_masks_the_sample": 9,
    "runtime/test_models.py::test_a_failure_that_a_text_causes_masks_nothing": 9,
    "runtime/test_models.py::test_two_hundred_at_once_hold_the_bound": 1,
    "runtime/test_near_misses.py::test_each_part_of_an_answer_is_changed_by_itself": 4,
    "runtime/test_near_misses.py::test_graded_pins_an_argument": 0,
    "runtime/test_near_misses.py::test_what_a_grade_lets_pass_is_named": 2,
    "runtime/test_shelf.py::test_all_are_updated": 0,
    "runtime/test_slim_image.py::test_a_server_serves_without_it": 0,
    "runtime/test_splits.py::test_a_row_is_the_same_however_its_prompt_is_written": 0,
    "runtime/test_tested_programs.py::test_only_a_right_solution_passes": 6,
    "runtime/test_user_tools.py::test_the_policy_cannot_call_the_user_s_tools": 1,
    "test_classes.py::test_pytest_in_the_repository_around_it_leaves_the_tests_out": 0,
    "test_classes.py::test_an_update_of_a_class_in_src_changes_nothing": 0,
    "test_environments.py::test_the_desktop": 0,
    "test_environments.py::test_the_folder_does_not_hide_the_package": 0,
    "test_environments.py::test_the_gate_that_an_image_is_built_with": 0,
    "test_environments.py::test_the_main_branch_of_nemo_gym_can_be_installed": 0,
    "test_environments.py::test_the_workspaces_of_this_machine": 0,
    "test_environments.py::test_tools_of_ones_own_only": 0,
    "test_examples.py::test_a_query_only_reads_and_ends": 6,
    "test_examples.py::test_a_module_that_cheats_earns_nothing": 4,
    "test_examples.py::test_gates_and_tests_are_green": 0,
    "test_guests.py::test_a_repository_that_stays_as_it_is_is_accepted": 3,
    "test_guests.py::test_a_second_environment_does_not_replace_the_first": 1,
    "test_guests.py::test_pythons_that_the_repository_refuses_are_left_out": 2,
    "test_guests.py::test_the_repositorys_own_build_lock_and_tests_stay": 1,
    "test_nemo_gym.py::test_no_call_of_a_policy_ends_a_run": 0,
    "test_nemo_gym.py::test_nemo_gym_finds_nothing_to_complain_of": 0,
    "test_nemo_gym.py::test_the_commands_of_the_series_by_hand": 1,
    "test_ports.py::test_a_document_in_the_arguments_of_a_call": 0,
    "test_ports.py::test_a_port_earns_what_the_server_gave": 10,
    "test_ports.py::test_only_the_methods_in_server_py_are_tools": 6,
    "test_ports.py::test_the_oracle_of_a_port_earns_its_reward": 10,
    "test_questions.py::test_a_bad_answer_is_refused": 30,
    "test_questions.py::test_names_come_from_the_folder": 3,
    "test_render.py::test_any_text_comes_out_whole": 2,
    "test_render.py::test_archetypes_and_tool_lists": 6,
    "test_render.py::test_backends": 5,
    "test_render.py::test_make_rows_makes_the_rows_of_the_template": 4,
    "test_render.py::test_no_file_has_a_path_of_the_machine_that_made_it": 3,
    "test_render.py::test_several_environments_pass_mypy_as_the_docs_say": 0,
    "test_siblings_installed.py::test_a_class_as_it_is": 0,
    "test_siblings_installed.py::test_a_model_sees_images_and_its_last_message_counts": 0,
    "test_siblings_installed.py::test_a_tool_server_imports_what_it_uses": 0,
    "test_siblings_installed.py::test_openenvs_client_for_tools_and_its_page": 0,
    "test_siblings_installed.py::test_the_adapter_over_the_lamp": 0,
    "test_siblings_installed.py::test_trls_environment": 0,
    "test_siblings_installed.py::test_what_a_policy_may_try": 0,
    "test_tools.py::test_ways_to_write_two_tools": 3,
    "test_trl.py::test_models_see_the_servers_definitions": 0,
    "test_update.py::test_a_class_can_become_a_package": 0,
    "test_update.py::test_a_class_of_an_earlier_release_goes_on_working": 0,
    "test_update.py::test_a_class_of_ones_own_stays_through_updates": 0,
    "test_update.py::test_a_fork_without_the_releases_tags_updates": 0,
    "test_update.py::test_a_method_called_like_the_archetypes_tool": 0,
    "test_update.py::test_a_refused_answer_leaves_everything_as_it_was": 0,
    "test_update.py::test_added_dependencies_stay_when_the_templates_change": 0,
    "test_update.py::test_an_update_installs_once_after_the_merge": 0,
    "test_update.py::test_an_update_equals_a_fresh_render": 0,
    "test_update.py::test_from_an_earlier_release": 0,
    "test_update.py::test_from_an_earlier_release_over_a_class_of_ones_own": 0,
    "test_update.py::test_updates_as_pull_requests": 0,
}
# How many cases of a test `.ci/run` repeats on the other release series. GitHub's workflow
# runs all tests on both.
CASES_ON_BOTH = 3
SERVERS = [
    RUNTIME + "gym_series.py",
    RUNTIME + "resources_server/",
    RUNTIME + "server.py",
    RUNTIME + "testing/",
    "tests/runtime/support.py",
]

GATES = [RUNTIME + "checks/", RUNTIME + "probe/"]
UNDER_GYM = [RUNTIME + "gym_commands.py", RUNTIME + "under_gym.py"]

# Each file of tests, or suite in it, names the paths that its nightly tests protect.
PROTECTED = {
    **{f"runtime/{name}.py": SERVERS for name in BOTH_WAYS},
    "runtime/test_class_checks.py": GATES,
    "runtime/test_conversation_attacks.py": [*SERVERS, *GATES],
    "runtime/test_deferred_imports.py": [RUNTIME + "gym_series.py"],
    "runtime/test_flaws.py": GATES,
    "runtime/test_flaws_owned.py": GATES,
    "runtime/test_flaws_programs.py": GATES,
    "runtime/test_fresh.py": GATES,
    "runtime/test_gym_loop.py": SERVERS,
    "runtime/test_frameworks.py": [RUNTIME + "frameworks/"],
    "runtime/test_learned.py": GATES,
    "runtime/test_long_files.py": GATES,
    "runtime/test_mcp_episode.py": [RUNTIME + "mcp/", *GATES],
    "runtime/test_mcp_programs.py": [RUNTIME + "mcp/"],
    "runtime/test_models.py": [RUNTIME + "models/"],
    "runtime/test_near_misses.py": GATES,
    "runtime/test_shelf.py": [RUNTIME + "shelf.py"],
    "runtime/test_slim_image.py": [RUNTIME + "slim_image.py", RUNTIME + "scale/"],
    "runtime/test_splits.py": [RUNTIME + "evaluation/", *GATES],
    "runtime/test_tested_programs.py": [RUNTIME + "workspace/"],
    "runtime/test_user_tools.py": [RUNTIME + "models/", RUNTIME + "episode/"],
    "runtime/test_core.py": [
        "pyproject.toml",
        "tests/test_layers.py",
        RUNTIME + "server.py",
    ],
    "runtime/test_project_settings.py": [
        RUNTIME + "project_settings.py",
        RUNTIME + "testing/",
    ],
    "runtime/test_gym_series.py": [RUNTIME + "gym_series.py", "tests/gym_layout.py"],
    "runtime/test_mcp_many.py": [RUNTIME + "mcp/"],
    "runtime/test_sql.py": [RUNTIME + "sql/"],
    "runtime/test_moved.py": [RUNTIME + "episode/"],
    "runtime/test_agent.py": [RUNTIME + "frameworks/nemo_gym.py"],
    "runtime/shards/test_failures.py": [RUNTIME + "scale/", *SERVERS],
    "test_classes.py": [
        "copier.yml",
        "tests/classes/",
        "extensions/",
        "archetypes/_wrapped/",
        RUNTIME + "checks/",
    ],
    "test_docs.py": ["copier.yml"],
    **{
        f"test_docs.py::test_the_commands_run[{page}": [page] for page in PAGES_BY_NIGHT
    },
    "test_environments.py": ["archetypes/", "extensions/", RUNTIME + "gym_series.py"],
    "test_environments.py::test_an_environment_over_a_dataset": [
        RUNTIME + "graders.py",
        RUNTIME + "rows/",
    ],
    "test_environments.py::test_the_runtime": [RUNTIME + "event_loop.py"],
    "test_environments.py::test_the_workspaces": [
        "tests/backends/",
        RUNTIME + "workspace/",
    ],
    "test_environments.py::test_sandboxes": ["tests/backends/", RUNTIME + "workspace/"],
    "test_examples.py": ["examples/", RUNTIME + "checks/"],
    "test_guests.py": ["copier.yml", "extensions/", "template/"],
    "test_fuzz.py": [RUNTIME + "resources_server/"],
    "test_gym_agents.py": [
        RUNTIME + "gym_agents.py",
        RUNTIME + "resources_server/over_mcp.py",
    ],
    "test_harbor.py": [RUNTIME + "harbor/"],
    "test_inspect.py": ["docs/frameworks.md"],
    "test_mcp_servers.py": [RUNTIME + "mcp/", RUNTIME + "workspace/bubblewrap.py"],
    "test_models.py": [*UNDER_GYM, RUNTIME + "models/"],
    "test_mutants.py": [],
    "test_mutants.py::test_a_mutant_is_noticed": [
        RUNTIME + "auth.py",
        RUNTIME + "models/question.py",
        RUNTIME + "resources_server/",
        RUNTIME + "server.py",
        RUNTIME + "workspace/",
    ],
    "test_nemo_gym.py": [
        *SERVERS,
        "template/nemo_gym/",
        RUNTIME + "frameworks/nemo_gym.py",
        *UNDER_GYM,
        RUNTIME + "prepare.py",
        "tests/gym_layout.py",
        "tests/nemo_rl.py",
    ],
    "test_package.py": [RUNTIME + "package/"],
    "test_packages.py": ["examples/packages/", RUNTIME + "checks/"],
    "test_play.py": [RUNTIME + "playing/", "tests/play_in_chromium.py"],
    "test_ports.py": ["examples/nemo_gym/"],
    "test_post_generate.py": ["extensions/post_generate.py"],
    "test_questions.py": ["copier.yml", "extensions/"],
    "test_render.py": ["template/", "archetypes/"],
    "test_shards.py": [RUNTIME + "scale/"],
    "test_siblings_installed.py": [
        "template/{%",
        "tests/adapters/",
        RUNTIME + "evaluation/episodes.py",
        RUNTIME + "frameworks/",
    ],
    "test_tools.py": ["copier.yml", "extensions/", "template/"],
    "test_trl.py": ["template/{%"],
    "test_update.py": ["copier.yml", "extensions/", "template/"],
    "test_verifiers.py": ["template/nemo_gym/configs/", RUNTIME + "resources_server/"],
    "test_wheels.py": ["template/{%", RUNTIME + "frameworks/"],
}


def changed_since(reference: str) -> list[str]:
    """The files that differ from a commit, by their paths in the repository.

    Raises pytest.UsageError if git does not find the commit.
    """
    command = ["git", "-C", str(ROOT), "diff", "--name-only", "-z", reference, "--"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise pytest.UsageError(
            f"--changed-since: git finds no commit {reference!r}: {done.stderr.strip()}"
        )
    return done.stdout.split("\0")[:-1]


def is_called_for(test: str, changed: list[str]) -> bool:
    """Whether one of the changed files is protected by a nightly test, or is its own.

    `test` is a pytest id relative to tests/. Raises KeyError if PROTECTED lacks it.
    """
    file = test.partition("::")[0]
    starts = [f"tests/{file}", *PROTECTED[file]]
    for part, paths in PROTECTED.items():
        if part != file and test.startswith(part):
            starts += paths
    return any(path.startswith(tuple(starts)) for path in changed)


def nightly(*values: Any) -> Any:
    """A case for the nights: others say the same by day, at least in part."""
    return pytest.param(*values, marks=pytest.mark.nightly)


GAME_BY_DAY = ["game", *map(nightly, WHOLE[1:])]
# The game proves the main job; the others are installed and run by the slow tests.
GAME_FIRST = [
    "game",
    *(pytest.param(one, marks=pytest.mark.slow) for one in WHOLE[1:]),
]

# Modules of tests/runtime/ that say the same on each release series of NeMo Gym
SAME_ON_BOTH = [
    "children",
    "class_checks",
    "conversation_attacks",
    "data_is_text",
    "dataset_kinds",
    "dataset_projects",
    "dataset_shapes",
    "datasets",
    "deploy",
    "docstrings",
    "flaws",
    "flaws_owned",
    "flaws_programs",
    "framework_protocol",
    "frameworks",
    "fresh",
    "gates",
    "graders",
    "imports",
    "learned",
    "llm",
    "mcp_episode",
    "mcp_many",
    "mcp_programs",
    "models",
    "near_misses",
    "package",
    "plain",
    "play",
    "project",
    "project_settings",
    "properties",
    "report",
    "rows_generator",
    "shelf",
    "slim_image",
    "spellings",
    "splits",
    "sql",
    "stats",
    "tested_programs",
    "trl",
    "written",
]
# Other modules of which some tests need one series
OF_ONE_SERIES = ["test_api", "test_coverage", "test_layers", "test_ports"]
# The fixtures that install a project, and NeMo Gym with it
INSTALLS = {"generate", "install", "interpreter", "series"}

STARTED = pytest.StashKey[float]()  # when this process did, in seconds
ONE_SERIES = pytest.mark.parametrize("series", [QUICK], indirect=True)
# The runtime's tests show the same on the other series, as do other commands there.
OLDER_BY_NIGHT = pytest.mark.parametrize(
    "series", ["0.7", nightly("0.4")], indirect=True
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--changed-since",
        metavar="REF",
        help="of the nightly tests, only those whose part of the code changed since a commit",
    )
    parser.addoption(
        "--nightly-seconds",
        metavar="N",
        type=float,
        default=math.inf,
        help="no nightly test begins that may end later than N seconds after the start",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STARTED] = time.monotonic()


def depends_on_the_series(item: pytest.Item) -> bool:
    """Whether a test may say something else on the other release series of NeMo Gym."""
    if INSTALLS & {*getattr(item, "fixturenames", ())}:
        return True
    if item.path.parent != ROOT / "tests":
        return item.path.stem.removeprefix("test_") not in SAME_ON_BOTH
    return item.path.stem in OF_ONE_SERIES


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("nightly"):
        seconds = time.monotonic() - item.config.stash[STARTED]
        installs = {"install", "repository"} & {*getattr(item, "fixturenames", ())}
        seconds += 280 if installs else 60  # the most that one has taken
        if seconds > item.config.getoption("--nightly-seconds"):
            pytest.skip("--nightly-seconds: the time for nightly tests is up")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """The tests on the other release series are slow. A nightly test is not slow, too."""
    cases: Counter[str] = Counter()
    numbers = {}  # of each case among those of its test, from 1
    for item in items:
        test = item.nodeid.removeprefix("tests/").partition("[")[0]
        cases[test] += 1
        numbers[item] = cases[test]
        if cases[test] > CASES_BY_DAY.get(test, math.inf):
            item.add_marker(pytest.mark.nightly)
    if (since := config.getoption("--changed-since")) is not None:
        changed = changed_since(since)
        left_out = [
            item
            for item in items
            if item.get_closest_marker("nightly")
            and not is_called_for(item.nodeid.removeprefix("tests/"), changed)
        ]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if item.get_closest_marker("nightly"):
            item.own_markers = [one for one in item.own_markers if one.name != "slow"]
        elif parameters.get("series", QUICK) != QUICK:
            item.add_marker("slow")
        if depends_on_the_series(item) and numbers[item] <= CASES_ON_BOTH:
            item.add_marker("series")
        if item.get_closest_marker("slow") or item.get_closest_marker("nightly"):
            # Sockets to processes that they started end with these.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
    if since is not None:
        items.sort(key=turn)


def turn(item: pytest.Item) -> int:
    """The long tests come first, so that short ones fill what is left of the time."""
    if item.get_closest_marker("nightly"):
        return 2
    return 0 if item.get_closest_marker("slow") else 1
