"""Mutants of the threads that sessions share, and of a server that has no room."""

import threading

from env_runtime.episode.session import Job
from env_runtime.errors import NoThreadError

from . import by_runtime as by
from . import replaces


@replaces("EpisodeThread.run")
@by("test_shared_threads.py::test_sessions_on_one_thread_stay_in_it_and_in_order")
def each_call_has_a_thread_of_its_own(original, thread, work, seconds, limit=None):
    job = Job(work, seconds)
    job.result.set_running_or_notify_cancel()

    def finish():
        try:
            job.result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - as the thread does
            job.result.set_exception(error)

    threading.Thread(target=finish, name="episode", daemon=True).start()
    return job


@replaces("EpisodeThread.hangs")
@by("test_shared_threads.py::test_a_thread_with_a_hanging_call_gets_no_session")
def no_thread_hangs(original, thread):
    return False


@replaces("Job.stop_clock")
@by("test_shared_threads.py::test_the_time_of_other_calls_does_not_count")
def the_time_of_other_calls_counts(original, job, limit):
    return None


@replaces("EpisodeThread.stop")
@by("test_shared_threads.py::test_a_thread_ends_with_its_last_session")
def threads_stay_when_their_sessions_end(original, thread):
    return None


@replaces("EpisodeThreads._start")
@by("test_room.py::test_no_more_threads")
def a_session_without_a_thread_takes_anothers(original, threads):
    try:
        return original(threads)
    except NoThreadError:
        return threads._least_used()


@replaces("errors.shortage")
@by("test_room.py::test_a_tool_that_finds_no_more_masks_the_sample")
def no_error_is_the_machines(original, error):
    return ""


@replaces("errors.shortage")
@by("test_room.py::test_what_a_policy_can_provoke_masks_nothing")
def every_error_is_the_machines(original, error):
    return original(error) or ("no more files can be opened" if error else "")


@replaces("store._memory")
@by("test_room.py::test_memory_near_the_limit")
def memory_is_never_short(original):
    return ""


@replaces("store.most_threads")
@by("test_room.py::test_half_of_a_pods_threads_are_for_episodes")
def a_pods_threads_are_all_for_episodes(original):
    return 2 * original()
