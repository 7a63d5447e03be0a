"""Play task rows against a running server: seed, tool calls, verify.

    uv run python rollout.py [--policy llm|oracle|noop] [--rows FILE] [--output FILE]

llm     the model MODEL of OpenAI, or of the compatible endpoint OPENAI_BASE_URL, with
        OPENAI_API_KEY; an episode ends after MAX_TURNS (6) of its answers
oracle  the domain's own solution of each row
noop    no tool call at all

Prints the reward of each row, from 0 to 1, and their mean. Environment variables of
the server: ENV_URL (http://127.0.0.1:11000), and API_TOKEN where it wants one. Exit
status: 1 if a row could not be played.
"""

import argparse
import contextlib
import importlib
import json
import os
import sys
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import requests
from tqdm import tqdm

HERE = Path(__file__).resolve().parent
ROWS = HERE / "data" / "example.jsonl"
OWN_ROUTES = ["/seed_session", "/close_session", "/verify", "/aggregate_metrics"]
IMAGE_BYTES = 24 << 20  # of images in one trajectory; /verify takes 32 MiB
TASK = "_ng_task_index"  # NeMo Gym's key in a rollout: the row's number, from 0
START = f'{{"{TASK}": '.encode()  # of each line of an output file

Row = dict[str, Any]  # of the dataset: responses_create_params, ground_truth
Item = dict[str, Any]  # of the Responses API: a message, function_call, ...
Tools = list[dict[str, Any]]  # definitions for the Responses API
Calls = list[tuple[str, dict[str, Any]]]


class RolloutError(Exception):
    """What went wrong, as one line for the user."""


class NoOracle(RolloutError):
    """There is no oracle for the tools that the server exposes."""


def environment_class() -> type:
    """The domain class, which [tool.environment] in pyproject.toml names."""
    settings = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, name = settings["tool"]["environment"]["domain"].partition(":")
    return getattr(importlib.import_module(module), name)


def load_rows(path: Path = ROWS) -> list[Row]:
    """The dataset rows: each has responses_create_params and ground_truth.

    Raises RolloutError where a line is no JSON object.
    """
    rows = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    rows.append(_row(line, f"{path}, line {number}"))
    except (OSError, UnicodeDecodeError) as error:
        raise RolloutError(f"{path}: {error}") from None
    return rows


