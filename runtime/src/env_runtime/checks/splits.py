"""The files of a project's rows beside one another, and what shallow players earn in them."""

import asyncio
import importlib
import importlib.util
import inspect
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from itertools import islice
from pathlib import Path
from typing import Any

from ..command_line import counted
from ..episode.tasks import as_solution, on_task
from ..episode.types import Row, Solution, content_text
from ..errors import GateError, RolloutError
from ..evaluation.rows import messages_of, prompt_text, read, row_key, shown
from ..files import file_of
from ..project import of_class
from .attempts import FEWEST_ROWS, MOST, FlawCheck, without_log
from .rewards import Earned
from .runner import doing

Player = Callable[[Any], Any]

LEVELS = ("easy", "medium", "hard")

# Rows of a file that are compared, and those that players play
COMPARED, PLAYED = 20_000, 200
PLAYER_SECONDS = 20.0
HELD_OUT = ("validation", "benchmark", "test")  # files that share no row with train
SPLITS = ("example", "train", *HELD_OUT)  # other files may be no rows
# A number, a quoted text, or a name: words with a capital inside of a sentence
VALUES = re.compile(
    r"[\"'`“][^\"'`”\n]{1,200}[\"'`”]|-?\d[\d.,:/]*|(?<=[\w,;] )(?:[A-Z][\w'-]*\s?)+"
)


def players_of(domain_class: type) -> dict[str, Player]:
    """An author's own shallow players, by their names.

    These are the functions of policies.py beside the class, and `shallow(task)` of the class.
    Each gets the task, and returns what oracle(task) returns. Raises GateError if policies.py
    cannot be imported.
    """
    own = getattr(domain_class, "shallow", None)
    players = {"shallow": own} if own else {}
    project = of_class(domain_class)
    package, _, _ = project.module.rpartition(".")
    name = f"{package}.policies" if package else f"{project.module}_policies"
    place = file_of(project.sources(), f"{package}.policies".lstrip("."))
    if place is None:
        return players
    try:
        if package:
            module = importlib.import_module(name)
        else:  # another module may be called `policies`
            spec = importlib.util.spec_from_file_location(name, place)
            assert spec and spec.loader
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    except Exception as error:
        raise GateError(f"{shown(place)}: {type(error).__name__}: {error}") from error
    return players | {
        key: value
        for key, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == name
        and not key.startswith("_")
    }


def unsolved(domain_class: type, names: Collection[str]) -> Callable[[Row], bool]:
    """A test whether no player of these names solves a row. Raises RolloutError."""
    players = players_of(domain_class) if names else {}
    if unknown := [name for name in names if name not in players]:
        there_are = ", ".join(players) or "none: write policies.py beside the class"
        raise RolloutError(f"no player {unknown[0]!r}; there are {there_are}")

    def keeps(row: Row) -> bool:
        return not any(
            rewards_of(domain_class, [row], name, players[name])[1] for name in names
        )

    return keeps


def rewards_of(
    domain_class: type, rows: list[Row], name: str, player: Player
) -> tuple[dict[int, float], set[int]]:
    """A player's rewards by the rows' numbers, and the rows that it solves.

    Raises RolloutError if it raises, or returns no calls.
    """
    check = FlawCheck(domain_class, rows, PLAYER_SECONDS, PLAYER_SECONDS)
    rewards: dict[int, float] = {}
    solved: set[int] = set()

    async def play(number: int) -> None:
        calls, answer = steps_of_player(domain_class, rows[number], name, player)
        _, rewards[number] = await check.played(rows[number], calls, answer)
        if check.full(rows[number], rewards[number]):
            solved.add(number)

    with without_log():
        asyncio.run(check.each(range(len(rows)), play, rows=True))
    return rewards, solved


def steps_of_player(
    domain_class: type, row: Row, name: str, player: Player
) -> Solution:
    """The calls and the answer of a player on a row. Raises RolloutError if they are none."""
    returned = on_task(domain_class, player, row, name)
    return as_solution(domain_class, returned or [], name)


def players_note(domain_class: type, path: Path, rows: list[Row]) -> tuple[str, Earned]:
    """Play the shallow players in each split. Returns notes, and their rewards in `rows`.

    `path` is the file of `rows`. Raises GateError.
    """
    note, earned = "", {}
    files = {path: rows} | {file: _rows(file, PLAYED) for file in _others(path)}
    for name, player in players_of(domain_class).items():
        doing(f"the player {name} plays")
        said = []
        for file, some in files.items():
            try:
                rewards, solved = rewards_of(domain_class, some, name, player)
            except (RolloutError, ValueError, TimeoutError) as error:
                problem = str(error) or "a call takes too long"
                note += f"\n{name} was not played in {shown(file)}: {problem}"
                continue
            if file == path:
                earned[name] = rewards
            levels: defaultdict[str, list[bool]] = defaultdict(list)
            for number in rewards:
                levels[some[number].get("difficulty", "")].append(number in solved)
            by = [
                f"{level} {sum(levels[level])} of {len(levels[level])}".strip()
                for level in dict.fromkeys([*LEVELS, *sorted(levels)])
                if levels[level]
            ]
            mean = sum(rewards.values()) / max(len(rewards), 1)
            said.append(f"{mean:.3g} in {shown(file)} (solves {', '.join(by)})")
        if said:
            note += f"\n{name} earns on average {'; '.join(said)}"
    return note, earned


