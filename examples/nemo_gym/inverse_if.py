"""NeMo Gym's inverse_if: unusual instructions, judged criterion by criterion."""

import asyncio
from typing import Any, Literal

from pydantic import BaseModel

SYSTEM = "Say whether a response fulfills one criterion, literally and completely."
TEMPLATE = """\
Instruction: {prompt}

A response that fulfills it: {standard_response}

The response to grade: {model_response}

Criterion: {criteria}"""
FOLLOWS = "(It is in the next message.)"


class Verdict(BaseModel):
    """What the judge says about one criterion."""

    result: Literal["PASS", "FAIL"]
    explanation: str = ""


class InverseIF:
    """A row has a `rubric`, and most rows have their own prompts for the judge."""

    def __init__(self, task: dict[str, Any], judge: Any) -> None:
        self.judge = judge
        self._criteria = [str(each["criteria"]) for each in task["rubric"]]
        self._system = task.get("judge_system_prompt") or SYSTEM
        self._template = task.get("judge_prompt_template") or TEMPLATE
        self._shown = {
            "prompt": task.get("prompt", ""),
            "standard_response": task.get("reference_response", ""),
            "model_response": FOLLOWS,
        }

    async def reward(self, answer: str) -> float:
        """The part of the criteria that the answer fulfills, without its reasoning."""
        answer = answer.rpartition("</think>")[2].strip()
        if not answer or not self._criteria:
            return 0.0
        asked = [self._fulfills(answer, each) for each in self._criteria]
        return sum(await asyncio.gather(*asked)) / len(asked)

    async def _fulfills(self, answer: str, criterion: str) -> bool:
        prompt = self._template.format(criteria=criterion, **self._shown)
        messages = [
            {"role": "system", "content": self._system},
            {"role": "user", "content": prompt},
        ]
        verdict = await self.judge.ask(messages, schema=Verdict, data=answer)
        return verdict.result == "PASS"

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        return task["reference_response"]

    @staticmethod
    def stand_in(model: str, prompt: str) -> str:
        """Answer for the judge: only the response of the row is right."""
        _, _, rest = prompt.partition("\n## Standard Response\n")
        passed = prompt.endswith(rest.partition("\n\n---")[0])
        return Verdict(result="PASS" if passed else "FAIL").model_dump_json()
