"""Episodes of Gymnasium: what the class of archetype `gymnasium` derives from.

    class Taxi(GymnasiumEpisode):
        id = "Taxi-v4"
        render_mode = "ansi"
        reward_range = (-500.0, 20.0)

        def step(self, action: Action) -> str:
            "Take one action, and see what follows."
            reward = self.take(action)
            return f"{self.observation()} Reward: {reward:g}"

`python -m env_runtime.gymnasium ID` writes the id, the render_mode and the reward_range of
another environment into such a class.
"""

import base64
import functools
import inspect
import io
import json
import math
import os
import re
import sys
from enum import Enum, IntEnum
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
)

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
from pydantic import Field

from ..errors import GateError, one_line
from ..files import raised_at

__all__ = [
    "Action",
    "Facts",
    "GymnasiumEpisode",
    "Observation",
    "TabularEpisode",
    "facts_of",
    "rules",
]

# Brackets replace a terminal's colors: (blue), <magenta>, and [highlighted].
COLORED = re.compile(r"\x1b\[([\d;]*)m([^\x1b]*)\x1b\[0m")
BRACKETS = {"34;1": "()", "35": "<>"}
# The meaning of those brackets, by the environment
LEGENDS = {
    "FrozenLake": "You are at the letter in [brackets].",
    "Taxi": "The passenger waits at (X) and wants to go to <X>. The taxi is at [X].",
}


# GymnasiumEpisode puts the type itself in its place.
Action = Annotated[Any, "of an action, which comes from the environment's action space"]


class Observation(NamedTuple):
    """A text, and a picture as a data: URL."""

    output: str
    image: str


