"""Mutants of the sandbox on this machine: paths, limits, the quota and isolation."""

import os

from . import by_sandbox, replaces

# ---------------------------------------------------------------------- paths


@replaces("folder.steps")
@by_sandbox("test_contract.py::test_paths_stay_inside")
def paths_may_climb(original, path):
    return path.split("/")


@replaces("folder.open_file")
@by_sandbox("test_backend.py::test_planted_links_lead_nowhere")
def links_are_followed(original, home, path, flags, *give):
    try:
        return os.open(f"{home}/{path}", flags, 0o644)
    except OSError as error:
        raise ValueError(f"cannot open {path!r}") from error


# ---------------------------------------------------------------------- limits


@replaces("disk.measure")
@by_sandbox("test_backend.py::test_written_files_count")
def nothing_is_measured(original, *arguments):
    return 0.0


@replaces("disk.measure")
@by_sandbox("test_backend.py::test_a_command_that_fills_the_workspace_is_killed")
def files_are_not_counted(original, root, limits, enough):
    more = {"sandbox_files": 1 << 40}
    return original(root, limits.model_copy(update=more), enough)


@replaces("disk.deleted_bytes")
@by_sandbox("test_backend.py::test_deleted_files_that_are_open_count")
def deleted_files_are_not_counted(original, *arguments):
    return 0


def without(name, limits):
    """The limits of a process, without one of them."""
    kept = [limit for limit in limits.split() if not limit.startswith(f"{name}=")]
    return " ".join(kept)


@replaces("Limits.rlimits")
@by_sandbox("test_backend.py::test_memory_is_limited")
def memory_is_not_limited(original, limits, **named):
    return without("RLIMIT_AS", original(limits, **named))


@replaces("Limits.rlimits")
@by_sandbox("test_backend.py::test_processes_are_limited_and_counted_per_episode")
def processes_are_not_limited(original, limits, **named):
    return without("RLIMIT_NPROC", original(limits, **named))


@replaces("folder.kill_all")
@by_sandbox("test_backend.py::test_a_daemon_ends_with_its_call")
def a_daemon_lives_on(original, session, mark):
    from env_runtime.workspace.folder import kill_group

    kill_group(session)


# ---------------------------------------------------------------------- isolation


@replaces("bubblewrap.arguments")
@by_sandbox("test_backend.py::test_what_a_policy_can_read_with_bubblewrap")
def commands_reach_the_network(original, root):
    own = [each for each in original(root) if each != "--unshare-net"]
    if "--unshare-all" in own:
        own.insert(own.index("--unshare-all") + 1, "--share-net")
    return own


@replaces("bubblewrap._mounts")
@by_sandbox("test_backend.py::test_what_a_policy_can_read_with_bubblewrap")
def commands_see_the_data_of_the_system(original, root):
    return [*original(root), "--ro-bind", "/var", "/var"]


@replaces("bubblewrap.arguments")
@by_sandbox("test_backend.py::test_no_door_to_the_machine_is_open")
def commands_keep_capabilities(original, root):
    return [*original(root)[:-1], "--cap-add", "CAP_SYS_ADMIN", "--"]


@replaces("local._launcher")
@by_sandbox("test_backend.py::test_doors_beside_the_namespaces_are_closed")
def system_calls_are_not_filtered(original):
    text = original()
    call = "        confine(watches)\n"
    assert call in text
    return text.replace(call, "")


@replaces("bubblewrap.arguments")
@by_sandbox("test_environment.py::test_the_environment_of_a_command_has_no_secrets")
def commands_inherit_the_environment(original, root):
    key = os.environ.get("OPENAI_API_KEY", "none")
    return [*original(root)[:-1], "--setenv", "OPENAI_API_KEY", key, "--"]


# ---------------------------------------------------------------------- who is to blame


@replaces("MyEnv.run_command")
@by_sandbox("test_backend.py::test_a_folder_that_a_command_spoiled_masks_no_episode")
def every_error_masks_the_sample(original, episode, command):
    try:
        return original(episode, command)
    except ValueError as error:
        episode.infrastructure_failure = str(error)
        raise


@replaces("MyEnv.reward")
@by_sandbox("test_environment.py::test_an_infrastructure_failure_masks_the_sample")
def a_failed_workspace_masks_nothing(original, episode):
    episode.infrastructure_failure = None
    return original(episode)


# ---------------------------------------------------------------------- the server's user


@replaces("Limits.rlimits")
@by_sandbox("test_backend.py::test_watches_of_epoll_are_limited")
def watches_of_epoll_are_not_limited(original, limits, **named):
    return without("EPOLL_WATCHES", original(limits, **named))


@replaces("disk._workspaces")
@by_sandbox("test_backend.py::test_only_own_folders_of_dead_servers_are_removed")
def anything_with_a_mark_is_a_workspace(original, folder, mark):
    return [f"{folder}/{name}" for name in os.listdir(folder) if name.startswith(mark)]
