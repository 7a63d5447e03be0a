"""Environments of verifiers and OpenEnv, moved as docs/frameworks.md has it, earn the same.

The originals run in venvs of their own frameworks.
"""

import json
import re
import sys

import pytest
from env_runtime.episode.types import message

from projects import ROOT, UV
from projects import run as run_command

pytestmark = pytest.mark.nightly


def original(package, script, given):
    """What a script of another framework prints for these values."""
    command = [UV, "run", "--quiet", "--no-project", "--python", sys.executable]
    command += ["--with", package, "python", "-c", script, json.dumps(given)]
    return json.loads(run_command(command, ROOT).stdout.splitlines()[-1])


# ------------------------------------------------------------------- verifiers

RUBRIC = """
import asyncio, json, re, sys
import verifiers as vf
from datasets import Dataset

def correct(completion, answer):
    found = re.findall(r"-?\\d+", completion[-1]["content"])
    return float(found[-1:] == [answer])

def brief(completion):
    return float(len(completion[-1]["content"]) <= 10)

row = {"question": "What is 1 + 1?", "answer": "2"}
rubric = vf.Rubric(funcs=[correct, brief], weights=[1.0, 0.5])
env = vf.SingleTurnEnv(dataset=Dataset.from_list([row]), rubric=rubric)

async def rewards(answers):
    earned = []
    for said in answers:
        state = vf.State(prompt=row["question"], task="sum", info={}, trajectory=[],
            completion=[{"role": "assistant", "content": said}], answer=row["answer"],
            timing={"scoring_ms": 0, "total_ms": 0, "generation_ms": 0})
        await env.rubric.score_rollout(state, asyncio.Semaphore(1))
        earned.append([state["reward"], state["metrics"]["correct"]])
    return earned

print(json.dumps(asyncio.run(rewards(json.loads(sys.argv[1])))))
"""


class Sums:
    """Several functions with weights are one reward(), with the parts in metrics()."""

    reward_range = (0.0, 1.5)

    def __init__(self, task):
        self._answer, self._correct = task["answer"], 0.0

    def reward(self, answer: str) -> float:
        found = re.findall(r"-?\d+", answer)
        self._correct = float(found[-1:] == [self._answer])
        return self._correct + 0.5 * (len(answer) <= 10)

    def metrics(self) -> dict[str, float]:
        return {"correct": self._correct}


def test_a_single_turn_env_of_verifiers(server_of, run):
    answers = ["2", "That is surely 2.", "3", "It is 3, surely.", "22", "2 or -2"]
    connect = run(server_of(Sums))
    row = {
        "responses_create_params": {"input": "What is 1 + 1?"},
        "ground_truth": [{"answer": "2"}],
    }
    earned = []
    for said in answers:
        verdict = connect().seed(row).verdict(output=[message(said)])
        earned.append([verdict["reward"], verdict["correct"]])
    assert earned == original("verifiers==0.1.9", RUBRIC, answers)
    assert {reward for reward, _ in earned} == {0.0, 0.5, 1.0, 1.5}


# ------------------------------------------------------------------- OpenEnv

STEPS = """
import json, sys
from openenv.core.env_server import Action, Environment, Observation, State

class Add(Action):
    number: int

class Counter(Environment):
    def reset(self, seed=None, episode_id=None, **given):
        self.count, self.goal = 0, 3
        return Observation(done=False, reward=0.0)

    def step(self, action, timeout_s=None, **given):
        self.count += action.number
        done = self.count >= self.goal
        return Observation(done=done, reward=float(self.count == self.goal))

    @property
    def state(self):
        return State()

earned = []
for numbers in json.loads(sys.argv[1]):
    env = Counter()
    seen = env.reset()
    for number in numbers:
        if not seen.done:
            seen = env.step(Add(number=number))
    earned.append(seen.reward)
print(json.dumps(earned))
"""


class Counter:
    """An action class is a method, and `done` an exception."""

    def __init__(self, task):
        self.count, self.goal = 0, task.get("goal", 3)

    def add(self, number: int) -> str:
        if self.count >= self.goal:
            raise ValueError("the episode is over")
        self.count += number
        return f"The count is {self.count}."

    def reward(self) -> float:
        return float(self.count == self.goal)


def test_an_environment_of_openenv(server_of, run):
    episodes = [[3], [1, 1, 1], [1, 1], [4], [], [2, 2], [3, 5], [5, -2]]
    connect = run(server_of(Counter))
    row = {
        "responses_create_params": {"input": "Count to 3."},
        "ground_truth": [{"goal": 3}],
    }
    earned = []
    for numbers in episodes:
        client = connect().seed(row)
        for number in numbers:
            client.call("add", number=number)
        earned.append(client.reward())
    assert earned == original("openenv>=0.10,<0.11", STEPS, episodes)
    assert set(earned) == {0.0, 1.0}
