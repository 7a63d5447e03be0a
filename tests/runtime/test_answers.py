"""Tests of the policy's last message: what counts as one, and which clients send it."""

from typing import Any

import pytest
from env_runtime import project
from env_runtime.checks.class_checks import check_class
from env_runtime.checks.rollout import rollout_gate
from env_runtime.checks.smoke import smoke_gate
from env_runtime.episode.tasks import solution_of
from env_runtime.episode.tools import tools_of
from env_runtime.episode.types import Solution
from env_runtime.errors import GateError, RolloutError
from env_runtime.evaluation.play import play
from env_runtime.evaluation.policies import FIXED_TURNS, NONSENSE, fixed_policy
from env_runtime.evaluation.scripted_model import ScriptedModel
from env_runtime.evaluation.trajectory import function_call, message
from env_runtime.server import SessionServer, VerifyRequest, VerifyResponse
from fastapi import Request

from .support import rows_file


class Sum:
    """Asks for a sum. It has no tool."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self.expected = str(task.get("a", 1) + task.get("b", 1))

    def reward(self, answer: str) -> float:
        return float(answer.strip() == self.expected)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return str(task["a"] + task["b"])


class Calculator(Sum):
    """A sum, and a tool that must be called before the answer."""

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.added = False

    def add(self, a: int, b: int) -> str:
        """Add two numbers."""
        self.added = True
        return str(a + b)

    def reward(self, answer: str) -> float:
        return super().reward(answer) * self.added

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("add", {"a": task["a"], "b": task["b"]}), Sum.oracle(task)]


@pytest.fixture
def sum_row():
    params = {"input": "What is 2 + 3?", "tools": []}
    return {"responses_create_params": params, "ground_truth": [{"a": 2, "b": 3}]}


@pytest.fixture
def calculator_row(sum_row):
    params = sum_row["responses_create_params"]
    tools = [tool.definition() for tool in tools_of(Calculator).values()]
    return {**sum_row, "responses_create_params": {**params, "tools": tools}}


def output_of(text):
    call = function_call("add", '{"a": 2, "b": 3}')
    result = {"type": "function_call_output", "call_id": call["call_id"]}
    return [call, {**result, "output": text}]


def parts(*texts):
    part = {"type": "output_text", "annotations": []}
    return {**message(""), "content": [{**part, "text": text} for text in texts]}


USER = {"type": "message", "role": "user", "content": "5"}
REASONING = {
    "type": "reasoning",
    "id": "r",
    "summary": [{"type": "summary_text", "text": "5"}],
}


@pytest.mark.parametrize(
    ("output", "reward"),
    [
        ([message("5")], 1.0),
        ([message("Let me think."), message("5")], 1.0),
        ([message("5"), message("That is it.")], 0.0),
        ([message("5"), *output_of("7")], 1.0),
        ([parts("5", "")], 1.0),
        ([parts("5", "5")], 0.0),
        ([message("6"), USER], 0.0),
        ([USER], 0.0),
        ([REASONING], 0.0),
        (output_of("5"), 0.0),
        (output_of('{"output": "5"}'), 0.0),
        ([], 0.0),
    ],
)
def test_the_last_message_is_the_answer(client_of, sum_row, output, reward):
    client = client_of(Sum)
    client.seed(sum_row)
    assert client.reward(sum_row, output) == reward


def test_the_first_verdict_is_final(client_of, sum_row):
    client = client_of(Sum)
    client.seed(sum_row)
    assert client.reward(sum_row, [message("6")]) == 0.0
    assert client.reward(sum_row, [message("5")]) == 0.0
    client.seed(sum_row, 409)


def test_an_answer_without_a_seed_earns_nothing(client_of, sum_row):
    assert client_of(Sum).reward(sum_row, [message("5")]) == 0.0


def test_a_class_that_takes_no_answer_gets_none(client_of, generous):
    client = client_of(generous)
    client.seed()
    assert client.reward(output=[message("5")]) == 1.0


def test_a_server_of_release_0_3(run, generous):
    """Its server.py calls `session.reward()` without an answer."""

    class Old(SessionServer):
        domain_class = generous

        async def verify(self, request: Request, body: VerifyRequest) -> VerifyResponse:
            session = self.finished_session(request, body)
            reward = await session.reward() if session else 0.0
            return self.verify_response(request, body, reward)

    client = run(Old.build())()
    client.seed()
    assert client.reward() == 1.0

    Old.domain_class = Sum
    with pytest.raises(GateError, match=r"write `await session.reward\(body.answer\)`"):
        check_class(Sum, Old)


# ---------------------------------------------------------------------- policies


@pytest.mark.parametrize(
    ("policy", "kinds", "answer"),
    [
        ("oracle", ["function_call", "function_call_output", "message"], "5"),
        ("noop", [], None),
        (
            "garbage",
            [*["function_call"] * 2, *["function_call_output"] * 2, "message"],
            NONSENSE,
        ),
    ],
)
def test_a_fixed_policy_calls_and_then_answers(
    gate_client, calculator_row, policy, kinds, answer
):
    client = gate_client(Calculator)
    fixed = fixed_policy(policy)
    result = play(client, client.tools(), calculator_row, fixed, FIXED_TURNS)
    output = result["response"]["output"]
    assert [item["type"] for item in output] == kinds
    if answer is not None:
        assert output[-1]["content"][0]["text"] == answer
    assert result["reward"] == float(policy == "oracle")
    assert not result["out_of_turns"]


@pytest.mark.parametrize(
    ("steps", "solution"),
    [
        ("5", ([], "5")),
        ([("add", {"a": 1})], ([("add", {"a": 1})], "")),
        ((("add", {"a": 1}), "5"), ([("add", {"a": 1})], "5")),
        ([], ([], "")),
        (5, None),
        ([5], None),
        (["5", ("add", {})], None),
        ([("add",)], None),
        ([("add", 5)], None),
        ([(5, {})], None),
        (None, None),
    ],
)
def test_what_an_oracle_may_return(sum_row, steps, solution):
    class Given(Sum):
        @staticmethod
        def oracle(task):
            return steps

    if solution is None:
        with pytest.raises(RolloutError, match=r"Given.oracle\(task\) must return the"):
            solution_of(Given, sum_row)
    else:
        assert solution_of(Given, sum_row) == solution


def test_the_scripted_model_ends_with_the_answer():
    plans = [Solution([("add", {})], "5"), Solution([], "6"), [("add", {})]]
    with ScriptedModel(plans) as model:
        for number, last in enumerate(["5", "6", "I am done."]):
            calls = [function_call("add", "{}")] if number != 1 else []
            asked = {"metadata": {"row": str(number)}, "input": calls}
            [item] = model.answer(asked)["output"]
            assert item["content"][0]["text"] == last
            messages = [{"role": "assistant"}] * len(calls)
            chunk = model.chunk({"model": str(number), "messages": messages})
            assert chunk["choices"][0]["delta"]["content"].startswith(last.strip("."))


# ---------------------------------------------------------------------- gates


def test_the_gates_of_a_class_without_tools(gate_client, sum_row, tmp_path):
    client, rows = gate_client(Sum), rows_file(tmp_path, sum_row)
    assert smoke_gate(client, rows) == "no tools: the answer is graded"
    line = "1 row: the oracle earns 1.0, noop and nonsense 0.0"
    assert rollout_gate(client, rows) == line


def test_rows_without_the_key_tools_have_the_tools_of_no_server(
    gate_client, sum_row, tmp_path
):
    del sum_row["responses_create_params"]["tools"]
    path = rows_file(tmp_path, sum_row)
    assert smoke_gate(gate_client(Sum), path).startswith("no tools")
    with pytest.raises(GateError, match="does not have the tools of the server"):
        smoke_gate(gate_client(Calculator), path)


class Lenient(Sum):
    """Pays for any text, as some scorers do."""

    def reward(self, answer: str) -> float:
        return 1.0 if super().reward(answer) else 0.01 * bool(answer)


def test_the_gate_shows_what_it_submitted(gate_client, sum_row, tmp_path):
    client = gate_client(Lenient)
    with pytest.raises(GateError) as caught:
        rollout_gate(client, rows_file(tmp_path, sum_row))
    text = str(caught.value)
    assert "the policy 'garbage' earns 0.01, not 0.0" in text
    assert '"baseline_reward": 0.01 into the row' in text
    assert f"(it called nothing, and answered {NONSENSE!r}; task: " in text
    lenient = {**sum_row, "baseline_reward": 0.01}
    assert rollout_gate(client, rows_file(tmp_path, lenient)) == (
        "1 row: the oracle earns 1.0, noop and nonsense at most 0.01"
    )
    params = {**sum_row["responses_create_params"], "input": "Another prompt."}
    other = {**lenient, "responses_create_params": params, "baseline_reward": 0.02}
    both = rows_file(tmp_path, lenient, other)
    line, _ = rollout_gate(client, both).split("\n")
    assert line.endswith("nonsense at most what each row says")


def test_an_oracle_that_needs_more_turns_than_there_are(
    gate_client, calculator_row, tmp_path, monkeypatch
):
    client, path = gate_client(Calculator), rows_file(tmp_path, calculator_row)
    monkeypatch.setattr(project.Project, "table", lambda self: {"max_turns": 2})
    assert rollout_gate(client, path).startswith("1 row: the oracle earns 1.0")
    monkeypatch.setattr(project.Project, "table", lambda self: {"max_turns": 1})
    with pytest.raises(GateError) as caught:
        rollout_gate(client, path)
    text = str(caught.value)
    assert f"row 1 of {path}: a model that makes one call a turn needs 2 turns" in text
    assert "(1 call and the final answer), but max_turns is 1" in text
    assert f"--vcs-ref=:current: -d max_turns=2` in {project.here().root}" in text


# ---------------------------------------------------------------------- import gate


@pytest.fixture
def check(server_of):
    """Runs the import gate over a class whose server serves the named tools."""
    return lambda domain, served=None: check_class(
        domain, type(server_of(domain, served))
    )


def test_a_class_without_tools_needs_an_answer(check):
    name = f"{__name__}.Sum"
    assert check(Sum).startswith(f"{name} has no tools: its answer is graded")
    assert check(Calculator).startswith(f"{__name__}.Calculator has add")

    class Silent(Sum):
        def reward(self) -> float:  # type: ignore
            return 1.0

    with pytest.raises(GateError) as caught:
        check(Silent)
    assert "Silent has no tool: a tool is a public method" in str(caught.value)
    assert "`reward(self, answer: str)` grades the policy's" in str(caught.value)


def test_what_reward_may_take(check, monkeypatch):
    def any_name(self, completion: str): ...

    def bare(self, answer): ...

    def with_default(self, answer: str = ""): ...

    for good in (any_name, bare, with_default):
        monkeypatch.setattr(Calculator, "reward", good)
        check(Calculator)

    def two(self, answer: str, strict: bool): ...

    def flag(self, strict: bool = False): ...

    def untyped(self, task): ...

    def several(self, *answers: str): ...

    def keyword(self, *, answer: str): ...

    for bad in (two, flag, untyped, several, keyword):
        monkeypatch.setattr(Calculator, "reward", bad)
        with pytest.raises(GateError, match="is called without arguments, or with the"):
            check(Calculator)
