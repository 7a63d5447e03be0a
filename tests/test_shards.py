"""SHARDS=2 on Ray: `python server.py`, NeMo Gym's own loop, and a cluster.

tests/runtime/shards/ has shards that are processes.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import pytest
import requests

from projects import ANY_PORT, ROOT, clean_environment, run, running

NEWER = pytest.mark.parametrize("series", ["0.7"], indirect=True)


@pytest.fixture
def ray_folder():
    """Ray's files, away from those of other clusters on this machine."""
    with tempfile.TemporaryDirectory(
        "", "ray-", "/tmp", ignore_cleanup_errors=True
    ) as folder:
        yield folder


def processes_that_name(text):
    listed = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if text in line]


@pytest.mark.slow
@NEWER
def test_the_slurm_job_of_the_docs(generate, tmp_path):
    """The shards use the Ray cluster of the job."""
    document = (ROOT / "docs/internals/measured.md").read_text()
    [config] = re.findall(r"```yaml\n(# submit.yaml\n.*?)```", document, re.DOTALL)
    (tmp_path / "submit.yaml").write_text(config)
    environment = generate(archetype="game")
    gym = environment.python.with_name("gym")
    options = ["eval", "submit", "--config", tmp_path / "submit.yaml", "--dry-run"]
    job = run([gym, *options], environment.folder).stdout
    assert "export GYM_RAY_ADDRESS_SHARDS=" in job
    assert "SHARDS=64 SHARD_CPUS=1 RAY_ADDRESS=${GYM_RAY_ADDRESS_SHARDS} srun" in job
    for named in ("environments/my_env/config.yaml", "data/example.jsonl"):
        assert named in job
        assert (environment.folder / named).is_file()


# Tests of one server that expect something else of two shards
OTHERWISE = {
    "test_one_session_too_many_is_refused": "MAX_SESSIONS=1 is one for each shard",
    "test_a_call_that_hangs_gives_its_session_s_place_back": "the same",
    "test_calls_that_hang_are_bounded": "MAX_HUNG_CALLS is for each shard",
    "test_an_abandoned_session_gives_way_to_a_seed": "MAX_SESSIONS is for each shard",
    "test_no_session_gives_way_while_a_model_may_still_answer": "the same",
    "test_calls_without_a_cookie_lock_nobody_out": "its last seed may be another's",
    "test_a_session_that_ends_while_it_is_made_is_closed": "ends it in the proxy",
    "test_cookies_are_good_while_the_secret_is_the_same": "one session, two servers",
    "test_the_process_ends_though_a_tool_and_close_hang": "starts a process",
    "test_session_log_has_the_traceback_and_the_row": "the same",
    "test_a_lost_session_is_in_the_log": "takes the memory of one process away",
}
SUITES = ["seeding", "verdicts", "hangs", "threads", "security", "limits", "replay"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*SUITES, "failures", "hand_written_routes"])
def test_a_suite_of_the_single_server(name):
    suite = ROOT / f"tests/runtime/test_{name}.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-o", "addopts="]
    command += ["-p", "two_shards", "-k", f"not ({' or '.join(OTHERWISE)})", str(suite)]
    run(command, ROOT, PYTHONPATH=str(ROOT / "tests"))


@pytest.mark.nightly
def test_server_py_on_ray(generate, ray_folder):
    environment = generate(archetype="game")
    variables: dict = {**ANY_PORT, "SHARDS": "2", "RAY_TMPDIR": ray_folder}
    command = [environment.python, "server.py"]
    with running(command, environment.folder, **variables) as (url, _):
        health = requests.get(f"{url}/health", timeout=60).json()
        assert (health["shards"], health["shards_up"]) == (2, 2)
        results = environment.gates("smoke", "rollout", "--url", url)
    assert [one["passed"] for one in results] == [True, True]
    assert not processes_that_name(ray_folder)
    assert not processes_that_name(str(environment.project))


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "workers"), [("ray", 1), ("processes", 2)])
def test_nemo_gym_s_own_loop(generate, kind, workers):
    """With one proxy process, and with NeMo Gym's num_workers."""
    environment = generate(archetype="game")
    config = environment.folder / "configs/my_env.yaml"
    before = config.read_text()
    config.write_text(f"{before}      num_workers: {workers}\n      shards: 2\n")
    try:
        options = ["rollout", "--under-gym", "--json"]
        printed = environment.run("gates.py", *options, SHARDS_ON=kind)
    finally:
        config.write_text(before)
    [result] = json.loads(printed[printed.index("[") :])
    assert "under NeMo Gym: the oracle earns 1.0, noop 0.0" in result["detail"]
    assert not processes_that_name(str(environment.project))


@pytest.mark.nightly
@NEWER
def test_a_node_of_three_dies(generate, ray_folder, tmp_path):
    """Its shards' episodes are masked, and all other episodes earn."""
    environment = generate(archetype="game")
    process = subprocess.Popen(
        [environment.python, ROOT / "tests/ray_cluster.py"],
        cwd=environment.folder,
        env=clean_environment(
            PYTHONPATH=str(environment.folder),
            TRUSTED_POLICY="1",
            RAY_TMPDIR=ray_folder,
            RAY_ENABLE_UV_RUN_RUNTIME_ENV="0",
            RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="1",
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert "RESULT" in printed, printed
    result = json.loads(printed.rpartition("RESULT ")[2].splitlines()[0])
    print({key: result[key] for key in ("slowest", "back", "gone", "nodes")})
    assert result["gone"]
    for shard, outputs, reward, masked in result["played"]:
        assert [status for status, _ in outputs] == [200] * len(outputs)
        if shard in result["gone"]:
            assert all("this episode was lost" in text for _, text in outputs)
            assert (reward, masked) == (0.0, True)
        else:
            assert (reward, masked) == (1.0, False)
    assert result["seed"] == 200
    assert result["slowest"] < 30
    assert result["back"] < 60
    assert result["found again"] == 1.0
    assert result["left"] == []
