"""NeMo Gym's reasoning_gym: one of a hundred kinds of puzzles, scored by its library."""

import re
from typing import Any

import reasoning_gym
from reasoning_gym.utils import extract_answer


class ReasoningGym:
    """One puzzle, in the row's prompt. `metadata` names the data set that scores it."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._entry = {key: task[key] for key in ("question", "answer", "metadata")}
        name = task["metadata"]["source_dataset"]
        self._score: Any = reasoning_gym.get_score_answer_fn(name)

    def reward(self, answer: str) -> float:
        """The library's score of the text in <answer>, or in a box, or of all of it."""
        said = extract_answer(answer, tag_name="answer")
        if said is None:
            boxed = re.search(r"\\boxed\{([^}]+)\}", answer)
            said = (boxed[1] if boxed else answer).strip()
        return float(self._score(answer=said, entry=self._entry))

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        return f"<answer>{task['answer']}</answer>"
