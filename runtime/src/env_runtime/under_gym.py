"""Roll out task rows under NeMo Gym itself: its servers, agent and collector.

uv run python -m {package}.under_gym --model M --model-url http://localhost:8000/v1
uv run python -m {package}.under_gym --reverify results/rollouts.jsonl
uv run python -m {package}.under_gym --stand-in 8000

Starts NeMo Gym's servers from this environment's own .venv, which takes half a
minute, collects one rollout per row, prints the rewards, and ends every process that it
started. NeMo Gym's own output is in results/gym.log.

--agent has another agent of NeMo Gym 0.7 play, whose program must be installed:

uv run python -m {package}.under_gym --agent claude_code --model M --model-url ...

--reverify, from NeMo Gym 0.7 on, grades the rollouts of an earlier run again, after a
change of reward() for instance: the class's episodes are played once more, call by call.
--judge-failed-only does so only for the rows that a model of the class could not grade.

--stand-in is for NeMo Gym's commands by hand: it has their servers use this .venv, too,
and serves a model on that port that solves the rows of results/rows.jsonl, until Ctrl-C.
"""

import argparse
import contextlib
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

from .checks.rewards import RewardCheck, baseline, earned_by_oracle
from .checks.server import server_tools
from .command_line import (
    ENDINGS,
    add_parameters,
    counted,
    exit_status,
    handling,
    leave,
    new_parser,
    positive,
    rows_file,
)
from .episode.tasks import unsolved_note
from .episode.tools import SAY, said
from .episode.types import Solution
from .errors import GateError, NoOracleError, RolloutError
from .evaluation.policies import solution_for
from .evaluation.rows import load_rows, write_rows
from .evaluation.scripted_model import is_named, numbered, scripted_model
from .evaluation.stats import TASK, measure
from .facts import NEEDS_NEWEST, OLDEST
from .gym_agents import AGENTS, check_agent, without_calls, write_config
from .gym_series import HAS_ENVIRONMENT_SERVERS, HAS_REVERIFICATION
from .project import here
from .settings import ClientSettings, bypass_proxy