def _others(path: Path) -> list[Path]:
    """The other splits in the folder of a file."""
    files = (path.with_name(f"{name}.jsonl") for name in SPLITS)
    return [file for file in files if file.is_file() and file.name != path.name]


def splits_beside(path: Path) -> list[Path]:
    """A file of rows, and the other splits in its folder."""
    return [path, *_others(path)]


def _rows(file: Path, count: int) -> list[Row]:
    """The rows among the first objects of a file."""
    first = islice(read(file), count)
    return [
        row for row in first if isinstance(row.get("responses_create_params"), dict)
    ]


def splits_note(domain_class: type, path: Path) -> str:
    """Compare the splits beside `path`. Returns notes.

    Raises GateError if two of them have the same row, or if one answer is right in most
    rows of a file.
    """
    files = [path, *_others(path)]
    if len(files) == 1:
        return ""
    rows = {file: _rows(file, COMPARED) for file in files}
    one_task = of_class(domain_class).table().one_task
    note = ""
    for file in files:
        try:
            note += _usual_answer(domain_class, file, rows[file], one_task)
        except (RolloutError, ValueError) as error:  # such as rows of an older class
            note += f"\n{shown(file)} is not compared: {error}"
    train = next((file for file in files if file.stem == "train"), None)
    held_out = [file for file in files if file.stem in HELD_OUT]
    for file in held_out if train else []:
        assert train
        note += compared(domain_class, train, rows[train], file, rows[file])
    return note


def compared(
    domain_class: type, train: Path, trained: list[Row], file: Path, rows: list[Row]
) -> str:
    """A note if most prompts of a file are those of train but for their values, else "".

    Raises GateError if a row is in both.
    """
    keys = {row_key(domain_class, row) for row in trained}
    same = [n for n, row in enumerate(rows) if row_key(domain_class, row) in keys]
    if same and not of_class(domain_class).table().one_task:
        raise GateError(
            f"{shown(file)}: {len(same)} of {counted(len(rows), 'row')} have the prompt and "
            f"the task of a row in {shown(train)}, such as row {same[0] + 1}: make_rows.py "
            "writes files that share none"
        )
    known = Counter(map(template_of, trained))
    own = [template_of(row) for row in rows]
    same = [n for n, template in enumerate(own) if template in known]
    if len(known) == 1 or len({*own}) == 1 or len(same) < len(own) / 2:
        return ""  # one prompt for all is that of a game
    if _sees_more(domain_class, [rows[n] for n in same]):
        return ""
    text = " ".join(prompt_text(rows[same[0]]).split())
    return (
        f"\n{len(same)} of {counted(len(own), 'prompt')} of {shown(file)} are prompts of "
        f"{shown(train)} but for numbers, names and quoted values, such as {text!r:.120}: "
        "if their tasks do not differ otherwise, they measure little that training has not seen"
    )


def _sees_more(domain_class: type, rows: list[Row]) -> bool:
    """Whether the policy sees more than the prompt before it decides, in most rows.

    It sees an observation, replies, or what the oracle's calls before the last one tell.
    """
    check = FlawCheck(domain_class, rows)
    own = check.declared
    if own.has_observation or own.replies or own.has_row_tools:
        return True
    some = rows[:PLAYED]
    last = 0 if own.ends_with_answer else 1
    try:
        looks = sum(len(check.oracle(row).calls) > last for row in some)
    except RolloutError:
        return False
    return looks > len(some) / 2


def template_of(row: Row) -> str:
    """A row's prompt with `_` for each number, name and quoted text."""
    texts = [content_text(message.get("content")) for message in messages_of(row)]
    return VALUES.sub("_", "\n".join(texts))


def _usual_answer(
    domain_class: type, file: Path, rows: list[Row], one_task: Any
) -> str:
    """A note if one answer is right in half of a file's rows; "" without any."""
    check = FlawCheck(domain_class, rows)
    right: Counter[str] = Counter()
    for number, row in enumerate(rows):
        if not check.clock.allows(number):
            break
        value = check.value(row)
        if value is None or len(check.oracle(row).calls) > 1:
            return ""
        right[value] += 1
    played = right.total()
    if one_task or played < FEWEST_ROWS:
        return ""
    [(value, count)] = right.most_common(1)
    said = (
        f"{shown(file)}: {value!r:.60} is right in {count} of {counted(played, 'row')}"
    )
    if count >= MOST * played and "constant" not in check.meant:
        raise GateError(
            f'{said}: let the right answers differ, or write `meant = ["constant"]` below '
            "[tool.environment] in pyproject.toml"
        )
    return f"\n{said}" if count >= played / 2 else ""
