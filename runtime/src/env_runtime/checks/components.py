"""The components of the reward: the same names in each episode, and what each policy earns."""

from collections import defaultdict
from itertools import chain
from typing import Any

from ..episode.declaration import declared
from ..episode.types import COMPONENTS
from ..errors import GateError


class Components:
    """The components of the episodes that the gate has played."""

    def __init__(self, domain_class: type) -> None:
        self.declared = declared(domain_class)
        self._first: tuple[str, set[str]] | None = None  # an episode, and its names
        self._earned: dict[str, dict[str, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )

    def note(self, place: str, policy: str, verdict: dict[str, Any]) -> None:
        """Remember an episode's components.

        Raises GateError if a class with components() has others, or none, in this one.
        The server has checked their values.
        """
        if not self.declared.has_components:
            return
        episode = f"{place}, policy {policy!r}"
        parts = verdict.get("reward_components")
        if not parts:
            raise GateError(
                f"{episode}: the verdict has no reward_components: verify() of server.py "
                f"must return the reward as session.reward() does, because {COMPONENTS}() "
                "adds up to that"
            )
        before, names = self._first = self._first or (episode, set(parts))
        if differ := sorted(names ^ set(parts)):
            raise GateError(
                f"{self.declared.place}.{COMPONENTS}() has {', '.join(differ)} in one of "
                f"these episodes only: {before}; {episode}. Return every name in each "
                "episode, with 0.0 for what was not earned"
            )
        for name, value in parts.items():
            self._earned[name][policy].append(value)

    def line(self) -> str:
        """The gate's note on each component, on a line of its own; "" without any."""
        if not self._earned:
            return ""
        said, same = [], []
        for name, earned in self._earned.items():
            oracle = earned.pop("oracle", [])
            floor = max(max(values) for values in earned.values())
            ranged = _from_to(oracle) if oracle else "unknown"
            said.append(f"{name} {ranged} (floor {floor:g})")
            if oracle and {floor} == {*oracle, *chain(*earned.values())}:
                same.append(name)
        text = f"\ncomponents, as the oracle earns them: {', '.join(said)}"
        if same:
            text += (
                f"\n{' and '.join(same)}: every policy earns the same, and a trainer learns "
                "nothing from it"
            )
        return text


def _from_to(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