# Variables that NeMo Gym's processes must not see. The first three would send uv or
# Python elsewhere; with API_TOKEN the server would refuse NeMo Gym's agents.
DROPPED = ["UV_PYTHON", "VIRTUAL_ENV", "PYTHONPATH", "API_TOKEN"]
SET = {
    # Otherwise Ray joins a cluster that runs on this machine, whoever started it.
    "RAY_ADDRESS": "local",
    # Otherwise Ray detects `uv run`, uploads this folder and works in the copy.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Keeps Ray on 127.0.0.1, off the other addresses of a shared machine.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}


def results() -> Path:
    """The folder of what NeMo Gym writes."""
    return here().gym / "results"


def log_file() -> Path:
    """The file with the output of NeMo Gym's commands."""
    return results() / "gym.log"


@handling(ENDINGS, leave)
def run_gym(*arguments: str, **variables: str) -> None:
    """Run `gym <arguments>` to its end. Raises RolloutError if it fails.

    `variables` are set in its environment.
    """
    log_file().unlink(missing_ok=True)
    with (
        ray_folder() as variables["RAY_TMPDIR"],
        gym_process(list(arguments), **variables) as process,
    ):
        if process.wait():
            command = " ".join(arguments[:2])
            raise RolloutError(f"gym {command} failed: {last_error()}")


def ray_folder() -> Any:
    """A folder for Ray's files, away from those of other clusters on this machine.

    It is not in TMPDIR, because the paths of Ray's sockets may have only 107 bytes, on
    macOS 103.
    """
    return tempfile.TemporaryDirectory("", "ray-", "/tmp", ignore_cleanup_errors=True)


@contextlib.contextmanager
def gym_process(arguments: list[str], **variables: str) -> Generator[subprocess.Popen]:
    """`gym <arguments>`, which runs in the with block and writes to log_file().

    At the end of the block, it ends with every process that it started.
    """
    bypass_proxy()
    kept = {name: text for name, text in os.environ.items() if name not in DROPPED}
    variables |= SET
    log_file().parent.mkdir(exist_ok=True)
    with log_file().open("ab") as log:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("gym"), *arguments],
            cwd=here().gym,
            env={**kept, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # A session of its own identifies all its descendants later.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with handling(ENDINGS, signal.SIG_IGN):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            while left := _session(process.pid):
                for member in left:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        member.kill()
                process.poll()
                time.sleep(0.1)


def quoted(value: object) -> str:
    """Return a value for NeMo Gym's commands, which have Hydra parse what they are given.

    A plain path stays as it is. Of a text in quotes, Hydra takes all but the backslash before
    a quote, and half of those before that.
    """
    text = str(value)
    if re.fullmatch(r"/[\w./-]*", text, re.ASCII):
        return text
    text = re.sub(r"(\\*)('|$)", lambda found: 2 * found[1] + found[2], text)
    return "'" + text.replace("'", r"\'") + "'"


def _session(leader: int) -> list[psutil.Process]:
    """The running processes of the session that the process `leader` began."""
    members = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(OSError):
            zombie = process.info["status"] == psutil.STATUS_ZOMBIE
            if os.getsid(process.pid) == leader and not zombie:
                members.append(process)
    return members


def last_error() -> str:
    """The last error that NeMo Gym printed, on one line."""
    lines = log_file().read_text("utf-8", "replace").split("\n")
    errors = [line for line in lines if re.search(r"\w(Error|Exception)\b", line)]
    last = (errors or [line for line in lines if line.strip()] or ["silence"])[-1]
    return f"{last.strip()[:300]} (all of it is in {log_file()})"


def free_port() -> int:
    """A free port for NeMo Gym's head server.

    It is outside the ranges from which NeMo Gym (10001 to 20000) and Ray (the same, and
    the system's own from 32768 on) choose. Raises RolloutError if no port is free.
    """
    # Not from the global generator: a class may have seeded it, and then two runs at the
    # same time would take the same port.
    for port in random.SystemRandom().sample(range(21000, 32000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RolloutError("no port from 21000 to 31999 is free")


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
    agent: str = "",
    trusted: bool = False,
) -> list[dict[str, Any]]:
    """NeMo Gym's rollouts, in the order of `rows`; the file `output` has them too.

    `output`, and the files that NeMo Gym writes beside it, are replaced once all rows
    are played. The rollouts of a run that failed are in the folder `<output>.partial`.
    `model_type` is the NeMo Gym server that asks the model: openai_model for a
    Responses API, vllm_model for Chat Completions. `agent` is one of gym_agents.AGENTS;
    "" is the environment's own. A `trusted` policy may play where the server would
    refuse to serve any other.

    Raises RolloutError, and SystemExit if a signal ends it. Call it from the main
    thread.
    """
    output = output.resolve()
    if output == rows.resolve():
        raise RolloutError(f"{rows} is the input: name another file with --output")
    total = len(load_rows(rows)[:limit])
    if agent:
        installed = check_agent(agent, here().load_class())
    _check_folder()
    check_model_answers(url)
    new = output.with_name(f"{output.name}.partial") / output.name
    if new.parent.exists():
        shutil.rmtree(new.parent)
    for path in (log_file(), new):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    config = loop_config()
    variables = {"POLICY_API_KEY": key}
    if agent:
        _, settings = agent_of(config)
        turns = int(settings.get("max_steps") or 100)
        written = write_config(agent, environment_name(), turns, results(), here().name)
        config = os.path.relpath(written, here().gym)
        variables |= AGENTS[agent].variables
        print(f"the agent: {installed or agent} ({config})", file=sys.stderr)
    link_venvs(config, model_type)
    head = _head_server()
    # Not --model-type, which Hydra would read the whole path of.
    start = ["env", "start", "--config", config, "--config", _model_config(model_type)]
    start += ["--model", quoted(model), "--model-url", quoted(url)]
    # Not --model-api-key: everybody on this machine can read command lines.
    start += ["+policy_api_key=${oc.env:POLICY_API_KEY}", *head, *VENVS]
    gather = ["eval", "run", "--no-serve", "--agent", agent_of(config)[0], *head]
    gather += ["--input", quoted(rows), "--output", quoted(new), "--limit", str(total)]
    if HAS_ENVIRONMENT_SERVERS:  # one failed episode loses no other
        gather.append("++route_failures_to_sidecar=true")
    if trusted:
        variables["TRUSTED_POLICY"] = "1"
    _run_servers(start, gather, variables)
    rollouts = load_rows(new)
    ungraded = _without_judge(new)
    if len(rollouts) + ungraded < total:
        failed = f"{total - len(rollouts)} of {total} rows failed, see {log_file()}"
        raise RolloutError(f"{failed}; the others are in {new}")
    if ungraded:
        text = f"{ungraded} of {total} rows wait for a model that the class asks"
        if HAS_REVERIFICATION:
            text += f": run this with --reverify {output} --judge-failed-only"
        print(text, file=sys.stderr)
    for path in new.parent.iterdir():
        os.replace(path, output.with_name(path.name))
    new.parent.rmdir()
    return sorted(rollouts, key=lambda rollout: rollout[TASK])


def _without_judge(rollouts: Path) -> int:
    """The number of rows that NeMo Gym left out because a model of the class failed."""
    failures = rollouts.with_name(f"{rollouts.stem}_failures.jsonl")
    rows = load_rows(failures) if failures.is_file() else []
    return sum(row.get("_ng_failure_class") == "judge_failed" for row in rows)


# What bash does not take as a part of a path without quotes
SPLIT_BY_BASH = re.compile(r"""[\s'"`()<>|&;$\\]|\{[^/]*,[^/]*\}""")


def _check_folder() -> None:
    """Raise RolloutError if Ray, or NeMo Gym 0.4, does not quote the project's path."""
    folder = str(here().gym)
    if not HAS_ENVIRONMENT_SERVERS and (found := SPLIT_BY_BASH.search(folder)):
        raise RolloutError(
            f"NeMo Gym {OLDEST} starts no server in a folder with {found[0]!r} in its path, "
            f"{folder}: move the project, or use {NEEDS_NEWEST}"
        )
    if "'" in folder:
        raise RolloutError(
            f'Ray does not start in a folder with "\'" in its path, {folder}: move the '
            "project"
        )


def _model_config(model_type: str) -> str:
    """The file of a model server, NAME or NAME/FLAVOR, in NeMo Gym's own folders."""
    name, _, flavor = model_type.partition("/")
    return f"responses_api_models/{name}/configs/{flavor or name}.yaml"


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
    link_venvs(loop_config())
    arguments = ["eval", "reverify", "--config", f"configs/{environment_name()}.yaml"]
    arguments += ["--inputs", quoted(rows), "--rollouts", quoted(rollouts)]
    arguments += ["--output", quoted(output), "--overwrite"]
    arguments += ["--judge-failed-only"] if judge_failed_only else []
    arguments += [*_head_server(), *VENVS]
    run_gym(*arguments, REVERIFY="1", TRUSTED_POLICY="1")
    return sorted(load_rows(output), key=lambda rollout: rollout[TASK])


def environment_name() -> str:
    """The environment's name in NeMo Gym's folders. Raises RolloutError."""
    name = here().called
    if not (here().gym / "environments" / name / "config.yaml").is_file():
        raise RolloutError(f"environments/{name}/ must hold a config.yaml")
    return name


def loop_config() -> str:
    """The file that configures the whole loop, relative to nemo_gym/."""
    if HAS_ENVIRONMENT_SERVERS:
        return f"environments/{environment_name()}/config.yaml"
    return f"configs/{environment_name()}_agent.yaml"


def agent_of(config: str) -> tuple[str, Any]:
    """The name and the settings of a file's agent. Raises RolloutError without one."""
    for name, kind, _, settings in _servers(here().gym / config):
        if kind == "responses_api_agents":
            return name, settings
    raise RolloutError(f"{config} configures no agent")


def link_venvs(config: str, model_type: str = "openai_model") -> None:
    """Link this interpreter's venv into .venvs/, as the venv of every server."""
    servers = [*_servers(here().gym / config)]
    servers.append(("", "responses_api_models", model_type.partition("/")[0], None))
    for _, kind, implementation, _ in servers:
        link = here().gym / ".venvs" / kind / implementation / ".venv"
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink():
            link.unlink()
        link.symlink_to(sys.prefix)


def _servers(path: Path) -> Iterator[tuple[str, str, str, Any]]:
    """The name, type, implementation and settings of each server of a file."""
    settings: Any = OmegaConf.load(path)
    for included in settings.get("config_paths", []):
        if (here().gym / included).is_file():
            yield from _servers(here().gym / included)
    for name, types in settings.items():
        if isinstance(types, DictConfig):
            for kind, implementations in types.items():
                for implementation, values in implementations.items():
                    yield name, kind, implementation, values


def check(path: Path, agent: str = "") -> str:
    """Check the rewards of the oracle and of noop under NeMo Gym, played by `agent`.

    Plays the oracle in every other row whose solution is known. Returns the gate's line. Raises RolloutError if
    a reward is wrong, or if there are no rows.
    """
    if agent:
        check_agent(agent, here().load_class())
    rows, definitions = load_rows(path), server_tools()
    domain_class = here().load_class()
    if not rows:
        raise RolloutError(f"{path} has no rows")
    plans: list[Solution | None] = [None] * len(rows)
    why = ""
    earning = RewardCheck(domain_class, rows, lambda row: definitions, path)
    for number in earning.solved()[::2]:
        try:
            plan = solution_for(rows[number], definitions)
        except NoOracleError as error:
            why = str(error)
            break
        if agent and AGENTS[agent].over_mcp:
            plan = Solution(said(plan.calls), plan.answer)
        plans[number] = plan
    scripts = [plan or Solution([]) for plan in plans]
    with tempfile.TemporaryDirectory() as folder, scripted_model(scripts) as model:
        played = Path(folder, "rows.jsonl")
        write_rows(played, numbered(rows))
        output = Path(folder, "rollouts.jsonl")
        options: Any = {"agent": agent, "trusted": True}
        rollouts = collect("scripted", model.url, rows=played, output=output, **options)
    cut = [measure(rollout).out_of_turns for rollout in rollouts]
    uncalled = without_calls(rollouts)
    limit = "max_steps in configs/*_agent.yaml"
    for number, (plan, rollout) in enumerate(zip(plans, rollouts, strict=True)):
        policy, place = "oracle" if plan else "noop", earning.place(number)
        try:
            earning.check_reward(place, policy, rows[number], rollout)
        except GateError as error:
            hint = f"; it ran out of turns ({limit})" if cut[number] else ""
            if plan and number in uncalled:
                hint += "; no call reached the environment"
            if model.unnamed:
                hint += f"; the agent sent {counted(model.unnamed, 'request')} that named no row"
            text = f"under NeMo Gym, {error}{hint}; see {log_file()}"
            raise RolloutError(text) from None
    nothing = baseline(domain_class, rows)
    played_by_oracle = [row for row, plan in zip(rows, plans, strict=True) if plan]
    earned = (
        f"the oracle earns {earned_by_oracle(domain_class, played_by_oracle)}, "
        f"noop {nothing}"
    )
    if note := unsolved_note(len(rows), len(earning.solved())):
        earned += f"; {note}"
    if why:
        earned = f"noop earns {nothing} ({why})"
    notes = ""
    if model.images:
        notes = f"; the model saw up to {model.images} images at once"
    if any(cut):
        whose = [
            "the oracle's" if plans[n] else "noop's" for n, one in enumerate(cut) if one
        ]
        of = " and ".join(
            f"{whose.count(name)} of {name}" for name in dict.fromkeys(whose)
        )
        notes += f"; {counted(sum(cut), 'rollout')} ran out of turns, {of} ({limit})"
    listed = [row["responses_create_params"].get("tools") or [] for row in rows]
    own = {tool["name"] for tools in [definitions, *listed] for tool in tools} | {SAY}
    others = {
        name for name in model.offered if not any(is_named(name, tool) for tool in own)
    }
    if others:
        notes += f"; the agent also offers the model {', '.join(sorted(others))}"
    by = f", by {agent}" if agent else ""
    return f"{len(rows)} rows under NeMo Gym{by}: {earned}{notes}"


def _tell_unnamed() -> None:
    print(
        "a request names no row of results/rows.jsonl, so it gets no solution: have NeMo Gym "
        "collect that file, --input results/rows.jsonl",
        file=sys.stderr,
        flush=True,
    )


@handling(ENDINGS, leave)
def stand_in(port: int, path: Path) -> None:
    """Serve a model that solves rows, for NeMo Gym's commands by hand, until a signal.

    results/rows.jsonl has the rows of `path`, each with the number of its solution.
    Raises RolloutError if the port is taken.
    """
    rows, definitions = load_rows(path), server_tools()
    plans = []
    for row in rows:
        try:
            plans.append(solution_for(row, definitions))
        except NoOracleError:
            plans.append(Solution([]))
    link_venvs(loop_config())
    write_rows(results() / "rows.jsonl", numbered(rows))
    try:
        with scripted_model(plans, port, on_unnamed=_tell_unnamed) as model:
            print(f"a model for results/rows.jsonl is at {model.url}", flush=True)
            signal.pause()
    except OSError as error:
        raise RolloutError(f"--stand-in {port}: {error.strerror}") from None


# ---------------------------------------------------------------------- the command


def main(arguments: list[str] | None = None) -> int:
    """Roll out rows, or grade rollouts again. Returns the exit status."""
    return exit_status("under_gym", lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = _parse(arguments)
    if options.stand_in is not None:
        stand_in(options.stand_in, options.rows)
        return 0
    if options.reverify:
        only = options.judge_failed_only
        rollouts = reverify(options.reverify.resolve(), judge_failed_only=only)
    else:
        rollouts = collect(
            options.model,
            options.model_url,
            options.model_api_key or "none",
            rows=options.rows.resolve(),
            limit=options.limit,
            output=options.output,
            model_type=options.model_type,
            agent=options.agent,
        )
    for rollout in rollouts:
        print(f"row {rollout[TASK] + 1}: reward {rollout['reward']}")
    if uncalled := without_calls(rollouts):
        rows = ", ".join(str(rollouts[number][TASK] + 1) for number in uncalled)
        print(
            f"no call reached the environment in {len(uncalled)} of {len(rollouts)} "
            f"rollouts (rows {rows}): if the model did call, the agent had no tools or "
            f"cancelled the calls, and these rewards are not the policy's; see {log_file()}",
            file=sys.stderr,
        )
    rewards = [rollout["reward"] for rollout in rollouts]
    print(f"mean reward: {sum(rewards) / len(rewards) if rewards else 0.0}")
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    settings = ClientSettings.read()
    named = "openai_base_url" in settings.model_fields_set
    url = settings.openai_base_url if named else None
    key = settings.openai_api_key
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("--model", default=settings.model, help="its name (MODEL)")
    add("--model-url", default=url, help="(OPENAI_BASE_URL)")
    add("--model-api-key", default=key, help="(OPENAI_API_KEY)")
    add("--model-type", default="openai_model", help="vllm_model: no Responses API")
    add(
        "--rows",
        type=rows_file,
        default="",
        metavar="FILE",
        help="data/example.jsonl",
    )
    add("--limit", type=positive, metavar="N", help="roll out only the first N rows")
    add("--output", type=Path, default=results() / "rollouts.jsonl", metavar="FILE")
    text = "an agent of NeMo Gym; by default this environment's own"
    add("--agent", choices=AGENTS, default="", help=text)
    text = "grade an earlier run's rollouts again"
    add("--reverify", type=Path, metavar="FILE", help=text)
    text = "grade only the rows whose judge had failed"
    add("--judge-failed-only", action="store_true", help=text)
    text = "serve a model that solves the rows, for commands by hand"
    add("--stand-in", type=positive, metavar="PORT", help=text)
    add_parameters(parser)
    options = parser.parse_args(arguments)
    if options.stand_in is not None:
        return options
    if not options.reverify and not (options.model and options.model_url):
        parser.error("name the model with --model and --model-url")
    return options


if __name__ == "__main__":
    sys.exit(main())
