"""Write into the class what only an installed Gymnasium knows about an environment.

    uv run python -m env_runtime.gymnasium [ID]

This writes the class's file anew down to the first method: the imports, Action, id,
render_mode, reward_range, and whether there is an oracle. The default is the class's own
id. The methods stay as they are. A class that shows frames needs an environment that
draws them. Then run:

    uv run python make_rows.py --example --overwrite
    uv run python gates.py --write-tools
"""

import ast
import inspect
import json
import math
import re
import sys
import time
from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Text,
    Tuple,
)

from ..command_line import exit_status, new_parser
from ..errors import GateError, one_line
from ..files import raised_at, write_atomically
from ..project import here
from . import GymnasiumEpisode

WIDTH = 88
RANDOM_EPISODES = 30
RANDOM_SECONDS = 20  # the last episode may end later

# The reward of each step, and whether the step ended the episode
Episode = list[tuple[float, bool]]

# The class's file down to its first method
START = '''"""{id} of Gymnasium as one class: an object plays one episode."""

{imports}
Action = {action}


class {name}({base}):
    """One episode. Its task may have a `seed`, and `options` for gymnasium.make()."""

    id = {id_text}
    tool = "{tool}"  # the method that takes an action
    render_mode = {render_mode}
{pixels}    max_steps = {max_steps}  # the episode is truncated after this many actions
    reward_range = {bounds}  # for a whole episode
{estimated}
'''
PIXELS = "    pixels = {}  # a larger frame is scaled down to this width and height\n"
ESTIMATED = "    reward_range_estimated = True  # remove this once it is right\n"


