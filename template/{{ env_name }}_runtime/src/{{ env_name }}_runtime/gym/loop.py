"""Roll out task rows under NeMo Gym itself: its servers, agent and collector.

uv run python -m plumbing.under_gym --model M --model-url http://localhost:8000/v1
uv run python -m plumbing.under_gym --reverify results/rollouts.jsonl

Starts NeMo Gym's servers out of this environment's own .venv, which takes half a
minute, collects one rollout per row, prints the rewards, and ends every process that it
started. NeMo Gym's own words are in results/gym.log.

--reverify, from NeMo Gym 0.7 on, grades the rollouts of an earlier run again, after a
change of reward() for instance: the class's episodes are played once more, call by call.
"""

import argparse
import contextlib
import importlib.util
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import requests
from omegaconf import DictConfig, OmegaConf

from plumbing.gates import TRUSTED, oracle_reward, server_tools
from plumbing.policies import NoOracle, solve
from plumbing.records import HERE, ROWS, RolloutError, load_rows, write_rows
from plumbing.scripted_model import scripted_model
from rollout import positive

RESULTS = HERE / "results"
LOG = RESULTS / "gym.log"
START_SECONDS = 300

# Not for NeMo Gym's processes. The first three would send uv or Python elsewhere;
# API_TOKEN would have the server want a token that NeMo Gym's agents do not send.
DROPPED = ["UV_PYTHON", "VIRTUAL_ENV", "PYTHONPATH", "API_TOKEN"]
SET = {
    # Else Ray joins a cluster that runs on this machine, whoever started it.
    "RAY_ADDRESS": "local",
    # Else Ray finds the `uv run` above it, uploads this folder and works in the copy.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Ray on 127.0.0.1: it may not bind the other addresses of a shared machine.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}

ENDINGS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@contextlib.contextmanager
def _handling(numbers: list[signal.Signals], handler: Any) -> Generator[None]:
    """Handles signals with `handler` in the with block, or the decorated function."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _leave(number: int, frame: Any) -> None:
    sys.exit(128 + number)


@_handling(ENDINGS, _leave)
def collect(
    model: str,
    url: str,
    key: str = "none",
    *,
    rows: Path = ROWS,
    limit: int | None = None,
    output: Path = RESULTS / "rollouts.jsonl",
    model_type: str = "openai_model",
    trusted: bool = False,
) -> list[dict[str, Any]]:
    """NeMo Gym's rollouts, in the order of `rows`; the file `output` has them too.

    `output`, and what NeMo Gym writes beside it, is replaced once all rows are played.
    What there is of a run that failed is in the folder `<output>.partial`.
    `model_type` is the NeMo Gym server that talks to the model: openai_model to one
    with a Responses API, vllm_model to one with Chat Completions. A `trusted` policy
    may play where the server would refuse to serve any other.
    Raises RolloutError, one line for the user, and SystemExit if a signal ends it.
    Call it from the main thread.
    """
    output = output.resolve()
    if output == rows.resolve():
        raise RolloutError(f"{rows} has the rows: name another file with --output")
    total = len(load_rows(rows)[:limit])
    _check_answers(url)
    new = output.with_name(f"{output.name}.partial") / output.name
    if new.parent.exists():
        shutil.rmtree(new.parent)
    for path in (LOG, new):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    config = _config()
    link_venvs(model_type)
    # NeMo Gym's default is 11000, where server.py is served.
    head = ["++head_server.host=127.0.0.1", f"++head_server.port={free_port()}"]
    start = ["env", "start", "--config", config, "--model-type", model_type]
    start += ["--model", model, "--model-url", url]
    # Not --model-api-key: everybody on this machine can read command lines.
    start += ["+policy_api_key=${oc.env:POLICY_API_KEY}", *head]
    start += ["++uv_venv_dir=.venvs", "++skip_venv_if_present=true"]
    gather = ["eval", "run", "--no-serve", "--agent", agent_name(), *head]
    gather += ["--input", str(rows), "--output", str(new), "--limit", str(total)]
    variables = {"POLICY_API_KEY": key} | (TRUSTED if trusted else {})
    with _ray_folder() as variables["RAY_TMPDIR"], _gym(start, **variables) as servers:
        print("starting NeMo Gym's servers ...", file=sys.stderr)
        deadline = time.monotonic() + START_SECONDS
        while b"servers ready!" not in LOG.read_bytes():
            if servers.poll() is not None or time.monotonic() > deadline:
                raise RolloutError(f"NeMo Gym's servers did not start: {_last_words()}")
            time.sleep(0.5)
        with _gym(gather, **variables) as collector:
            while collector.poll() is None:
                if servers.poll() is not None:
                    raise RolloutError(f"NeMo Gym's servers ended: {_last_words()}")
                time.sleep(0.5)
            if collector.returncode:
                raise RolloutError(f"rollout collection failed: {_last_words()}")
    rollouts = load_rows(new)
    if len(rollouts) < total:
        failed = f"{total - len(rollouts)} of {total} rows failed, see {LOG}"
        raise RolloutError(f"{failed}; the others are in {new}")
    for path in new.parent.iterdir():
        os.replace(path, output.with_name(path.name))
    new.parent.rmdir()
    return sorted(rollouts, key=lambda rollout: rollout["_ng_task_index"])


def reverify(rollouts: Path) -> list[dict[str, Any]]:
    """NeMo Gym's rollouts with the rewards that the class pays now, in a new file.

    `rollouts` is a file that `collect` wrote; the file of the rows beside it is needed.
    Raises RolloutError.
    """
    if not importlib.util.find_spec("nemo_gym.rollout_reverification"):
        raise RolloutError("this NeMo Gym cannot reverify rollouts: that needs 0.7")
    rows = rollouts.with_name(f"{rollouts.stem}_materialized_inputs.jsonl")
    for path in (rollouts, rows):
        if not path.is_file():
            raise RolloutError(
                f"{path} is missing: NeMo Gym writes both files of a run"
            )
    output = rollouts.with_name(f"{rollouts.stem}_reverified.jsonl")
    link_venvs()
    arguments = ["eval", "reverify", "--config", f"configs/{_name()}.yaml"]
    arguments += ["--inputs", str(rows), "--rollouts", str(rollouts)]
    arguments += ["--output", str(output), "--overwrite"]
    arguments += ["++head_server.host=127.0.0.1", f"++head_server.port={free_port()}"]
    arguments += ["++uv_venv_dir=.venvs", "++skip_venv_if_present=true"]
    run_gym(*arguments, REVERIFY="1", **TRUSTED)
    return sorted(load_rows(output), key=lambda rollout: rollout["_ng_task_index"])


def check(path: Path = ROWS) -> str:
    """Whether NeMo Gym pays the oracle its reward, and 0.0 for doing nothing.

    Plays the oracle in every other row. Returns one line for the user, and raises
    RolloutError if a reward is another.
    """
    rows, tools = load_rows(path), server_tools()
    plans, why = [], ""
    for number, row in enumerate(rows):
        try:
            plans.append(solve(row, tools) if number % 2 == 0 else [])
        except NoOracle as reason:
            plans.append([])
            why = str(reason)
        row["responses_create_params"]["metadata"] = {"row": str(number)}
    with tempfile.TemporaryDirectory() as folder, scripted_model(plans) as model:
        numbered = Path(folder, "rows.jsonl")
        write_rows(numbered, rows)
        output = Path(folder, "rollouts.jsonl")
        rollouts = collect(
            "scripted", model.url, rows=numbered, output=output, trusted=True
        )
    for number, (plan, rollout) in enumerate(zip(plans, rollouts, strict=True)):
        expected = oracle_reward(rows[number]) if plan else 0.0
        if abs(rollout["reward"] - expected) > 1e-9:
            raise RolloutError(
                f"row {number + 1} earns {rollout['reward']} under NeMo Gym, not "
                f"{expected}; see {LOG}"
            )
    earned = f"noop earns 0.0 ({why})" if why else "the oracle earns 1.0, noop 0.0"
    seen = f"; the model saw {model.images} images" if model.images else ""
    return f"{len(rows)} rows under NeMo Gym: {earned}{seen}"


# ---------------------------------------------------------------------- processes


@_handling(ENDINGS, _leave)
def run_gym(*arguments: str, **variables: str) -> None:
    """Runs `gym <arguments>` to its end. Raises RolloutError if it fails."""
    LOG.unlink(missing_ok=True)
    with (
        _ray_folder() as variables["RAY_TMPDIR"],
        _gym(list(arguments), **variables) as process,
    ):
        if process.wait():
            what = " ".join(arguments[:2])
            raise RolloutError(f"gym {what} failed: {_last_words()}")


def _ray_folder() -> Any:
    """A folder for Ray's files, away from those of other clusters on this machine.

    Not in TMPDIR: Ray puts sockets there, whose paths may have 107 bytes, on macOS 103.
    """
    return tempfile.TemporaryDirectory("", "ray-", "/tmp", ignore_cleanup_errors=True)


@contextlib.contextmanager
def _gym(arguments: list[str], **variables: str) -> Generator[subprocess.Popen]:
    """Runs `gym <arguments>` in the with block. Ends it, and all that it started."""
    kept = {name: text for name, text in os.environ.items() if name not in DROPPED}
    own_hosts = ",".join(
        filter(None, [kept.get("NO_PROXY") or kept.get("no_proxy"), "127.0.0.1"])
    )
    variables |= {"NO_PROXY": own_hosts, "no_proxy": own_hosts, **SET}
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("ab") as log:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("gym"), *arguments],
            cwd=HERE,
            env={**kept, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # In a session of its own, by which all its descendants are found again.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with _handling(ENDINGS, signal.SIG_IGN):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            while left := _session(process.pid):
                for one in left:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.kill()
                process.poll()
                time.sleep(0.1)


def _session(leader: int) -> list[psutil.Process]:
    """The running processes of the session that the process `leader` began."""
    found = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(OSError):
            zombie = process.info["status"] == psutil.STATUS_ZOMBIE
            if os.getsid(process.pid) == leader and not zombie:
                found.append(process)
    return found


def _last_words() -> str:
    """The last error that NeMo Gym printed, on one line."""
    lines = LOG.read_text("utf-8", "replace").split("\n")
    errors = [line for line in lines if re.search(r"\w(Error|Exception)\b", line)]
    words = (errors or [line for line in lines if line.strip()] or ["silence"])[-1]
    return f"{words.strip()[:300]} (all of it is in {LOG})"


def _check_answers(url: str) -> None:
    """Raises RolloutError if nothing answers: NeMo Gym would wait ten minutes."""
    try:
        requests.get(f"{url.rstrip('/')}/models", timeout=10)
    except requests.RequestException as error:
        kind = type(error).__name__
        raise RolloutError(f"no model answers at {url} ({kind})") from None


def free_port() -> int:
    """A free port that neither NeMo Gym (10001 to 20000) nor Ray (those, and what the
    system hands out, from 32768 on) takes before NeMo Gym's head server does."""
    for port in random.sample(range(21000, 32000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RolloutError("no port from 21000 to 31999 is free")


# ---------------------------------------------------------------------- configuration


def _config() -> str:
    """The file that configures the loop; the newer NeMo Gym has environment servers."""
    if importlib.util.find_spec("nemo_gym.base_environment_server"):
        return f"environments/{_name()}/config.yaml"
    return f"configs/{_name()}_agent.yaml"


def _name() -> str:
    """The environment's name in NeMo Gym's folders."""
    found = list(HERE.glob("environments/*/config.yaml"))
    if len(found) != 1:
        raise RolloutError("environments/ must hold one folder with a config.yaml")
    return found[0].parent.name


def agent_name() -> str:
    """The agent that environments/*/config.yaml configures."""
    config = _config()
    for name, kind, _ in _servers(HERE / config):
        if kind == "responses_api_agents":
            return name
    raise RolloutError(f"{config} configures no agent")


def link_venvs(model_type: str = "openai_model") -> None:
    """Link this interpreter's venv into .venvs/, as that of every server."""
    servers = [*_servers(HERE / _config()), ("", "responses_api_models", model_type)]
    for _, kind, implementation in servers:
        link = HERE / ".venvs" / kind / implementation / ".venv"
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink():
            link.unlink()
        link.symlink_to(sys.prefix)


def _servers(path: Path) -> Iterator[tuple[str, str, str]]:
    """Name, type and implementation of each server that a file configures."""
    settings: Any = OmegaConf.load(path)
    for included in settings.get("config_paths", []):
        if (HERE / included).is_file():
            yield from _servers(HERE / included)
    for name, types in settings.items():
        if isinstance(types, DictConfig):
            for kind, implementations in types.items():
                yield name, kind, next(iter(implementations))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    variable = os.environ.get
    add("--model", default=variable("MODEL"), help="its name (MODEL)")
    add("--model-url", default=variable("OPENAI_BASE_URL"), help="(OPENAI_BASE_URL)")
    add("--model-api-key", default=variable("OPENAI_API_KEY"), help="(OPENAI_API_KEY)")
    add("--model-type", default="openai_model", help="vllm_model: no Responses API")
    add("--rows", type=Path, default=ROWS, metavar="FILE", help="data/example.jsonl")
    add("--limit", type=positive, metavar="N", help="roll out the first N rows only")
    add("--output", type=Path, default=RESULTS / "rollouts.jsonl", metavar="FILE")
    text = "grade an earlier run's rollouts again"
    add("--reverify", type=Path, metavar="FILE", help=text)
    options = parser.parse_args()
    if not options.reverify and not (options.model and options.model_url):
        parser.error("name the model with --model and --model-url")
    try:
        if options.reverify:
            rollouts = reverify(options.reverify.resolve())
        else:
            rollouts = collect(
                options.model,
                options.model_url,
                options.model_api_key or "none",
                rows=options.rows.resolve(),
                limit=options.limit,
                output=options.output,
                model_type=options.model_type,
            )
    except (RolloutError, OSError) as error:
        print(f"under_gym: {error}", file=sys.stderr)
        return 1
    for rollout in rollouts:
        print(f"row {rollout['_ng_task_index'] + 1}: reward {rollout['reward']}")
    total = [rollout["reward"] for rollout in rollouts]
    print(f"mean reward: {sum(total) / len(total) if total else 0.0}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
