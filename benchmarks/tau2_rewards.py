"""Compare the rewards of examples/packages/retail.py with those of tau2's own evaluator.

    uv run python server.py &    # in nemo_gym/ of the generated `retail`
    uv run python ../../nemo-gym-template/benchmarks/tau2_rewards.py [N [POLICY ...]]

Plays all tasks of tau2's shop, or each Nth, over HTTP with four scripted policies, or
those that are named. tau2 replays each trajectory, refuses it if a tool's output differs
from its own, and grades it. Exits with status 1 if a reward differs.
"""

import collections
import json
import sys
from pathlib import Path
from typing import Any

from env_runtime.rollouts import Client, Turn, as_response, function_call, message
from loguru import logger
from tau2.data_model.message import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tau2.domains.retail.environment import get_environment
from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
from tau2.evaluator.evaluator_env import EnvironmentEvaluator

sys.path.insert(0, str(Path.cwd().parent))

from retail import Retail, database, tasks


def plans(name: str) -> dict[str, list[Any]]:
    """The messages and calls of each policy for a task."""
    steps = Retail.oracle({"id": name})
    calls = [step for step in steps if not isinstance(step, str)]
    writes = [call for call in calls if not call[0].startswith(("get_", "find_"))]
    return {
        "tau2's solution": steps,
        "without the last change": [step for step in steps if step not in writes[-1:]],
        "without the facts": [*steps[:2], *calls, "Done.", "Goodbye."],
        "nothing": ["Goodbye."],
    }


def played(client: Client, name: str, steps: list[Any]) -> tuple[float, list[Any]]:
    """The reward of an episode over HTTP, and its trajectory."""
    row = {
        "responses_create_params": {"input": "Hello."},
        "ground_truth": [{"id": name}],
    }
    session, output = client.session(), []
    session.post("/seed_session", row)
    for step in steps:
        said = isinstance(step, str)
        item = message(step) if said else function_call(step[0], json.dumps(step[1]))
        output += [item, *session.respond(client.tools(), Turn([item]))]
    response = as_response("tau2", client.tools(), output)
    return session.post("/verify", {**row, "response": response})["reward"], output


def as_tau2(item: dict[str, Any]) -> Any:
    """An item of the trajectory as tau2's message."""
    if item["type"] == "function_call":
        call = {"id": item["call_id"], "name": item["name"]}
        call["arguments"] = json.loads(item["arguments"])
        return AssistantMessage(role="assistant", tool_calls=[ToolCall(**call)])
    if item["type"] == "function_call_output":
        text = json.loads(item["output"])["output"]
        if text.startswith("error: "):
            text = "Error: " + text.removeprefix("error: ")
        return ToolMessage(id=item["call_id"], role="tool", content=text)
    if item["role"] == "user":
        return UserMessage(role="user", content=item["content"])
    return AssistantMessage(role="assistant", content=item["content"][0]["text"])


def shop(solo_mode: bool = False) -> Any:
    """tau2's environment. The file of its database is read once."""
    return get_environment(database().model_copy(deep=True), solo_mode)


def graded_by_tau2(name: str, output: list[Any]) -> float:
    messages = [as_tau2(item) for item in output]
    state = EnvironmentEvaluator.calculate_reward(shop, tasks()[name], messages)
    told = CommunicateEvaluator.calculate_reward(tasks()[name], messages)
    return state.reward * told.reward


def main() -> None:
    logger.remove()  # tau2 logs every output
    client, names = Client(), list(tasks())[:: int(*sys.argv[1:2] or [1])]
    chosen = sys.argv[2:]
    equal: dict[str, int] = collections.defaultdict(int)
    paid: dict[str, float] = collections.defaultdict(float)
    for name in names:
        for policy, steps in plans(name).items():
            if chosen and policy not in chosen:
                continue
            reward, output = played(client, name, steps)
            expected = graded_by_tau2(name, output)
            if reward != expected:
                print(f"task {name}, {policy}: {reward}, but tau2 says {expected}")
            equal[policy] += reward == expected
            paid[policy] += reward
    print("| policy | rewards equal to tau2's | mean reward |\n| --- | --- | --- |")
    for policy, count in equal.items():
        mean = paid[policy] / len(names)
        print(f"| {policy} | {count} of {len(names)} | {mean:.3f} |")
    sys.exit(any(count < len(names) for count in equal.values()))


if __name__ == "__main__":
    main()
