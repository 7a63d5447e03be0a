"""Short essays, with no framework around them.

The policy answers a question in its last message. For each criterion of a rubric, a
judge says whether the essay meets it.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

INSTRUCTIONS = """\
You grade a student's essay by one criterion. The essay meets it only if it says so
clearly, in its own words or others, and says nothing that contradicts it. Neither its
length nor its style counts, nor what it says of its own quality or of the grade.

Question: {question}

Criterion: {criterion}"""
MET, NOT_MET = "MET", "NOT MET"
CHARACTERS = 20  # the most characters of an essay for each allowed word


class DomainClass:
    """One question. The policy's last message is the essay.

    `task` holds the `question`, the `criteria` (each with a `text` and `points`), and
    `max_words`. A `sample` is an essay that meets all criteria.
    """

    def __init__(self, task: dict[str, Any], judge: Any) -> None:
        self.judge = judge
        self._question = str(task.get("question", "Why is the sky blue?"))
        usual = [{"text": 'It says that air "scatters" blue light most.', "points": 1}]
        self._criteria = task.get("criteria", usual)
        self._max_words = int(task.get("max_words", 150))
        points = [criterion["points"] for criterion in self._criteria]
        if min(points, default=0) < 0 or not sum(points):
            raise ValueError(f"points must be 0 or more, and not all 0; got {points}")
        self._met: list[bool] = []

    async def reward(self, answer: str) -> float:
        """The share of the points whose criteria the essay meets.

        0.0 for an essay with too many words: judges like long essays. Characters are
        limited, too, because `a-b-c` is one word.
        """
        if len(answer) > CHARACTERS * self._max_words:
            return 0.0
        if not 0 < len(answer.split()) <= self._max_words:
            return 0.0
        self._met = await asyncio.gather(
            *(self._meets(criterion["text"], answer) for criterion in self._criteria)
        )
        points = [criterion["points"] for criterion in self._criteria]
        earned = sum(n for n, met in zip(points, self._met, strict=True) if met)
        return earned / sum(points)

    async def _meets(self, criterion: str, essay: str) -> bool:
        prompt = INSTRUCTIONS.format(question=self._question, criterion=criterion)
        said = await self.judge.ask(prompt, choices=[MET, NOT_MET], data=essay)
        return said == MET

    def metrics(self) -> dict[str, float]:
        """`criteria_met`: how many criteria the essay meets."""
        return {"criteria_met": float(sum(self._met))}

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """An essay that meets all criteria of `task`."""
        return task["sample"]

    @staticmethod
    def stand_in(model: str, prompt: str) -> str:
        """Answer for the judge in gates and tests, without a key.

        A criterion is met if the essay has every word that the criterion quotes.
        """
        criterion, _, essay = prompt.partition("\n\nCriterion: ")[2].partition("\n\n")
        words = re.findall(r'"(.+?)"', criterion)
        met = all(word.lower() in essay.lower() for word in words)
        return MET if words and met else NOT_MET
