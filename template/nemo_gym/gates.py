"""The validation gates: is this environment fit for use?

    uv run python gates.py [import|server|smoke|rollout ...] [--url URL] [--json]
                           [--rows FILE] [--under-gym]

import   server.py imports, and the domain class has every tool with its parameters
server   the server starts and answers /health
smoke    every endpoint answers a call and refuses a malformed one; all rows have the
         server's tools
rollout  over all rows: the oracle earns 1.0, doing nothing 0.0

The rows are those of data/example.jsonl, or of FILE.

The last three run against a server of their own on a free port, or against the one at
--url. Exit status: 1 if a gate fails.
"""

import argparse
import contextlib
import inspect
import json
import os
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import ValidationError

from rollout import (
    ROWS,
    Environment,
    NoOracle,
    RolloutError,
    Row,
    Tools,
    as_response,
    load_rows,
    rewards,
    tool_definitions,
)

HERE = Path(__file__).resolve().parent
START_SECONDS = 120


class GateError(Exception):
    """What is wrong, and what to do, in one line."""


@contextlib.contextmanager
def running_server(**environment: str) -> Iterator[str]:
    """The URL of a server of this environment, on a port that the system chose.

    Raises GateError where the server ends, or is silent for two minutes.
    """
    process = subprocess.Popen(
        [sys.executable, str(HERE / "server.py")],
        cwd=HERE,
        env={**os.environ, "HOST": "127.0.0.1", "PORT": "0", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
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
    try:
        if url is None:
            raise GateError("the server does not start:\n" + "".join(printed[-20:]))
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def find_server() -> Any:
    """The server class of server.py, a SessionServer."""
    import server
    from session_server import SessionServer

    [found] = [
        value
        for value in vars(server).values()
        if inspect.isclass(value)
        and issubclass(value, SessionServer)
        and value is not SessionServer
    ]
    return found


def server_tools() -> Tools:
    """The tool definitions that server.py's endpoints amount to."""
    return tool_definitions(find_server().build().setup_webserver().openapi())


def import_gate() -> str:
    try:
        server_class = find_server()
    except Exception as error:
        raise GateError(_import_problem(error)) from error
    domain = server_class.domain_class
    definitions = server_tools()
    for definition in definitions:
        _check_method(domain, definition)
    names = ", ".join(definition["name"] for definition in definitions)
    return f"{domain.__module__}.{domain.__name__} has {names}"


def _import_problem(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    return f"server.py cannot be imported ({where}): {type(error).__name__}: {error}"


def _check_method(domain: type, definition: dict[str, Any]) -> None:
    """Raises GateError where `domain` cannot take the calls of a tool definition."""
    tool = definition["name"]
    where = f"{domain.__module__}.py: {domain.__name__}"
    method = getattr(domain, tool, None)
    if not callable(method):
        raise GateError(f"{where} has no method {tool!r}, which server.py calls")
    given = set(definition["parameters"]["properties"])
    taken = inspect.signature(method).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
        return
    for name in sorted(given - set(taken)):
        raise GateError(
            f"{where}.{tool} has no parameter {name!r}, which server.py passes"
        )
    for name, parameter in list(taken.items())[1:]:
        required = parameter.default is parameter.empty
        if (
            required
            and name not in given
            and parameter.kind is not parameter.VAR_POSITIONAL
        ):
            raise GateError(
                f"{where}.{tool} needs {name!r}, which server.py does not pass"
            )


def write_tools(path: Path = ROWS) -> str:
    """Give every row of a .jsonl file the tool definitions of server.py."""
    definitions = server_tools()
    rows = load_rows(path)
    write_rows(path, rows, definitions)
    return f"{len(rows)} rows of {path} have {len(definitions)} tools"


def write_rows(path: Path, rows: list[Row], tools: Tools) -> None:
    """Write rows as a .jsonl file, each with these tools in the place of its own."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            params = {**row["responses_create_params"], "tools": tools}
            row = {**row, "responses_create_params": params}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_rows(path: Path = ROWS) -> list[Row]:
    """The rows of a .jsonl file. Raises RolloutError at one that /verify would refuse."""
    request = get_type_hints(find_server().verify)["body"]
    response = as_response("none", [], [])
    rows = load_rows(path)
    for number, row in enumerate(rows, start=1):
        try:
            request.model_validate({**row, "response": response})
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            problem = f"{field}: {first['msg']}"
            raise RolloutError(f"{_row(path, number)}: {problem}") from None
    if not rows:
        raise RolloutError(f"{path} has no rows")
    return rows


def _row(path: Path, number: int) -> str:
    shown = path.relative_to(HERE) if path.is_relative_to(HERE) else path
    return f"row {number} of {shown}"


def server_gate(environment: Environment, path: Path) -> str:
    response = environment.session().request("GET", "/health")
    if response.status_code != 200:
        raise GateError(
            f"GET /health answered {response.status_code}: {response.text[:300]}"
        )
    return f"{environment.url}/health answers"


def smoke_gate(environment: Environment, path: Path) -> str:
    tools = environment.tools()
    if not tools:
        raise GateError("the server exposes no tool: add an endpoint in server.py")
    rows = read_rows(path)
    for number, row in enumerate(rows, start=1):
        if row["responses_create_params"].get("tools") != tools:
            raise GateError(
                f"{_row(path, number)} has not the tools of the server: write them "
                "into the rows with `uv run python gates.py --write-tools`"
            )
    for tool in tools:
        session = environment.session()
        try:
            session.post("/seed_session", rows[0])
        except RolloutError as error:
            raise GateError(f"{_row(path, 1)}: {error}") from error
        route = f"/{tool['name']}"
        answer = session.post(route, sample_arguments(tool))
        if not isinstance(answer.get("output"), str):
            raise GateError(f"POST {route} answered without a text `output`: {answer}")
        for name, wrong in ((route, []), ("/verify", {})):
            status = session.request("POST", name, wrong).status_code
            if status != 422:
                raise GateError(f"POST {name} with {wrong} answered {status}, not 422")
        session.post("/close_session", {})
    status = environment.session().request("POST", "/no_such_tool", {}).status_code
    if status != 404:
        raise GateError(f"POST /no_such_tool answered {status}, not 404")
    return f"{len(tools)} endpoint{'s' if len(tools) > 1 else ''}"


def sample_arguments(tool: dict[str, Any]) -> dict[str, Any]:
    """Arguments that fit a tool definition."""
    parameters = tool["parameters"]["properties"]
    return {name: _sample(schema) for name, schema in parameters.items()}


def _sample(schema: dict[str, Any]) -> Any:
    """A value that fits a parameter's JSON Schema."""
    if "default" in schema:
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return _sample(schema["anyOf"][0])
    samples = {"string": "x", "integer": 1, "number": 1.0, "boolean": True, "array": []}
    return samples.get(schema.get("type"))


def rollout_gate(environment: Environment, path: Path) -> str:
    rows = load_rows(path)

    def expect(policy: str, expected: float) -> None:
        for number, reward in enumerate(rewards(environment, policy, rows), start=1):
            if reward != expected:
                wanted = rows[number - 1]["ground_truth"][0].get("expected_output")
                raise GateError(
                    f"{_row(path, number)}: the policy {policy!r} earns {reward}, not "
                    f"{expected} (expected_output: {wanted!r})"
                )

    expect("noop", 0.0)
    try:
        expect("oracle", 1.0)
    except NoOracle as why:
        return f"{len(rows)} rows: noop earns 0.0 ({why})"
    return f"{len(rows)} rows: the oracle earns 1.0, noop 0.0"


GATES: dict[str, Callable[[Environment, Path], str]] = {
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
) -> Iterator[dict[str, Any]]:
    """Run gates in order, up to the first that fails.

    With `under_gym` the rollout gate plays under NeMo Gym's own servers and collector.
    Yields {"gate": name, "passed": bool, "seconds": float, "detail": str}.
    """
    with contextlib.ExitStack() as stack:
        environment = Environment(url) if url else None
        for gate in gates:
            started = time.monotonic()
            try:
                if gate == "import":
                    detail = import_gate()
                elif gate == "rollout" and under_gym:
                    from under_gym import check

                    detail = check(rows)
                else:
                    if environment is None:
                        environment = Environment(stack.enter_context(running_server()))
                    detail = GATES[gate](environment, rows)
                passed = True
            except (GateError, RolloutError) as error:
                passed, detail = False, str(error)
            seconds = round(time.monotonic() - started, 2)
            yield {"gate": gate, "passed": passed, "seconds": seconds, "detail": detail}
            if not passed:
                return


def main() -> int:
    names = ["import", *GATES]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("gates", nargs="*", metavar="gate", help=", ".join(names))
    parser.add_argument("--url", help="check the server that runs there")
    parser.add_argument("--rows", type=Path, default=ROWS, metavar="FILE")
    parser.add_argument(
        "--under-gym",
        action="store_true",
        help="run the rollout gate under NeMo Gym's own command line, about a minute",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--write-tools",
        action="store_true",
        help="run no gate: write the server's tool definitions into the rows",
    )
    options = parser.parse_args()
    if options.write_tools:
        try:
            print(write_tools(options.rows))
        except (GateError, RolloutError) as error:
            print(f"gates.py: {error}", file=sys.stderr)
            return 1
        return 0
    if unknown := set(options.gates) - set(names):
        parser.error(f"no gate {min(unknown)!r}; there are {', '.join(names)}")
    chosen = [name for name in names if name in options.gates or not options.gates]
    results = []
    checks = run(
        chosen, options.url, rows=options.rows.resolve(), under_gym=options.under_gym
    )
    for result in checks:
        results.append(result)
        if not options.json:
            verdict = "PASS" if result["passed"] else "FAIL"
            seconds = f"{result['seconds']:6.2f} s"
            print(
                verdict,
                f"{result['gate']:8}",
                seconds,
                "",
                result["detail"],
                flush=True,
            )
    if options.json:
        print(json.dumps(results, indent=2))
    return 0 if all(result["passed"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
