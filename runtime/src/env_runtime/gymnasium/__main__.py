"""Write into the class what only an installed Gymnasium knows about an environment.

    uv run python -m env_runtime.gymnasium [ID]

This writes the lines `id`, `render_mode` and `reward_range` of the class, and nothing else.
The default is the class's own id. A class that shows frames needs an environment that
draws them. Then run:

    uv run python make_rows.py --example --overwrite
    uv run python gates.py --write-tools
"""

import json
import math
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, Literal, get_origin

import gymnasium
import numpy as np

from ..command_line import exit_status, new_parser
from ..errors import GateError
from ..files import write_atomically
from ..project import here
from . import GymnasiumEpisode, action_type, make, named, transitions

RANDOM_EPISODES = 30
ESTIMATED = "    reward_range_estimated = True  # remove this once it is right"
RANDOM_SECONDS = 20  # the last episode may end later

# The reward of each step, and whether the step ended the episode
Episode = list[tuple[float, bool]]


def main(arguments: list[str] | None = None) -> int:
    """Write three lines of the class. Returns the exit status."""
    parser = new_parser(__doc__)
    parser.prog = "env_runtime.gymnasium"
    parser.add_argument("id", nargs="?", help="such as Taxi-v4 or package:Name-v0")
    options = parser.parse_args(arguments)

    def run() -> int:
        kind = here().load_class()
        path = here().root / f"{here().module}.py"
        if not issubclass(kind, GymnasiumEpisode):
            raise GateError(
                f"{path.name}: {kind.__name__} does not derive from GymnasiumEpisode of "
                "env_runtime.gymnasium, so it stays as it is. Generate another "
                "environment into an empty folder"
            )
        text, notes = with_environment(
            path.read_text(encoding="utf-8"), kind, options.id or kind.id
        )
        with write_atomically(path) as file:
            file.write(text.encode())
        for note in notes:
            print(f"{path.name}: {note}")
        return 0

    return exit_status("gymnasium", run)


def with_environment(
    text: str, kind: type[GymnasiumEpisode], name: str
) -> tuple[str, list[str]]:
    """The source `text` of a class for the environment `name`, and what to look at in it.

    Raises GateError if Gymnasium does not know it, if its actions have no type, or if the
    class says what type they have.
    """
    own = re.search(r"^Action = (Any)?", text, re.MULTILINE)
    if own and (own[1] or name != kind.id):
        raise GateError(
            f"{kind.__name__} has the Action of {kind.id}: write `from env_runtime.gymnasium "
            "import Action, GymnasiumEpisode` instead, and derive the class from that one"
        )
    environment = make(name)
    action, turns = action_type(environment), kind.max_steps
    mode = _render_mode(kind, environment, name)
    table, episodes = transitions(environment), []
    try:
        episodes = [] if table else list(_random_episodes(environment, turns))
    except Exception as error:
        raise GateError(f"{name}: random actions failed: {named(error)}") from error
    bounds = reward_bounds(table, episodes, turns)
    estimated = "" if table else f"\n{ESTIMATED}"
    facts = {
        "id": f"    id = {json.dumps(name)}",
        "render_mode": f"    render_mode = {json.dumps(mode) if mode else None}",
        "reward_range": f"    reward_range = {bounds}  # for a whole episode{estimated}",
    }
    head, start, body = text.partition(f"class {kind.__name__}(")
    body = body.replace(f"{ESTIMATED}\n", "", 1)
    for fact, line in facts.items():
        body, found = re.subn(
            rf"^    {fact} = .*", line, body, count=1, flags=re.MULTILINE
        )
        if not found:
            raise GateError(f"{kind.__name__} has no line `{fact} = ...`: add one")
    head = head.replace(f"{kind.id} of Gymnasium", f"{name} of Gymnasium", 1)
    return head + start + body, _notes(environment, episodes, turns, bounds, action)


