"""The gates, and what they print."""

import argparse
import contextlib
import importlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from plumbing.client import Client, ClientSession, problem
from plumbing.policies import NoOracle, fixed_policy, sample_arguments, solve
from plumbing.records import (
    HERE,
    ROWS,
    GateError,
    RolloutError,
    Row,
    Tools,
    file_name,
    load_rows,
    with_tools,
    write_rows,
)
from rollout import play

START_SECONDS = 120
ROWS_AT_A_TIME = 20
ROWS_TWICE = 5  # are played once more, to see that the same calls do the same

# The gates play code of the user's own, so the server need not refuse to.
TRUSTED = {"TRUSTED_POLICY": "1"}


@contextlib.contextmanager
def starting_server(**variables: str) -> Generator[subprocess.Popen[str], None, None]:
    """A server of this environment, on a port that the system chooses."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "server.py")],
        cwd=HERE,
        env={**os.environ, **TRUSTED, "HOST": "127.0.0.1", "PORT": "0", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def url_of(process: subprocess.Popen[str]) -> str:
    """Where a server answers, as soon as it does.

    Raises GateError if it ends, or is silent for two minutes.
    """
    assert process.stdout is not None
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    printed = []
    url = None
    for line in process.stdout:
        printed.append(line)
        if found := re.search(r"running on (http://\S+)", line):
            url = found[1]
            break
    watchdog.cancel()
    # Read on, so that the server never waits for a full pipe.
    threading.Thread(target=process.stdout.read, daemon=True).start()
    if url is None:
        raise GateError("the server did not start:\n" + "".join(printed[-20:]))
    return url


# ---------------------------------------------------------------------- the class


def environment() -> Any:
    """The module plumbing.environment. Raises GateError if the class cannot be had."""
    try:
        return importlib.import_module("plumbing.environment")
    except Exception as error:
        raise GateError(_import_problem(error)) from error


def _import_problem(error: Exception) -> str:
    """Why the class's module cannot be imported, and what to do."""
    if isinstance(error, SyntaxError):
        place = f"{file_name(error.filename or '?')}, line {error.lineno}"
        return f"{place}: {type(error).__name__}: {error.msg}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{file_name(frame.filename)}, line {frame.lineno}: {error}"
    if isinstance(error, ModuleNotFoundError):
        text += f". If that is a package, `uv add {error.name}`"
    elif isinstance(error, ImportError) and "site-packages" in (error.path or ""):
        text += f". The package {error.name} hides your module: rename the module"
    elif frame.filename.endswith("plumbing/environment.py"):
        place = file_name(getattr(error, "path", None) or "?")
        text += f". Write the class in {place}, or import it there"
    return f"{type(error).__name__} in {text}"


# ---------------------------------------------------------------------- rows


def server_tools() -> Tools:
    """The definitions of the tools that server.py serves."""
    environment()
    from plumbing.inspection import served_app
    from session_server import tool_definitions

    return tool_definitions(served_app())


def write_tools(path: Path = ROWS) -> str:
    """Give every row of a .jsonl file the server's tool definitions.

    A row of a new project, which has an empty task, also gets a skeleton of one.
    """
    tools = server_tools()
    rows = [with_tools(row, tools) for row in load_rows(path)]
    for row in rows:
        if row.get("ground_truth") == [{}]:
            known = environment()
            skeleton = known.episodes.task_skeleton(known.EnvironmentClass)
            row["ground_truth"] = [skeleton]
    write_rows(path, rows)
    for manifest, text, wanted in _manifests():
        if text != wanted:
            manifest.write_text(wanted, encoding="utf-8")
    return f"{_count(len(rows), 'row')} of {path} with {_count(len(tools), 'tool')}"


def _deterministic() -> bool:
    return getattr(environment().EnvironmentClass, "deterministic", True)


