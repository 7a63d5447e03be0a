"""tau2's shop: the policy serves a customer, whose part is a script."""

import contextlib
import functools
from typing import Any

from tau2.domains.retail.data_model import RetailDB
from tau2.domains.retail.environment import get_tasks
from tau2.domains.retail.tools import RetailTools
from tau2.domains.retail.utils import RETAIL_DB_PATH, RETAIL_POLICY_PATH


@functools.cache
def database() -> RetailDB:
    return RetailDB.load(RETAIL_DB_PATH)


@functools.cache
def tasks() -> dict[str, Any]:
    return {task.id: task for task in get_tasks(None)}


@functools.cache
def solved(name: str) -> str:
    """The hash of the database after tau2's own solution of a task."""
    shop = RetailTools(database().model_copy(deep=True))
    for action in tasks()[name].evaluation_criteria.actions or []:
        with contextlib.suppress(ValueError):  # as tau2 does: some calls fail
            shop.use_tool(action.name, **action.arguments)
    return shop.get_db_hash()


class Retail(RetailTools):
    """One conversation about a task of tau2, by its `id`. The tools are tau2's own.

    tau2's customer is a model. This one says what it wants, then what it knows, then
    how it wants that, and leaves.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(database().model_copy(deep=True))
        self._task = tasks()[task["id"]]
        about = self._task.user_scenario.instructions
        script = [about.reason_for_call, about.known_info, about.task_instructions]
        self._script = [text for text in script if text]
        self._heard: list[str] = []

    def rules(self) -> str:
        """Read the rules of the shop. Do so first."""
        return RETAIL_POLICY_PATH.read_text(encoding="utf-8")

    def reply(self, answer: str) -> str | None:
        """Return what the customer says next; None if nothing is left to say."""
        self._heard.append(answer)
        return next(iter(self._script[len(self._heard) - 1 :]), None)

    def reward(self) -> float:
        """1.0 for tau2's database after its own solution, and all that had to be said."""
        told = "\n".join(self._heard).lower().replace(",", "")
        facts = self._task.evaluation_criteria.communicate_info or []
        return float(
            self.get_db_hash() == solved(self._task.id)
            and all(fact.lower() in told for fact in facts)
        )

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[Any]:
        """tau2's own solution, between messages."""
        criteria = tasks()[task["id"]].evaluation_criteria
        calls = [(action.name, action.arguments) for action in criteria.actions]
        facts = ", ".join(criteria.communicate_info or [])
        return ["How can I help?", "Who are you?", *calls, f"Done. {facts}", "Goodbye."]
