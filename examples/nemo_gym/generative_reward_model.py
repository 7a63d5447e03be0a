"""NeMo Gym's generative_reward_model: scores for two responses, as people gave them."""

import json
from typing import Any

from resources_servers.generative_reward_model.score_parser import extract_scores

WEIGHTS = {"score_1": 1.0, "score_2": 1.0, "ranking": 2.0}
RUBRICS = 0.5  # the weight of their mean
UNREADABLE = -100.0


def error(expected: dict[str, Any], given: Any) -> float | None:
    """The weighted difference of the scores that people gave. None if there are none."""
    scores = {key: expected[key] for key in WEIGHTS if expected.get(key) is not None}
    errors = [WEIGHTS[key] * abs(scores[key] - getattr(given, key)) for key in scores]
    return sum(errors) if errors else None


class RewardModel:
    """`ground_truth_overall`, and `ground_truth_rubric_scores` by `rubric_id`."""

    blocking = False
    reward_range = (UNREADABLE, 0.0)

    def __init__(self, task: dict[str, Any]) -> None:
        rubrics = task.get("ground_truth_rubric_scores") or []
        self._rubrics = {rubric["rubric_id"]: rubric for rubric in rubrics}
        self._overall = task.get("ground_truth_overall") or {}

    def reward(self, answer: str) -> float:
        """0.0 for people's scores, less for others, -100.0 for none or for no number."""
        scores = extract_scores(answer)
        if scores is None:
            return UNREADABLE
        penalty = error(self._overall, scores) or 0.0
        if self._rubrics:
            given = [each.rubric_id for each in scores.rubric_scores]
            if sorted(given) != sorted(self._rubrics):
                return UNREADABLE
            errors = [
                found
                for each in scores.rubric_scores
                if (found := error(self._rubrics[each.rubric_id], each)) is not None
            ]
            if errors:
                penalty += RUBRICS * sum(errors) / len(errors)
        return -penalty if penalty <= -UNREADABLE else UNREADABLE

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """People's scores."""
        rubrics, overall = (
            task[f"ground_truth_{key}"] for key in ("rubric_scores", "overall")
        )
        return json.dumps({"rubric_evaluations": rubrics, "overall": overall})