class GymnasiumEpisode:
    """One episode of the environment `id`.

    A task may have the `seed`, and `options` for gymnasium.make(). Its `id` must be the
    class's. A subclass has the tool: it calls `take`, asks `done`, and answers with
    `observation()`, or with an Observation that has the `picture`. If its `action` is an
    Action, the class gets the type of the action space, and an oracle if the environment
    has a table of transitions, `P`.
    """

    id: ClassVar[str]
    tool: ClassVar[str] = "step"  # the method that takes an action
    # "ansi" shows text, "rgb_array" frames, and None the observation
    render_mode: ClassVar[str | None] = None
    # A larger frame is scaled down to this width and height.
    pixels: ClassVar[int] = 256
    max_steps: ClassVar[int] = 50  # the episode is truncated after this many actions
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)  # for a whole episode
    oracle: ClassVar[Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        hints = getattr(vars(cls).get(cls.tool), "__annotations__", {})
        if hints.get("action") in (Action, "Action"):
            environment = make(cls.id)
            hints["action"] = action_type(environment)
            if transitions(environment) and not hasattr(cls, "oracle"):
                cls.oracle = vars(TabularEpisode)["oracle"]

    def __init__(self, task: dict[str, Any]) -> None:
        # gymnasium.make() would import the module in another id.
        if task.get("id", self.id) != self.id:
            raise ValueError(f"id must be {self.id}, got {task['id']!r}")
        limit = {"max_episode_steps": self.max_steps}
        options: dict[str, Any] = limit | task.get("options", {})
        if self.render_mode is not None:
            options["render_mode"] = self.render_mode
        if self.render_mode == "rgb_array":
            # Without this, pygame looks for a screen and complains.
            os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        self._env = gymnasium.make(self.id, **options)
        self._seen, _ = self._env.reset(seed=task.get("seed", 0))
        self._return = 0.0
        self.done = False  # whether the episode is over

    def observation(self) -> str | Observation:
        """The frame, the board or the observation that the policy sees.

        Observations other than text become JSON.
        """
        if self.render_mode == "rgb_array":
            return Observation("The first frame:", self.picture)
        if self.render_mode is None:
            seen = self._seen
            return seen if isinstance(seen, str) else json.dumps(seen, default=numbers)
        text = str(self._env.render())
        while COLORED.search(text):
            text = COLORED.sub(
                lambda found: found[2].join(BRACKETS.get(found[1], "[]")), text
            )
        return text.strip("\n")

    def reward(self) -> float:
        """The return. An episode that is not over earns the lowest reward."""
        return self._return if self.done else self.reward_range[0]

    def close(self) -> None:
        self._env.close()

    def take(self, action: Any) -> float:
        """Take one action, and return its reward. Nothing is drawn.

        Raises ValueError if the episode is over, or if the space lacks the action.
        """
        if self.done:
            raise ValueError("the episode is over")
        names, space = names_of(type(self)), self._env.action_space
        move = move_in(space, names.index(action) if action in names else action)
        if not space.contains(move):
            raise ValueError(f"action must be in {space}, got {action}")
        self._seen, gained, terminated, truncated, _ = self._env.step(move)
        self.done = bool(terminated or truncated)
        reward = float(np.asarray(gained).item())
        self._return += reward
        return reward

    @property
    def picture(self) -> str:
        """The frame that the environment draws now, as a data: URL."""
        from PIL import Image  # only backend=frames installs it

        picture, file = Image.fromarray(np.asarray(self._env.render())), io.BytesIO()
        picture.thumbnail((self.pixels, self.pixels))
        picture.save(file, "PNG")
        return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


class TabularEpisode(GymnasiumEpisode):
    """One episode of an environment that has a table of its transitions, `P`.

    Classes of earlier releases name it.
    """

    @classmethod
    def oracle(cls, task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The best actions, by value iteration over all transitions."""
        episode = cls(task)
        env: Any = episode._env.unwrapped
        table: dict[int, Any] = env.P
        values = dict.fromkeys(table, 0.0)

        def worth(outcomes: list[tuple[float, int, float, bool]]) -> float:
            return sum(
                p * (r + 0.99 * values[s] * (not end)) for p, s, r, end in outcomes
            )

        change = 1.0
        while change > 1e-6:
            new = {s: max(map(worth, moves.values())) for s, moves in table.items()}
            change = max(abs(new[s] - values[s]) for s in table)
            values.update(new)
        names, calls = names_of(cls), []
        while not episode.done:
            moves = table[int(env.s)]
            move = max(moves, key=lambda number: worth(moves[number]))
            action = names[move] if names else int(move)
            episode.take(action)
            calls.append((cls.tool, {"action": action}))
        episode.close()
        return calls


class Facts(NamedTuple):
    """The facts of a class about its environment. `action` is the type of an action."""

    id: str
    max_steps: int
    render_mode: str | None
    action: Any


def facts_of(kind: type) -> Facts:
    """The facts of a class. One from before 0.7 has them in its module."""
    if issubclass(kind, GymnasiumEpisode):
        hints = get_type_hints(getattr(kind, kind.tool), include_extras=True)
        return Facts(kind.id, kind.max_steps, kind.render_mode, hints["action"])
    module: Any = sys.modules[kind.__module__]
    return Facts(module.ID, module.MAX_STEPS, module.RENDER_MODE, module.Action)


@functools.cache
def names_of(kind: type) -> tuple[str, ...]:
    """The names of a class's actions, in the order of their numbers. () without names."""
    action = facts_of(kind).action
    return get_args(action) if get_origin(action) is Literal else ()


def rules(kind: type) -> str:
    """The rules of the environment for a prompt: the docstring of Gymnasium's class.

    Names of actions say what they do, numbers do not. So they need their description.
    """
    facts = facts_of(kind)
    environment = gymnasium.make(facts.id)
    # Not inspect.getdoc: a class without a docstring would get Gymnasium's own.
    text = inspect.cleandoc(type(environment.unwrapped).__doc__ or "")
    text = re.sub(r"```\s*@.*?```", "", text, flags=re.DOTALL)  # a reference
    about = section(text, "Description") or re.split(r"\nArgs:|\n## ", text)[0]
    meanings = "" if names_of(kind) else section(text, "Action Space")
    legend = [note for name, note in LEGENDS.items() if facts.id.startswith(name)]
    legend = legend if facts.render_mode == "ansi" else []
    parts = [f"You play {facts.id}.", about[:2000].strip(), meanings[:2000].strip()]
    return "\n\n".join(part for part in [*parts, *legend] if part)


def section(text: str, title: str) -> str:
    """The section of a docstring in Markdown that has this title, or ""."""
    found = re.search(rf"## {title}\s*(.*?)(?=\n\s*## |\Z)", text, re.DOTALL)
    return inspect.cleandoc(found[1]) if found else ""


def numbers(array: Any) -> Any:
    """An array of an observation as JSON has it."""
    array = np.asarray(array)
    whole = array.dtype.kind != "f"
    return array.tolist() if whole else np.round(array.astype(float), 4).tolist()


def move_in(space: Any, value: Any) -> Any:
    """An action as its space has it. A Box clips each number to its own bounds."""
    if isinstance(space, Dict):
        return {key: move_in(part, value[str(key)]) for key, part in space.items()}
    if isinstance(space, Tuple):
        parts = enumerate(space.spaces)
        return tuple(move_in(part, value[f"action_{n}"]) for n, part in parts)
    if isinstance(value, str):
        return value
    move = np.asarray(value, space.dtype).reshape(space.shape)[()]
    return np.clip(move, space.low, space.high) if isinstance(space, Box) else move


# ---------------------------------------------------------------- of an environment


def make(name: str) -> Any:
    """Make an environment. Raises GateError if Gymnasium does not know it."""
    try:
        return gymnasium.make(name)
    except Exception as error:  # any package may raise anything
        problem = f"gymnasium.make({name!r}) failed: {named(error)}."
        if isinstance(error, (gymnasium.error.UnregisteredEnv, ModuleNotFoundError)):
            problem += (
                " If another package has the environment, install it, and name the "
                "module that registers it before the id: minigrid:MiniGrid-Empty-5x5-v0"
            )
        raise GateError(problem) from error


def named(error: Exception) -> str:
    """An error of a package on one line. Without a text, its place."""
    kind, text = type(error).__name__, one_line(error).rstrip(".")
    return f"{kind}: {text}" if text else f"{kind} in {raised_at(error) or 'Python'}"


def transitions(environment: Any) -> dict[int, Any]:
    """The environment's table of transitions, `P`; empty if it has none."""
    table = getattr(environment.unwrapped, "P", None)
    return table if isinstance(table, dict) else {}


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


# For types that only the environment knows
_ANNOTATED: Any = Annotated
_LITERAL: Any = Literal
_TYPED_DICT: Any = TypedDict


def action_type(environment: Any) -> Any:
    """The type of an action. Raises GateError if there is none for its space."""
    if names := action_names(environment):
        return _LITERAL[tuple(names)]
    space, name = environment.action_space, environment.spec.id
    match space:
        case Dict():
            parts = {str(key): part for key, part in space.items()}
        case Tuple():
            parts = {f"action_{n}": part for n, part in enumerate(space.spaces)}
        case _:
            return _type(space, name)
    return _TYPED_DICT("Action", {key: _type(parts[key], name) for key in parts})


def _type(space: Any, name: str) -> Any:
    """The type of an action that is no Dict or Tuple."""
    match space:
        case Discrete():
            return _bounded(int, space.start, space.start + space.n - 1)
        case MultiDiscrete():
            highest = (space.start + space.nvec).max() - 1
            item = _bounded(int, space.start.min(), highest)
        case Text():
            return _sized(str, space.min_length, space.max_length)
        case MultiBinary():
            item = bool
        case Box():
            kind = int if space.dtype.kind in "iu" else float
            item = _bounded(kind, space.low.min(), space.high.max())
        case _:
            raise GateError(
                f"{name} has the action space {space}, for which no type can be written: "
                "write step() by hand, in a class of your own"
            )
    count = math.prod(space.shape)
    return _sized(list[item], count, count)


def _sized(kind: Any, least: int, most: int) -> Any:
    return _ANNOTATED[kind, Field(min_length=least, max_length=most)]


def _bounded(kind: type[int] | type[float], low: Any, high: Any) -> Any:
    """The type of a number. An infinite bound is none."""
    ends = [("ge", low), ("le", high)]
    bounds: Any = {name: kind(end) for name, end in ends if math.isfinite(end)}
    return _ANNOTATED[kind, Field(**bounds)] if bounds else kind