def _manifests() -> Iterator[tuple[Path, str, str]]:
    """Each manifest of NeMo Gym's: its text, and that with the class's determinism."""
    # "seeded", NeMo Gym's third word, is for servers that a harness can seed anew.
    known = "unknown" if _deterministic() else "stochastic"
    for path in HERE.glob("environments/*/manifest.yaml"):
        text = path.read_text(encoding="utf-8")
        line = r"(?m)^determinism: (?:unknown|stochastic)$"
        yield path, text, re.sub(line, f"determinism: {known}", text)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def read_rows(path: Path = ROWS) -> list[Row]:
    """The rows of a .jsonl file. Raises RolloutError at one that cannot be graded."""
    rows, known = load_rows(path), environment()
    for number, row in enumerate(rows, start=1):
        try:
            known.episodes.check_row(known.EnvironmentClass, row)
        except ValueError as problem:
            raise RolloutError(f"{_row(path, number)}: {problem}") from None
    if not rows:
        raise RolloutError(f"{path} has no rows")
    return rows


def _row(path: Path, number: int) -> str:
    shown = path.relative_to(HERE) if path.is_relative_to(HERE) else path
    return f"row {number} of {shown}"


# ---------------------------------------------------------------------- gates


def server_gate(client: Client, path: Path) -> str:
    response = client.session().request("GET", "/health")
    if response.status_code != 200:
        raise GateError(
            f"GET /health answered {response.status_code}: {response.text[:300]}"
        )
    refuse = getattr(environment().EnvironmentClass, "refuse_to_serve", lambda: None)
    reason = refuse()
    return f"{client.url}/health answers" + (
        f"; for gates only: {reason}" if reason else ""
    )


def smoke_gate(client: Client, path: Path) -> str:
    tools = client.tools()
    rows = read_rows(path)
    for number, row in enumerate(rows, start=1):
        if row["responses_create_params"].get("tools") != tools:
            raise GateError(
                f"{_row(path, number)} does not have the tools of the server: write "
                "them into the rows with `uv run python gates.py --write-tools`"
            )
    outputs: dict[str, list[str]] = {tool["name"]: [] for tool in tools}
    with contextlib.suppress(NoOracle):
        session = _seeded(client, rows[0], path)
        for name, arguments in solve(rows[0], tools):
            outputs[name].append(
                _call(session, name, arguments, " (the oracle's call)")
            )
        session.post("/close_session", {})
    for tool in tools:
        name = tool["name"]
        session = _seeded(client, rows[0], path)
        outputs[name].append(_call(session, name, sample_arguments(tool)))
        for route, wrong in ((f"/{name}", []), ("/verify", {})):
            status = session.request("POST", route, wrong).status_code
            if status != 422:
                raise GateError(f"POST {route} with {wrong} answered {status}, not 422")
        session.post("/close_session", {})
    echoes = _echoes(client, tools, rows[0], path)
    status = client.session().request("POST", "/no_such_tool", {}).status_code
    if status != 404:
        raise GateError(f"POST /no_such_tool answered {status}, not 404")
    detail = _count(len(tools), "endpoint")
    for note, sign in (
        ("still to be written", "error: this tool is still to be written"),
        ("answered only with an error", "error:"),
    ):
        names = [
            name
            for name, said in outputs.items()
            if said and all(output.startswith(sign) for output in said)
        ]
        for name in names:
            outputs.pop(name)
        detail += f"; {note}: {', '.join(names)}" if names else ""
    return detail + (
        f"; {', '.join(echoes)} can repeat the row's expected_output, and a policy may find "
        "a way to be paid for that: give the class a reward()"
        if echoes
        else ""
    )


def _echoes(client: Client, tools: Tools, row: Row, path: Path) -> list[str]:
    """The tools that repeat `expected_output`, of a class that is graded by it."""
    known = environment()
    if known.episodes.grader(known.EnvironmentClass) is not None:
        return []
    text = row["ground_truth"][0]["expected_output"]
    found = []
    for tool in tools:
        given = sample_arguments(tool)
        given |= {
            name: text
            for name, schema in tool["parameters"]["properties"].items()
            if schema.get("type") == "string" and "enum" not in schema
        }
        session = _seeded(client, row, path)
        output = _call(session, tool["name"], given)
        session.post("/close_session", {})
        if text in output and not output.startswith("error:"):
            found.append(tool["name"])
    return found