def main(arguments: list[str] | None = None) -> int:
    """Rewrite the class's file. Returns the exit status."""
    parser = new_parser(__doc__)
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

    Raises GateError if there is no such environment, or if no type can be written for
    its actions.
    """
    try:
        environment = gymnasium.make(name)
    except Exception as error:  # any package may raise anything
        problem = f"gymnasium.make({name!r}) failed: {_named(error)}."
        if isinstance(error, (gymnasium.error.UnregisteredEnv, ModuleNotFoundError)):
            problem += (
                " If another package has the environment, install it, and name the "
                "module that registers it before the id: minigrid:MiniGrid-Empty-5x5-v0"
            )
        raise GateError(problem) from error
    action, turns = action_type(environment), kind.max_steps
    mode = _render_mode(kind, environment, name)
    table, episodes = transitions(environment), []
    try:
        episodes = [] if table else list(_random_episodes(environment, turns))
    except Exception as error:
        raise GateError(f"{name}: random actions failed: {_named(error)}") from error
    bounds = reward_bounds(table, episodes, turns)
    frames = mode == "rgb_array"
    base = "TabularEpisode" if table else "GymnasiumEpisode"
    methods = _methods(text, kind)
    start = START.format(
        id=name,
        id_text=json.dumps(name),
        imports=_imports(action + methods, ["Observation"] * frames + [base]),
        action=action,
        name=kind.__name__,
        base=base,
        tool=kind.tool,
        render_mode=json.dumps(mode) if mode else "None",
        pixels=PIXELS.format(kind.pixels) if frames else "",
        max_steps=turns,
        bounds=bounds,
        estimated="" if table else ESTIMATED,
    )
    return start + methods, _notes(environment, episodes, turns, bounds, action)


def _imports(source: str, names: list[str]) -> str:
    """The imports of what `source` uses, and of `names` of env_runtime.gymnasium."""
    used = set(re.findall(r"\w+", source))
    typing = [n for n in ("Annotated", "Any", "Literal", "TypedDict") if n in used]
    ours = f"from env_runtime.gymnasium import {', '.join(sorted(names))}\n"
    field = "from pydantic import Field\n" if "Field" in used else ""
    return f"from typing import {', '.join(typing)}\n\n{ours}{field}"


def _methods(text: str, kind: type) -> str:
    """The source `text` of the module of a class, from the class's first method on."""
    [node] = (
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    first = next(one for one in node.body if isinstance(one, kinds))
    line = min(one.lineno for one in (first, *first.decorator_list))
    return "".join(text.splitlines(keepends=True)[line - 1 :])


def _notes(
    environment: Any,
    episodes: list[Episode],
    turns: int,
    bounds: tuple[float, float],
    action: str,
) -> list[str]:
    """Notes on what a person should check, because nothing here can know it."""
    notes = []
    if not action.startswith("Literal"):
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
        drawn, problem = None, _named(error)
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


def _named(error: Exception) -> str:
    """An error of a package on one line. Without a text, its place."""
    kind, text = type(error).__name__, one_line(error).rstrip(".")
    return f"{kind}: {text}" if text else f"{kind} in {raised_at(error) or 'Python'}"


def action_names(environment: Any) -> list[str]:
    """The names of a discrete environment's actions; empty if it has none.

    They come from `actions`, an enumeration or a list of its members, from
    get_action_meanings(), or from the list `- 0: Move left` in the documentation.
    """
    inner, space = environment.unwrapped, environment.action_space
    if not isinstance(space, Discrete) or space.start != 0:
        return []
    actions = getattr(inner, "actions", None)
    if isinstance(actions, type) and issubclass(actions, IntEnum):
        names = {each.value: each.name for each in actions}
    elif isinstance(actions, (list, tuple)) and all(
        isinstance(each, Enum) for each in actions or "-"
    ):
        names = {number: each.name for number, each in enumerate(actions)}
    elif hasattr(inner, "get_action_meanings"):
        names = dict(enumerate(inner.get_action_meanings()))
    else:
        text = (inspect.getdoc(type(inner)) or "").partition("Action Space")[2]
        text = text.partition("\n## ")[0]
        found = re.findall(r"^\s*[-*] (\d+): ([^(\n]+)", text, re.MULTILINE)
        names = {int(number): name for number, name in found}
    words = [_word(names.get(number, "")) for number in range(int(space.n))]
    return words if all(words) and len(set(words)) == len(words) else []


def _word(name: str) -> str:
    """A name as the policy writes it: `Don't accelerate` is `dont_accelerate`."""
    name = name.replace("'", "").lower()
    return "_".join(re.findall(r"[a-z0-9]+", name))


def action_type(environment: Any) -> str:
    """The type of an action as source code. Raises GateError if there is none."""
    if names := action_names(environment):
        return _joined("Literal", [json.dumps(name) for name in names])
    space, name = environment.action_space, environment.spec.id
    match space:
        case Dict():
            parts = {str(key): part for key, part in space.items()}
        case Tuple():
            parts = {f"action_{n}": part for n, part in enumerate(space.spaces)}
        case _:
            return _type(space, name, "Action = ")
    # Not as a class, which ruff would prefer: a key may be any text.
    note = "  # noqa: UP013" if all(map(str.isidentifier, parts)) else ""
    lines = [f"TypedDict({note}", '    "Action",', "    {"]
    for key, part in parts.items():
        start = f"        {json.dumps(key)}: "
        lines.append(f"{start}{_type(part, name, start)},")
    return "\n".join([*lines, "    },", ")"])


def _type(space: Any, name: str, start: str) -> str:
    """The type of an action that is no Dict or Tuple, in a line that begins `start`."""
    match space:
        case Discrete():
            return _bounded(int, space.start, space.start + space.n - 1)
        case MultiDiscrete():
            highest = (space.start + space.nvec).max() - 1
            item = _bounded(int, space.start.min(), highest)
        case Text():
            bounds = f"min_length={space.min_length}, max_length={space.max_length}"
            return _joined("Annotated", ["str", f"Field({bounds})"], start)
        case MultiBinary():
            item = "bool"
        case Box():
            kind = int if space.dtype.kind in "iu" else float
            item = _bounded(kind, space.low.min(), space.high.max())
        case _:
            raise GateError(
                f"{name} has the action space {space}, for which no type can be written: "
                "write step() by hand, in a class of your own"
            )
    count = math.prod(space.shape)
    length = f"Field(min_length={count}, max_length={count})"
    return _joined("Annotated", [f"list[{item}]", length], start)


def _bounded(kind: type[int] | type[float], low: Any, high: Any) -> str:
    """The type of a number. An infinite bound is none."""
    ends = [("ge", low), ("le", high)]
    bounds = [f"{name}={kind(end)}" for name, end in ends if math.isfinite(end)]
    fields = f", Field({', '.join(bounds)})"
    return f"Annotated[{kind.__name__}{fields}]" if bounds else kind.__name__


def _joined(name: str, parts: list[str], start: str = "Action = ") -> str:
    """`name[parts]` as ruff formats it after `start`, and before a comma if indented."""
    line = f"{name}[{', '.join(parts)}]"
    margin = " " * (len(start) - len(start.lstrip()))
    if len(f"{start}{line}") + bool(margin) <= WIDTH:
        return line
    inside = f"{margin}    {', '.join(parts)}"
    lines = [f"{margin}    {part}," for part in parts]
    lines = [inside] if len(inside) <= WIDTH else lines
    return "\n".join([f"{name}[", *lines, f"{margin}]"])


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


def transitions(environment: Any) -> dict[int, Any]:
    """The environment's table of transitions, `P`; empty if it has none."""
    table = getattr(environment.unwrapped, "P", None)
    return table if isinstance(table, dict) else {}


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
