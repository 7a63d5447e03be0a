"""NeMo Gym's manifests, which say whether the class is deterministic."""

import re
from collections.abc import Iterator
from pathlib import Path

from .. import project
from ..project import GYM


def is_deterministic() -> bool:
    """Whether the class says that the same calls do the same. Raises GateError."""
    return getattr(project.load_class(), "deterministic", True)


def outdated_manifests() -> Iterator[tuple[Path, str]]:
    """Each manifest that says another thing than the class, and its text corrected."""
    # "seeded", NeMo Gym's third word, is for servers that a harness can seed anew.
    word = "unknown" if is_deterministic() else "stochastic"
    for path in GYM.glob("environments/*/manifest.yaml"):
        text = path.read_text(encoding="utf-8")
        line = r"(?m)^determinism: (?:unknown|stochastic)$"
        corrected = re.sub(line, f"determinism: {word}", text)
        if corrected != text:
            yield path, corrected