def _notes(
    environment: Any,
    episodes: list[Episode],
    turns: int,
    bounds: tuple[float, float],
    action: Any,
) -> list[str]:
    """Notes on what a person should check, because nothing here can know it."""
    notes = []
    if get_origin(action) is not Literal:
        notes.append("actions have no names: say in make_rows.py what they mean")
    if not episodes:
        return notes
    returns = [sum(reward for reward, _ in episode) for episode in episodes]
    threshold = environment.spec.reward_threshold
    solved = ""
    if threshold is not None and threshold > bounds[1]:
        solved = f", but it counts as solved at {threshold:g}"
    notes.append(
        f"reward_range {bounds} is an estimate: random episodes earned "
        f"{min(returns):g} to {max(returns):g}{solved}. An episode that earns more or "
        "less gets no reward, so correct it"
    )
    limit = environment.spec.max_episode_steps or 0
    if limit > turns and not any(end for episode in episodes for _, end in episode):
        notes.append(
            f"no random episode ended within max_steps, {turns}, and the environment "
            f"allows {limit}. If a good policy needs them, generate into an empty folder "
            f"with -d max_turns={math.ceil(limit * 6 / 5)}"
        )
    return notes


def _render_mode(
    kind: type[GymnasiumEpisode], environment: Any, name: str
) -> str | None:
    """How the class shows the environment: as frames, if its render_mode says so.

    None if it shows no text. Raises GateError if it cannot draw frames.
    """
    modes = environment.metadata.get("render_modes") or []
    mode = "rgb_array" if kind.render_mode == "rgb_array" else "ansi"
    if mode == "ansi" and mode not in modes:
        return None
    try:
        drawing = gymnasium.make(name, render_mode=mode)
        drawing.reset(seed=0)
        drawn = drawing.render()
        drawing.close()
        problem = f"render() returned {type(drawn).__name__}"
    except Exception as error:  # noqa: BLE001 - any package may raise anything
        drawn, problem = None, named(error)
    if mode == "ansi":
        if isinstance(drawn, str):
            return mode
        print(f"{name} shows no text as ansi: {problem}. Its observation is shown")
        return None
    if isinstance(drawn, np.ndarray):
        if drawn.min() == drawn.max():
            print(f"{name}: the first frame has one color. Look at a row's picture")
        return mode
    raise GateError(
        f"{name} draws no frame as {mode}: {problem}. Its render modes: "
        f"{', '.join(modes) or 'none'}. To see text, generate with backend=text"
    )


def reward_bounds(
    table: dict[int, Any], episodes: list[Episode], turns: int
) -> tuple[float, float]:
    """The least and the most that an episode of `turns` steps may earn.

    They come from the table of transitions or, without one, from random episodes.
    """
    if table:
        outcomes = [
            (float(reward), bool(end))
            for moves in table.values()
            for results in moves.values()
            for _, _, reward, end in results
        ]
    else:
        outcomes = [step for episode in episodes for step in episode]
    going = [reward for reward, end in outcomes if not end] or [0.0]
    ending = [reward for reward, end in outcomes if end] or [0.0]
    least, most = math.floor(min(going)), math.ceil(max(going))
    low = min(least, 0.0) * (turns - 1) + min(*going, *ending, 0.0)
    high = max(most, 0.0) * (turns - 1) + max(*going, *ending, 0.0)
    if not table:
        low, high = float(math.floor(low)), float(math.ceil(high))
    return low, high if high > low else low + 1.0  # the prize may be hard to find


def _random_episodes(environment: Any, turns: int) -> Iterator[Episode]:
    """Episodes of random actions."""
    # Other seeds than the episodes', so that the actions are not what the seed hides.
    environment.action_space.seed(RANDOM_EPISODES)
    end = time.monotonic() + RANDOM_SECONDS
    for seed in range(RANDOM_EPISODES):
        if time.monotonic() > end:
            break
        environment.reset(seed=seed)
        episode: Episode = []
        for _ in range(turns):
            action = environment.action_space.sample()
            _, reward, terminated, truncated, _ = environment.step(action)
            episode.append((float(np.asarray(reward).item()), bool(terminated)))
            if terminated or truncated:
                break
        yield episode


if __name__ == "__main__":
    sys.exit(main())
