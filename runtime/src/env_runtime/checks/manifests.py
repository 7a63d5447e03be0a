"""The files of frameworks that repeat what the class says about itself."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

from ..episode.declaration import declared
from ..project import of_class
from ..settings import Limits

_DETERMINISM = r"(?m)^(determinism: )(unknown|stochastic)$"
_RANGE = r"(?m)^( +range: )\[ *([-+.e\d]+) *, *([-+.e\d]+) *\]$"
_SECONDS = r"(?m)^(request_timeout = |    episode_timeout_s: )([.\d]+)"


def outdated_manifests(domain_class: type) -> Iterator[tuple[Path, str, str]]:
    """Each file that contradicts the class, what is wrong, and its corrected text.

    Raises ToolError and SettingError.
    """
    # "seeded", NeMo Gym's third word, is for servers that a harness can seed anew.
    repeats = declared(domain_class).deterministic
    word = "unknown" if repeats else "stochastic"
    low, high = declared(domain_class).reward_range
    longest = declared(domain_class).longest_call(Limits.read().tool_seconds)
    gym = of_class(domain_class).gym
    paths = [*gym.glob("environments/*/manifest.yaml"), *gym.glob("../openenv/*.yaml")]
    for path in [*paths, *gym.glob("configs/*_eval.toml")]:
        text, problems = path.read_text(encoding="utf-8"), []
        found = re.search(_DETERMINISM, text)
        if found and found[2] != word:
            negated = "" if repeats else "not "
            problems.append(f"does not say that the class is {negated}deterministic")
            text = re.sub(_DETERMINISM, rf"\g<1>{word}", text)
        found = re.search(_RANGE, text)
        if found and (float(found[2]), float(found[3])) != (low, high):
            right = f"[{low}, {high}]"
            problems.append(f"does not have the class's reward_range, `range: {right}`")
            text = re.sub(_RANGE, rf"\g<1>{right}", text)
        found = re.search(_SECONDS, text)
        if found and float(found[2]) < longest:
            problems.append(f"waits {found[2]} s, but a call may take {longest:g} s")
            # Half as much again, for the way to the server and back
            text = re.sub(_SECONDS, rf"\g<1>{math.ceil(1.5 * longest)}", text)
        if problems:
            yield path, problems[0], text
