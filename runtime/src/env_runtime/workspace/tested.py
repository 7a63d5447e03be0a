"""Tests of functions that a policy wrote, of which no process has both.

A function's arguments and its results cross as literals of Python, so no object of the
policy's decides a comparison, and a test that ends its process ends only the policy's own.
"""

import json
import secrets
from collections.abc import Callable
from typing import Any

from . import WorkspaceError

LONGEST = 4_000_000  # bytes of the results of one program

# Runs the tests: without replies it notes the calls of the right solution, with them it
# answers the same calls as the policy's functions did.
_TESTS = """
import ast, builtins, json, random, types

task = json.load(open("task.json"))
own = {"__name__": "solution"}
exec(task["reference"], own)
tests = {**own, "__name__": "tests"}
noted, replies = [], task["replies"]


def stand_in(name, right):
    def call(*args, **kwargs):
        asked = repr((name, args, kwargs))
        ast.literal_eval(asked)
        if replies is None:
            noted.append(asked)
            return right(*args, **kwargs)
        known, kind, text = replies.pop(0)
        assert known == asked
        if kind == "raised":
            error = getattr(builtins, text, None)
            is_error = isinstance(error, type) and issubclass(error, Exception)
            raise (error if is_error else Exception)(text)
        return ast.literal_eval(text)

    return call


for name in task["names"]:
    tests[name] = stand_in(name, own[name])
random.seed(0)
exec(task["tests"], tests)
json.dump(noted, open(task["result"], "w"))
"""

# Calls the policy's functions. It has the arguments, but neither tests nor results.
_CALLS = """
import ast, json

calls, result = json.loads({calls!r}), {result!r}
space, replies = {{"__name__": "solution"}}, []
exec(compile(open("solution.py").read(), "solution.py", "exec"), space)
for asked in calls:
    name, args, kwargs = ast.literal_eval(asked)
    try:
        reply = ["returned", repr(space[name](*args, **kwargs))]
    except Exception as error:
        reply = ["raised", type(error).__name__]
    replies.append([asked, *reply])
json.dump(replies, open(result, "w"))
"""


def passes(written: Any, fresh: Callable[[], Any], task: dict[str, Any]) -> bool:
    """Whether the functions in solution.py of a workspace pass the tests of a task.

    `task` has `tests`, a program; `names`, the functions that it calls; and `reference`, the
    source of a right solution. `fresh` makes a workspace. Raises ValueError if the right
    solution does not pass, and WorkspaceError.
    """
    calls = _tested(fresh, task, None)
    if calls is None:
        raise ValueError("the reference does not pass the tests of the task")
    result = f"{secrets.token_hex(8)}.json"
    written.run_python(_CALLS.format(calls=json.dumps(calls), result=result))
    replies = _read(written, result)
    whole = isinstance(replies, list) and len(replies) == len(calls)
    return whole and _tested(fresh, task, replies) is not None


def _tested(
    fresh: Callable[[], Any], task: dict[str, Any], replies: list[Any] | None
) -> Any:
    """The calls of tests that pass in a workspace of their own; None if they fail."""
    result = f"{secrets.token_hex(8)}.json"
    workspace = fresh()
    try:
        given = {name: task[name] for name in ("reference", "tests", "names")}
        given |= {"replies": replies, "result": result}
        workspace.write("task.json", json.dumps(given))
        workspace.run_python(_TESTS)
        return _read(workspace, result)
    finally:
        workspace.close()


def _read(workspace: Any, name: str) -> Any:
    """The JSON of a file; None if it is not there, or none."""
    try:
        return json.loads(workspace.read_whole(name, LONGEST))
    except WorkspaceError:
        raise
    except (ValueError, RecursionError):
        return None
