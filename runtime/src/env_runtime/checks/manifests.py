"""The frameworks' manifests, which repeat what the class says about itself."""

import re
from collections.abc import Iterator
from pathlib import Path

from ..episode.tasks import is_deterministic, reward_range
from ..project import of_class


def outdated_manifests(domain_class: type) -> Iterator[tuple[Path, str]]:
    """Each manifest that contradicts the class, and its corrected text.

    Raises ToolError.
    """
    # "seeded", NeMo Gym's third word, is for servers that a harness can seed anew.
    word = "unknown" if is_deterministic(domain_class) else "stochastic"
    low, high = reward_range(domain_class)
    gym = of_class(domain_class).gym
    paths = [*gym.glob("environments/*/manifest.yaml"), *gym.glob("../openenv/*.yaml")]
    for path in paths:
        text = path.read_text(encoding="utf-8")
        line = r"(?m)^determinism: (?:unknown|stochastic)$"
        corrected = re.sub(line, f"determinism: {word}", text)
        line = r"(?m)^( +)range: \[ *([-+.e\d]+) *, *([-+.e\d]+) *\]$"
        written = re.search(line, text)
        if written and (float(written[2]), float(written[3])) != (low, high):
            corrected = re.sub(line, rf"\1range: [{low}, {high}]", corrected)
        if corrected != text:
            yield path, corrected