def _row(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise RolloutError(f"{where}: {error}") from None
    if not isinstance(row, dict):
        raise RolloutError(f"{where}: a row is a JSON object, got {_line(line)[:80]}")
    return row


# ---------------------------------------------------------------------- the server


def tool_definitions(openapi: dict[str, Any]) -> Tools:
    """The server's tools for the Responses API, out of its /openapi.json."""
    definitions = []
    for path, methods in openapi["paths"].items():
        if "post" not in methods or path in OWN_ROUTES:
            continue
        operation = methods["post"]
        content = operation.get("requestBody", {}).get("content", {})
        schema = _plain(content.get("application/json", {}).get("schema", {}), openapi)
        definitions.append(
            {
                "type": "function",
                "name": path.removeprefix("/"),
                "description": " ".join(operation.get("description", "").split()),
                "parameters": {
                    "type": "object",
                    "properties": schema.get("properties", {}),
                    "required": schema.get("required", []),
                },
                "strict": False,
            }
        )
    return definitions


def _plain(schema: Any, openapi: dict[str, Any]) -> Any:
    """`schema` with references put in place, and without pydantic's titles."""
    if isinstance(schema, list):
        return [_plain(item, openapi) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _plain(openapi["components"]["schemas"][name], openapi)
    plain = {}
    for key, value in schema.items():
        if key == "properties":  # a parameter may itself be called title
            plain[key] = {name: _plain(item, openapi) for name, item in value.items()}
        elif key != "title":
            plain[key] = _plain(value, openapi)
    return plain


class Environment:
    """A running server, as a client sees it: at `url`, else ENV_URL, else on 11000."""

    def __init__(self, url: str | None = None) -> None:
        url = url or os.environ.get("ENV_URL") or "http://127.0.0.1:11000"
        self.url = url.rstrip("/")

    def session(self) -> "EnvironmentSession":
        """A client with cookies of its own: one episode at a time."""
        return EnvironmentSession(self.url)

    def tools(self) -> Tools:
        """The tool definitions that the server derives from its endpoints."""
        return tool_definitions(self.session().fetch("GET", "/openapi.json"))


class EnvironmentSession:
    def __init__(self, url: str) -> None:
        self.url = url
        self.http = requests.Session()
        if token := os.environ.get("API_TOKEN"):
            self.http.headers["Authorization"] = f"Bearer {token}"

    def request(self, method: str, path: str, json: Any = None) -> requests.Response:
        """Raises RolloutError where nothing answers; any HTTP status is returned."""
        try:
            answer = self.http.request(method, self.url + path, json=json, timeout=300)
        except requests.ConnectionError:
            raise RolloutError(
                f"no server answers at {self.url}: start one with "
                "`uv run python server.py`, or name one in ENV_URL"
            ) from None
        except requests.RequestException as error:
            raise RolloutError(f"{method} {self.url}{path}: {_line(error)}") from None
        answer.encoding = "utf-8"  # JSON's, where requests would guess
        return answer

    def fetch(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Raises RolloutError for an answer that is not a JSON object of status 200."""
        response = self.request(method, path, body)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if response.status_code != 200 or not isinstance(answer, dict):
            raise RolloutError(f"{method} {path} answered {_problem(response)}")
        return answer

    def post(self, path: str, body: Any) -> dict[str, Any]:
        return self.fetch("POST", path, body)


def _problem(response: requests.Response) -> str:
    """An answer that is no success, in one line."""
    try:
        detail = response.json()["detail"]
        if isinstance(detail, list):  # FastAPI's: one entry for each wrong argument
            detail = "; ".join(
                f"{'.'.join(map(str, one['loc'][1:])) or 'body'}: {one['msg']}"
                for one in detail
            )
    except (ValueError, KeyError, TypeError):
        detail = response.text
    return f"{response.status_code}: {_line(detail)}"


def _line(text: Any) -> str:
    return " ".join(str(text).split())[:500]


# ---------------------------------------------------------------------- an episode


class Turn(NamedTuple):
    """What a policy does next: output items, function calls without their results."""

    items: list[Item]
    cut: str | None = None  # why a model could not finish, "max_output_tokens" say
    read: int = 0  # tokens
    written: int = 0


class Policy(Protocol):
    name: str  # the model that the trajectory names

    def turn(self, row: Row, tools: Tools, output: list[Item]) -> Turn:
        """Go on after `output`, the items of the episode so far."""


def play(
    environment: Environment, tools: Tools, row: Row, policy: Policy, max_turns: int
) -> dict[str, Any]:
    """One episode: the answer of /verify, with its `reward` and the `response`.

    Ends when the policy calls no tool, or after `max_turns` turns. Raises RolloutError
    where the server or the model fails: then there is no reward.
    """
    session = environment.session()
    session.post("/seed_session", row)
    turns: list[Turn] = []
    output: list[Item] = []
    try:
        while len(turns) < max_turns:
            turn = policy.turn(row, tools, output)
            turns.append(turn)
            output += turn.items
            calls = [item for item in turn.items if item["type"] == "function_call"]
            if turn.cut or not calls:
                break
            output += call_tools(session, tools, calls)
    except RolloutError:
        with contextlib.suppress(RolloutError):
            session.post("/close_session", {})
        raise
    response = as_response(policy.name, tools, output, turns)
    answer = session.post("/verify", {**row, "response": response})
    if answer.get("mask_sample"):
        raise RolloutError(f"the environment failed: {answer.get('failure_reason')}")
    return {"response": response, **answer}


def as_response(
    model: str, tools: Tools, output: list[Item], turns: Sequence[Turn] = ()
) -> dict[str, Any]:
    """An episode as one response of the Responses API, which is what /verify takes."""
    images = [item for item in output if item.get("role") == "user"]
    if len(json.dumps(images)) > IMAGE_BYTES:
        output = [item for item in output if item.get("role") != "user"]
    cut = turns[-1].cut if turns else None
    read = sum(turn.read for turn in turns)
    written = sum(turn.written for turn in turns)
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "created_at": time.time(),
        "model": model,
        "object": "response",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": tools,
        "incomplete_details": {"reason": cut} if cut else None,
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        },
    }


def call_tools(
    session: EnvironmentSession, tools: Tools, calls: list[Item]
) -> list[Item]:
    """The results of function_call items, and their images in a message of the user's.

    An image as text tells a model nothing, and NeMo Gym 0.4 takes results of text only.
    """
    names = {tool["name"] for tool in tools}
    results, images = [], []
    for call in calls:
        call_id, name = call["call_id"], call["name"]
        output, image = _call(session, names, name, call["arguments"])
        results.append(
            {"type": "function_call_output", "call_id": call_id, "output": output}
        )
        if image:
            images += [
                {"type": "input_text", "text": f"The image of {name} ({call_id}):"},
                {"type": "input_image", "image_url": image, "detail": "auto"},
            ]
    if images:
        results.append({"type": "message", "role": "user", "content": images})
    return results


def _call(
    session: EnvironmentSession, names: set[str], name: str, arguments: str
) -> tuple[str, str | None]:
    """The body of a tool's answer, {"output": ...}, less its image; and the image.

    What the policy did wrong, or the tool could not do, is an output that says so.
    """

    def refusal(reason: str) -> tuple[str, None]:
        return json.dumps({"output": f"error: {reason}"}, ensure_ascii=False), None

    if name not in names:  # not even posted: /verify is a path of the server's too
        return refusal(f"no tool {name!r}; there are {', '.join(sorted(names))}")
    try:
        given = json.loads(arguments or "{}")
        json.dumps(given, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        return refusal(f"the arguments are not JSON: {error}")
    response = session.request("POST", f"/{name}", given)
    if response.status_code != 200:
        return refusal(_problem(response))
    with contextlib.suppress(ValueError, AttributeError):  # no JSON, no object
        answer = response.json()
        image = answer.pop("image", None)
        if isinstance(image, str) and image.startswith("data:image/"):
            return json.dumps(answer, ensure_ascii=False), image
    return response.text, None


# ---------------------------------------------------------------------- fixed policies


def noop(row: Row) -> Calls:
    """The policy that does nothing: no grader may pay for it."""
    return []


def oracle(tools: set[str]) -> Callable[[Row], Calls]:
    """The policy that solves every task, out of the domain's own oracle(task).

    Raises NoOracle where the domain has none, where it needs a tool that is not among
    `tools`, the names of the tools that the server exposes, or where this machine lacks
    what an episode needs.
    """
    domain = environment_class()
    if lacking := getattr(domain, "missing_requirement", lambda: None)():
        raise NoOracle(lacking)
    solve = getattr(domain, "oracle", None)
    if solve is None:
        raise NoOracle(f"{domain.__name__} has no oracle(task)")

    def policy(row: Row) -> Calls:
        calls = list(solve(row["ground_truth"][0]))
        if missing := sorted({tool for tool, _ in calls} - tools):
            raise NoOracle(
                f"{domain.__name__}.oracle uses {', '.join(missing)}, which the server "
                "does not expose"
            )
        return calls

    return policy


class Fixed:
    """The policy "oracle" or "noop": all its calls in the first turn, then none."""

    def __init__(self, name: str) -> None:
        self.name = name

    def turn(self, row: Row, tools: Tools, output: list[Item]) -> Turn:
        if output:
            return Turn([])
        chosen = noop
        if self.name == "oracle":
            chosen = oracle({tool["name"] for tool in tools})
        calls = chosen(row)
        return Turn([function_call(name, json.dumps(given)) for name, given in calls])


def function_call(name: str, arguments: str, call_id: str | None = None) -> Item:
    return {
        "type": "function_call",
        "call_id": call_id or f"call_{uuid.uuid4().hex}",
        "name": name,
        "arguments": arguments,
    }


# ---------------------------------------------------------------------- models


class Model:
    """The policy of the model MODEL, over the API "responses" or "chat".

    Raises RolloutError where a setting is missing.
    """

    def __init__(self, api: str) -> None:
        wanted = ("MODEL", "OPENAI_API_KEY")
        if missing := [name for name in wanted if not os.environ.get(name)]:
            raise RolloutError(
                f"--policy llm needs {' and '.join(missing)} in the environment; "
                "--policy oracle plays without a model"
            )
        import openai  # takes a second, which the other policies need not wait

        self.name = os.environ["MODEL"]
        self._ask = self._chat if api == "chat" else self._responses
        url = os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        self._client = openai.OpenAI(base_url=url)
        # Beside the API's errors, what an answer of another shape leads to.
        shape = (ValueError, LookupError, TypeError, AttributeError)
        self._failures = (openai.OpenAIError, *shape)

    def turn(self, row: Row, tools: Tools, output: list[Item]) -> Turn:
        """Raises RolloutError where the endpoint fails, after the client's retries."""
        params = {
            name: value
            for name, value in row["responses_create_params"].items()
            if value is not None and name not in ("model", "stream", "tools")
        }
        start = params.pop("input")
        if isinstance(start, str):
            start = [{"type": "message", "role": "user", "content": start}]
        try:
            return self._ask([*start, *output], tools, params)
        except self._failures as error:
            hint = ""
            if self._ask == self._responses and getattr(error, "status_code", 0) == 404:
                hint = "; --api chat is for endpoints without the Responses API"
            text = _line(f"{error} {error.__cause__ or ''}")
            reason = f"{type(error).__name__}: {text}{hint}"
            where = f"{self.name} at {self._client.base_url}"
            raise RolloutError(f"{where}: {reason}") from None

    def _responses(
        self, items: list[Item], tools: Tools, params: dict[str, Any]
    ) -> Turn:
        answer = self._client.responses.create(
            model=self.name, input=items, tools=tools, extra_body=params
        )
        plain = _plain_answer(answer, "output")
        for item in plain["output"]:
            if item["type"] == "function_call":
                item.update(
                    function_call(
                        item["name"], item.get("arguments", ""), item.get("call_id")
                    )
                )
            elif item["type"] == "reasoning":
                item.pop("status", None)  # OpenAI's API sends it and takes it not back
        cut = plain.get("incomplete_details", {}).get("reason")
        tokens = _tokens(plain, "input_tokens", "output_tokens")
        return Turn(plain["output"], cut, *tokens)

    def _chat(self, items: list[Item], tools: Tools, params: dict[str, Any]) -> Turn:
        messages = chat_messages(items)
        if instructions := params.pop("instructions", None):
            messages.insert(0, {"role": "system", "content": instructions})
        if limit := params.pop("max_output_tokens", None):
            params["max_completion_tokens"] = limit
        if effort := params.pop("reasoning", {}).get("effort"):
            params["reasoning_effort"] = effort
        keys = ("name", "description", "parameters")
        functions = [{key: tool[key] for key in keys} for tool in tools]
        answer = self._client.chat.completions.create(
            model=self.name,
            messages=messages,
            tools=[{"type": "function", "function": each} for each in functions],
            extra_body=params,
        )
        plain = _plain_answer(answer, "choices")
        choice = plain["choices"][0]
        cuts = {"length": "max_output_tokens", "content_filter": "content_filter"}
        cut = cuts.get(choice.get("finish_reason"))
        tokens = _tokens(plain, "prompt_tokens", "completion_tokens")
        return Turn(_chat_items(choice["message"]), cut, *tokens)


def _plain_answer(answer: Any, key: str) -> dict[str, Any]:
    """A model's answer as JSON that can be posted back.

    Raises LookupError where it has no `key`: an error, a web page.
    """
    plain = {}
    if hasattr(answer, "model_dump"):
        plain = answer.model_dump(mode="json", exclude_none=True, warnings=False)
    if key not in plain or plain.get("status") == "failed":
        raise LookupError(f"no {key}: {plain.get('error') or plain or answer}")
    return plain


def _tokens(answer: dict[str, Any], read: str, written: str) -> tuple[int, int]:
    usage = answer.get("usage") or {}
    return usage.get(read, 0), usage.get(written, 0)


def chat_messages(items: list[Item]) -> list[dict[str, Any]]:
    """Items of the Responses API as messages of Chat Completions."""
    messages: list[dict[str, Any]] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            content = _chat_content(item["content"])
            messages.append({"role": item["role"], "content": content})
        elif kind == "function_call":
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": None})
            function = {"name": item["name"], "arguments": item["arguments"]}
            messages[-1].setdefault("tool_calls", []).append(
                {"id": item["call_id"], "type": "function", "function": function}
            )
        elif kind == "function_call_output":
            call_id, output = item["call_id"], item["output"]
            messages.append(
                {"role": "tool", "tool_call_id": call_id, "content": output}
            )
    return messages


def _chat_content(content: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    parts = []
    for part in content:
        if part["type"] == "input_image":
            image = {"url": part["image_url"], "detail": part.get("detail", "auto")}
            parts.append({"type": "image_url", "image_url": image})
        else:
            parts.append({"type": "text", "text": part["text"]})
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _chat_items(message: dict[str, Any]) -> list[Item]:
    """A message of Chat Completions as items of the Responses API."""
    items: list[Item] = []
    if text := message.get("content") or message.get("refusal"):
        items.append(
            {
                "type": "message",
                "id": f"msg_{uuid.uuid4().hex}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
        )
    for call in message.get("tool_calls", []):
        function = call["function"]
        arguments = function.get("arguments", "")
        items.append(function_call(function["name"], arguments, call.get("id")))
    return items


# ---------------------------------------------------------------------- many episodes


def rewards(environment: Environment, policy: str, rows: list[Row]) -> Iterator[float]:
    """Play rows as "oracle" or "noop", one after the other."""
    tools = environment.tools()
    for row in rows:
        yield play(environment, tools, row, Fixed(policy), max_turns=1)["reward"]


def played_before(path: Path, rows: dict[int, Row], policy: str) -> dict[int, float]:
    """The rewards in an output file by task index; cuts a half-written last line off.

    Raises RolloutError where the file holds anything but rollouts of these rows by this
    policy: their rewards would count as its own.
    """
    data = path.read_bytes() if path.is_file() else b""
    *lines, last = data.split(b"\n")
    found = {}
    for number, line in enumerate(lines, start=1):
        try:
            rollout = json.loads(line)
            task = rollout[TASK]
            same = rollout["response"]["model"] == policy
            same &= rows[task].items() <= rollout.items()
            found[task] = rollout["reward"]
        except (ValueError, LookupError, TypeError):
            same = False
        if not same:
            raise RolloutError(
                f"{path}, line {number}, is no rollout of {policy} on these rows as "
                "they are now: name another file with --output"
            )
    if last:
        if not last.startswith(START[: len(last)]):
            raise RolloutError(f"{path} holds no rollouts: name another with --output")
        os.truncate(path, len(data) - len(last))
    return found


def record(task: int, row: Row, result: dict[str, Any]) -> dict[str, Any]:
    """An episode as NeMo Gym writes it, with the row as it is in the dataset."""
    ids = {TASK: task, "_ng_rollout_index": 0}
    graded = {key: result[key] for key in ("response", "reward")}
    return {
        **ids,
        "agent_ref": {"name": "rollout.py"},
        **result,
        **row,
        **ids,
        **graded,
    }


def episodes(
    environment: Environment,
    policy: Policy,
    rows: dict[int, Row],
    max_turns: int,
    concurrency: int,
) -> Iterator[tuple[int, dict[str, Any] | RolloutError]]:
    """Play rows, as they finish: the task index and what play() returned or raised.

    Raises NoOracle, which no other row would go without.
    """
    tools = environment.tools()

    def episode(task: int) -> tuple[int, dict[str, Any] | RolloutError]:
        try:
            return task, play(environment, tools, rows[task], policy, max_turns)
        except NoOracle:
            raise
        except RolloutError as error:
            return task, error

    # Daemon threads: Ctrl-C waits for none.
    with ThreadPool(min(concurrency, len(rows) or 1)) as pool:
        yield from pool.imap_unordered(episode, rows)


def run(options: argparse.Namespace) -> int:
    """What the command does. Returns its exit status, raises RolloutError."""
    policy = Model(options.api) if options.policy == "llm" else Fixed(options.policy)
    try:
        max_turns = positive(os.environ.get("MAX_TURNS") or "6")
    except argparse.ArgumentTypeError as error:
        raise RolloutError(f"MAX_TURNS: {error}") from None
    environment = Environment()
    rows, path = dict(enumerate(load_rows(options.rows))), options.output
    known = played_before(path, rows, policy.name) if path else {}
    wanted = list(rows)[: options.limit]
    total = [known[task] for task in wanted if task in known]
    if total:
        print(f"{len(total)} of {len(wanted)} rows are in {path}", file=sys.stderr)
    todo = {task: rows[task] for task in wanted if task not in known}
    played = episodes(environment, policy, todo, max_turns, options.concurrency)
    failed = 0
    with contextlib.ExitStack() as stack:
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(path.open("a", encoding="utf-8"))
        for task, result in tqdm(played, total=len(todo), unit="row", disable=None):
            if isinstance(result, RolloutError):
                failed += 1
                tqdm.write(f"row {task + 1}: failed: {result}", file=sys.stderr)
                continue
            total.append(result["reward"])
            tqdm.write(f"row {task + 1}: reward {result['reward']}", file=sys.stdout)
            sys.stdout.flush()
            if path:
                file.write(json.dumps(record(task, rows[task], result)) + "\n")
                file.flush()
    if total or not failed:
        print(f"mean reward: {sum(total) / len(total) if total else 0.0}")
    if failed:
        print(f"rollout.py: {failed} of {len(todo)} rows failed", file=sys.stderr)
    return 1 if failed else 0


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--policy", choices=["llm", "oracle", "noop"], default="llm")
    add("--rows", type=Path, default=ROWS, metavar="FILE", help="data/example.jsonl")
    add("--limit", type=positive, metavar="N", help="play the first N rows only")
    add("--output", type=Path, metavar="FILE", help="add the rollouts to this .jsonl")
    add("--concurrency", type=positive, default=1, metavar="N", help="rows at a time")
    add("--api", choices=["responses", "chat"], default="responses", help="of the llm")
    options = parser.parse_args(arguments)
    try:
        return run(options)
    except (RolloutError, OSError) as error:
        print(f"rollout.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