def _seeded(client: Client, row: Row, path: Path) -> ClientSession:
    session = client.session()
    try:
        session.post("/seed_session", row)
    except RolloutError as error:
        raise GateError(f"{_row(path, 1)}: {error}") from error
    return session


def _call(
    session: ClientSession, name: str, arguments: dict[str, Any], who: str = ""
) -> str:
    """A tool's output. Raises GateError if that is not text, or a bug of the class."""
    response = session.request("POST", f"/{name}", arguments)
    call = f"POST /{name} with {json.dumps(arguments)[:200]}{who}"
    if response.status_code != 200:
        raise GateError(f"{call} answered {problem(response)}")
    if fault := response.headers.get("X-Tool-Error"):
        raise GateError(
            f"{call}: the tool {fault}. Mend it, or raise ValueError with a message for "
            "the policy (session.log has the traceback)"
        )
    try:
        output = response.json()["output"]
    except (ValueError, LookupError, TypeError):
        output = None
    if not isinstance(output, str):
        raise GateError(f"{call} has no text `output`: {response.text[:300]}")
    return output


def rollout_gate(client: Client, path: Path) -> str:
    rows = read_rows(path)
    tools = client.tools()

    def once(policy: str, row: Row) -> dict[str, Any]:
        return play(client, tools, row, fixed_policy(policy), 2)

    def expect(policy: str, expected: Callable[[Row], float]) -> str:
        """Returns what the gate's line says of a second time."""

        def episode(row: Row) -> dict[str, Any] | RolloutError:
            try:
                return once(policy, row)
            except NoOracle:
                raise
            except RolloutError as error:
                return error

        again = ""
        with ThreadPool(min(ROWS_AT_A_TIME, len(rows))) as pool:
            # Several at a time, so that trouble with threads shows.
            for number, result in enumerate(pool.imap(episode, rows), start=1):
                row, where = rows[number - 1], _row(path, number)
                if isinstance(result, RolloutError):
                    raise GateError(f"{where}, policy {policy!r}: {result}")
                reward = result["reward"]
                if abs(reward - expected(row)) > 1e-9:
                    task = json.dumps(row["ground_truth"][0], ensure_ascii=False)
                    raise GateError(
                        f"{where}: the policy {policy!r} earns {reward}, "
                        f"not {expected(row)} (task: {task[:300]})"
                    )
                if number <= ROWS_TWICE and not (again := _not_deterministic()):
                    _compare(where, policy, result, once(policy, row))
        return again

    expect("noop", lambda row: 0.0)
    if lacking := getattr(
        environment().EnvironmentClass, "missing_requirement", lambda: None
    )():
        return f"{_count(len(rows), 'row')}: noop earns 0.0 ({lacking})"
    again = expect("garbage", lambda row: 0.0)
    try:
        expect("oracle", oracle_reward)
    except NoOracle as why:
        return f"{_count(len(rows), 'row')}: noop and nonsense earn 0.0 ({why}){again}"
    earned = (
        "1.0" if all(oracle_reward(row) == 1 for row in rows) else "what each row says"
    )
    return (
        f"{_count(len(rows), 'row')}: the oracle earns {earned}, noop and nonsense 0.0"
        f"{again}"
    )


def _not_deterministic() -> str:
    """What the gate's line says of a class that is not deterministic, else nothing.

    Raises GateError if the manifest says another thing.
    """
    known = _deterministic()
    for manifest, text, wanted in _manifests():
        if text != wanted:
            raise GateError(
                f"{manifest.relative_to(HERE)} does not say that the class is "
                f"{'' if known else 'not '}deterministic: "
                "`uv run python gates.py --write-tools` corrects it"
            )
    return "" if known else "; not deterministic"


