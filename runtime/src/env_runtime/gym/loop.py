"""Rollouts under NeMo Gym itself: its servers, its agent and its collector."""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import requests

from ..errors import RolloutError
from ..evaluation.rows import load_rows
from ..evaluation.stats import TASK
from ..gym_series import HAS_REVERIFICATION
from .configuration import agent_name, environment_name, link_venvs, loop_config
from .processes import (
    ENDINGS,
    free_port,
    gym_process,
    handling,
    last_error,
    leave,
    log_file,
    ray_folder,
    run_gym,
)

START_SECONDS = 300

# Every server runs in this project's venv, which link_venvs() links.
VENVS = ["++uv_venv_dir=.venvs", "++skip_venv_if_present=true"]


@handling(ENDINGS, leave)
def collect(
    model: str,
    url: str,
    key: str = "none",
    *,
    rows: Path,
    limit: int | None = None,
    output: Path,
    model_type: str = "openai_model",
    trusted: bool = False,
) -> list[dict[str, Any]]:
    """NeMo Gym's rollouts, in the order of `rows`; the file `output` has them too.

    `output`, and the files that NeMo Gym writes beside it, are replaced once all rows
    are played. The rollouts of a run that failed are in the folder `<output>.partial`.
    `model_type` is the NeMo Gym server that asks the model: openai_model for a
    Responses API, vllm_model for Chat Completions. A `trusted` policy may play where
    the server would refuse to serve any other.

    Raises RolloutError, and SystemExit if a signal ends it. Call it from the main
    thread.
    """
    output = output.resolve()
    if output == rows.resolve():
        raise RolloutError(f"{rows} is the input: name another file with --output")
    total = len(load_rows(rows)[:limit])
    check_model_answers(url)
    new = output.with_name(f"{output.name}.partial") / output.name
    if new.parent.exists():
        shutil.rmtree(new.parent)
    for path in (log_file(), new):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    link_venvs(model_type)
    head = _head_server()
    start = ["env", "start", "--config", loop_config(), "--model-type", model_type]
    start += ["--model", model, "--model-url", url]
    # Not --model-api-key: everybody on this machine can read command lines.
    start += ["+policy_api_key=${oc.env:POLICY_API_KEY}", *head, *VENVS]
    gather = ["eval", "run", "--no-serve", "--agent", agent_name(), *head]
    gather += ["--input", str(rows), "--output", str(new), "--limit", str(total)]
    variables = {"POLICY_API_KEY": key}
    if trusted:
        variables["TRUSTED_POLICY"] = "1"
    _run_servers(start, gather, variables)
    rollouts = load_rows(new)
    ungraded = _without_judge(new)
    if len(rollouts) + ungraded < total:
        failed = f"{total - len(rollouts)} of {total} rows failed, see {log_file()}"
        raise RolloutError(f"{failed}; the others are in {new}")
    if ungraded:
        print(_ungraded(ungraded, total, output), file=sys.stderr)
    for path in new.parent.iterdir():
        os.replace(path, output.with_name(path.name))
    new.parent.rmdir()
    return sorted(rollouts, key=lambda rollout: rollout[TASK])


def _ungraded(rows: int, total: int, output: Path) -> str:
    """The message about rows that a model of the class could not grade."""
    text = f"{rows} of {total} rows wait for a model that the class asks"
    if HAS_REVERIFICATION:
        text += f": run this with --reverify {output} --judge-failed-only"
    return text


def _without_judge(rollouts: Path) -> int:
    """The number of rows that NeMo Gym left out because a model of the class failed."""
    failures = rollouts.with_name(f"{rollouts.stem}_failures.jsonl")
    rows = load_rows(failures) if failures.is_file() else []
    return sum(row.get("_ng_failure_class") == "judge_failed" for row in rows)


def _head_server() -> list[str]:
    # NeMo Gym's default is 11000, which is also the default of server.py.
    return ["++head_server.host=127.0.0.1", f"++head_server.port={free_port()}"]


def _run_servers(
    start: list[str], gather: list[str], variables: dict[str, str]
) -> None:
    """Run NeMo Gym's servers, and its collector to its end. Raises RolloutError."""
    with (
        ray_folder() as variables["RAY_TMPDIR"],
        gym_process(start, **variables) as servers,
    ):
        print("starting NeMo Gym's servers ...", file=sys.stderr)
        deadline = time.monotonic() + START_SECONDS
        while b"servers ready!" not in log_file().read_bytes():
            if servers.poll() is not None or time.monotonic() > deadline:
                raise RolloutError(f"NeMo Gym's servers did not start: {last_error()}")
            time.sleep(0.5)
        with gym_process(gather, **variables) as collector:
            while collector.poll() is None:
                if servers.poll() is not None:
                    raise RolloutError(f"NeMo Gym's servers ended: {last_error()}")
                time.sleep(0.5)
            if collector.returncode:
                raise RolloutError(f"rollout collection failed: {last_error()}")


def check_model_answers(url: str) -> None:
    """Raise RolloutError if nothing answers: NeMo Gym would wait ten minutes."""
    try:
        requests.get(f"{url.rstrip('/')}/models", timeout=10)
    except requests.RequestException as error:
        kind = type(error).__name__
        raise RolloutError(f"no model answers at {url} ({kind})") from None


def reverify(
    rollouts: Path, *, judge_failed_only: bool = False
) -> list[dict[str, Any]]:
    """NeMo Gym's rollouts with rewards computed anew, in a new file.

    `rollouts` is a file that `collect` wrote, with the file of its rows beside it.
    `judge_failed_only` keeps its rewards, and adds the rows that were left out because
    a model that the class asks had failed. Raises RolloutError.
    """
    if not HAS_REVERIFICATION:
        raise RolloutError("this NeMo Gym cannot reverify rollouts: that needs 0.7")
    rows = rollouts.with_name(f"{rollouts.stem}_materialized_inputs.jsonl")
    for path in (rollouts, rows):
        if not path.is_file():
            raise RolloutError(
                f"{path} is missing: NeMo Gym writes both files of a run"
            )
    output = rollouts.with_name(f"{rollouts.stem}_reverified.jsonl")
    link_venvs()
    arguments = ["eval", "reverify", "--config", f"configs/{environment_name()}.yaml"]
    arguments += ["--inputs", str(rows), "--rollouts", str(rollouts)]
    arguments += ["--output", str(output), "--overwrite"]
    arguments += ["--judge-failed-only"] if judge_failed_only else []
    arguments += [*_head_server(), *VENVS]
    run_gym(*arguments, REVERIFY="1", TRUSTED_POLICY="1")
    return sorted(load_rows(output), key=lambda rollout: rollout[TASK])