def _compare(
    where: str, policy: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """Raises GateError if the same calls answer, or pay, another thing another time."""
    told, then = (
        [item.get("output") for item in one["response"]["output"]]
        for one in (first, second)
    )
    calls = f"{where}: the same calls of the policy {policy!r}"
    for before, after in zip(told, then, strict=True):
        if before != after:
            raise GateError(
                f"{calls} were answered {before!r:.100}, then {after!r:.100}: let the task "
                "decide (a seed in it), or write `deterministic = False` into the class"
            )
    if first["reward"] != second["reward"]:
        raise GateError(
            f"{calls} earned {first['reward']}, then {second['reward']}: grade by the "
            "state alone, or write `deterministic = False` into the class"
        )


def oracle_reward(row: Row) -> float:
    """What the oracle must earn on the row: its `oracle_reward`, else 1.0."""
    return float(row.get("oracle_reward", 1.0))


GATES: dict[str, Callable[[Client, Path], str]] = {
    "server": server_gate,
    "smoke": smoke_gate,
    "rollout": rollout_gate,
}


def run(
    gates: list[str],
    url: str | None = None,
    *,
    rows: Path = ROWS,
    under_gym: bool = False,
    asked: list[dict[str, Any]] | None = None,
) -> Iterator[dict[str, Any]]:
    """Run gates in order, up to the first that fails.

    With `under_gym` the rollout gate plays under NeMo Gym's own servers and collector.
    Yields {"gate": name, "passed": bool, "seconds": float, "detail": str}.
    """
    with contextlib.ExitStack() as stack:
        client, process = Client(url) if url else None, None
        served = set(gates) - ({"import", "rollout"} if under_gym else {"import"})
        if served and not url:
            # Now, so that it starts while the import gate runs.
            process = stack.enter_context(starting_server())
        for gate in gates:
            started = time.monotonic()
            try:
                if gate == "import":
                    environment()
                    from plumbing.inspection import inspect_class

                    detail = inspect_class(asked or [])
                elif gate == "rollout" and under_gym:
                    from plumbing.under_gym import check

                    detail = check(rows)
                else:
                    environment()
                    if client is None:
                        assert process
                        client = Client(url_of(process))
                    detail = GATES[gate](client, rows)
                passed = True
            except (GateError, RolloutError) as error:
                passed, detail = False, str(error)
            seconds = round(time.monotonic() - started, 2)
            yield {"gate": gate, "passed": passed, "seconds": seconds, "detail": detail}
            if not passed:
                return


def main(description: str | None) -> int:
    names = ["import", *GATES]
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("gates", nargs="*", metavar="gate", help=", ".join(names))
    add("--url", help="check the server that runs there")
    add("--rows", type=Path, default=ROWS, metavar="FILE")
    text = "run the rollout gate under NeMo Gym's own command line, about a minute"
    add("--under-gym", action="store_true", help=text)
    add("--json", action="store_true", help="print one JSON document")
    text = "write the server's tool definitions into the rows, then run the named gates"
    add("--write-tools", action="store_true", help=text)
    add("--asked", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.gates) - set(names):
        parser.error(f"no gate {min(unknown)!r}; there are {', '.join(names)}")
    chosen = [name for name in names if name in options.gates]
    if not chosen and not options.write_tools:
        chosen = names
    results = []
    checks = run(
        chosen,
        options.url,
        rows=options.rows.resolve(),
        under_gym=options.under_gym,
        asked=options.asked,
    )
    for result in checks:
        results.append(result)
        if not options.json:
            verdict = "PASS" if result["passed"] else "FAIL"
            gate, seconds = f"{result['gate']:8}", f"{result['seconds']:6.2f} s"
            print(verdict, gate, seconds, "", result["detail"], flush=True)
    if options.json:
        print(json.dumps(results, indent=2))
    passed = all(result["passed"] for result in results)
    if options.write_tools and passed:
        try:
            print(write_tools(options.rows), file=sys.stderr if options.json else None)
        except (GateError, RolloutError, OSError) as error:
            print(f"gates.py: {error}", file=sys.stderr)
            return 1
    return 0 if passed else 1
