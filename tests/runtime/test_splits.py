"""The files of a project's rows beside one another, shallow players, and nonsense that earns."""

import json
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from env_runtime import project
from env_runtime.checks.runner import run_gates
from env_runtime.checks.splits import compared
from env_runtime.errors import GateError
from env_runtime.evaluation.rows import row_key
from env_runtime.project import here
from env_runtime.rows import Example, from_dataset, load_rows, main

from .support import rollout_gate, rows_file

CITIES = ["quito", "lima", "oslo", "cairo", "delhi", "seoul", "rome", "bern"]


class Cities:
    """Name the city of the task."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self.city = task["city"]

    def reward(self, answer: str) -> float:
        return float(answer == self.city)

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        return task["city"]


class Sums(Cities):
    """Add two numbers: the sum is all that a task has."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.city = task["gold"]

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        return task["gold"]


class Short(Cities):
    @staticmethod
    def shallow(task: dict[str, Any]) -> str | None:
        """It knows only the short ones."""
        return task["city"] if len(task["city"]) == 4 else None


def rows_of(cities: Iterable[str], prompt: str = "Which city is number {n}?") -> list:
    return [
        {
            "responses_create_params": {"input": prompt.format(n=n, city=city)},
            "ground_truth": [{"city": city}],
            "difficulty": "easy" if len(city) == 4 else "hard",
        }
        for n, city in enumerate(cities)
    ]


@pytest.fixture
def play(gate, tmp_path) -> Callable[..., str]:
    """Runs the rollout gate over example rows, beside files of other rows."""

    def run(kind: type, **files: list[dict[str, Any]]) -> str:
        for name, rows in files.items():
            lines = "".join(f"{json.dumps(row)}\n" for row in rows)
            (tmp_path / f"{name}.jsonl").write_text(lines)
        return gate(rollout_gate, kind, *rows_of(CITIES))

    return run


def test_files_that_share_a_row_fail(play):
    more = rows_of([f"{city}ville" for city in CITIES])
    play(Cities, train=more[:6], validation=more[6:])
    with pytest.raises(
        GateError, match=r"validation\.jsonl: 2 of 4 rows have the prompt and the task"
    ):
        play(Cities, train=more[:6], validation=more[4:])


def test_a_row_is_the_same_however_its_prompt_is_written(play):
    """As text, as messages, or with parts; another image or tool makes another row."""
    [row] = rows_of(["turin"])

    def asking(content: Any, **params: Any) -> dict[str, Any]:
        prompt = [{"role": "user", "content": content}]
        return {**row, "responses_create_params": {"input": prompt, **params}}

    text = row["responses_create_params"]["input"]
    part = {"type": "input_text", "text": text}
    images = [{"type": "input_image", "image_url": f"data:{n}"} for n in range(2)]
    for same in (asking(text), asking([part]), {**row, "difficulty": "hard"}):
        with pytest.raises(GateError, match="1 of 1 row have the prompt and the task"):
            play(Cities, train=[row], validation=[same])
    play(Cities, train=[row], validation=[asking(text, instructions="Be brief.")])
    play(Cities, train=[asking([images[0]])], validation=[asking([images[1]])])
    kind = type("Rowed", (Cities,), {"call_row_tool": lambda self, name, given: ""})
    keys = {
        row_key(kind, asking(text, tools=[{"name": name}])) for name in ("a", "b", "c")
    }
    assert len(keys) == 3


def test_a_data_set_of_questions_with_few_answers_passes(
    tmp_path, monkeypatch, gate_client
):
    """make_rows.py writes its files, and every gate plays them."""
    client = gate_client(Sums)
    source = tmp_path / "sums.jsonl"
    lines = [
        json.dumps({"question": f"What is {a} + {b}?", "answer": f"#### {a + b}"})
        for a in range(8)
        for b in range(8)
    ]
    source.write_text("\n".join(lines))

    def example(record: dict[str, Any]) -> Example:
        gold = record["answer"].removeprefix("#### ")
        return Example(record["question"], {"gold": gold})

    data = tmp_path / "data"
    data.mkdir()
    options = ["--output", str(data)]
    assert from_dataset(example, str(source), 8, None, [*options, "--example"]) == 0
    assert from_dataset(example, str(source), 8, None, options) == 0
    for name, count in (("example", 8), ("train", 50), ("validation", 6)):
        assert len(load_rows(data / f"{name}.jsonl")) == count
        assert "the oracle earns 1.0" in rollout_gate(
            client, Sums, data / f"{name}.jsonl"
        )


def test_prompts_that_differ_in_their_values_are_counted(play):
    trained = rows_of(CITIES, "Where does Ann meet '{city}' at {n}:15?")
    trained += rows_of(["paris"], "Who lives in {city}?")
    others = rows_of(
        [f"{city}ville" for city in CITIES], "Where does Bob meet 'x' at {n}?"
    )
    others += rows_of(["nice"], "What is {city} known for?")
    note = play(Cities, train=trained, validation=others)
    assert re.search(
        r"8 of 9 prompts of \S*validation\.jsonl are prompts of \S*train\.jsonl but for "
        r"numbers, names and quoted values, such as \"Where does Bob meet 'x' at 0\?\"",
        note,
    )
    one_prompt = [rows_of([f"{city}{tail}" for city in CITIES]) for tail in "ab"]
    note = play(Cities, train=one_prompt[0], validation=one_prompt[1])
    assert "but for numbers" not in note


def test_an_answer_that_is_mostly_right_fails_its_file(play):
    usual = rows_of(["quito"] * 9 + CITIES[:2])
    with pytest.raises(
        GateError, match=r"train\.jsonl: 'quito' is right in 10 of 11 rows"
    ):
        play(Cities, train=usual)
    note = play(Cities, train=rows_of(["quito"] * 6 + CITIES[1:5]))
    assert re.search(r"train\.jsonl: 'quito' is right in 6 of 10 rows", note)


def test_shallow_players_are_measured_in_each_file(play):
    note = play(Short, train=rows_of(["nice", "turin"]))
    assert re.search(
        r"\nshallow earns on average 0\.5 in \S+ \(solves easy 4 of 4, hard 0 of 4\); "
        r"0\.5 in \S*train\.jsonl \(solves easy 1 of 1, hard 0 of 1\)\n",
        note,
    )
    assert "at most 0.5 on average (shallow, 8 rows)" in note
    assert re.search(r"and 1 on one row \(shallow, row \d of \S+/rows\.jsonl\)", note)


def test_players_may_stand_beside_the_class(play):
    place = here().sources() / "policies.py"
    place.write_text(
        "def always_rome(task):\n    return 'rome'\n\ndef _not_this(task): ...\n"
    )
    try:
        assert re.search(
            r"\nalways_rome earns on average 0\.125 .*solves ", play(Cities)
        )
        place.write_text("import nothing_of_this_name\n")
        with pytest.raises(GateError, match=r"policies\.py: ModuleNotFoundError"):
            play(Cities)
    finally:
        place.unlink()


class Lucky(Cities):
    """Nonsense contains a number, which one of the rows asks for."""

    def reward(self, answer: str) -> float:
        return float(answer == self.city or (self.city == "bern" and "31337" in answer))


class Looks(Cities):
    """Points for each look."""

    looks = 0

    def look(self, place: int) -> str:
        """Look somewhere."""
        self.looks += 1
        return f"{place} looks nice"

    def reward(self) -> float:  # ty: ignore[incompatible-method-override]
        return min(self.looks / 10, 1.0)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("look", {"place": n}) for n in range(10)]


def test_nonsense_may_solve_a_row_by_chance(play, gate):
    rows = rows_of([*CITIES, *(f"{city}ville" for city in CITIES)])
    note = gate(rollout_gate, Lucky, *rows)
    assert "\nby chance, nonsense earns in 1 row: " in note
    assert "row 8" in note
    with pytest.raises(GateError, match="the policy 'nonsense' earns 1.0, not 0.0"):
        gate(rollout_gate, Lucky, *rows[:8])


def test_what_earns_by_repetition_is_named(gate):
    rows = rows_of(CITIES)
    with pytest.raises(
        GateError,
        match=r"it is repetition that earns: look\(place=1\) earns 0\.1 once, and 0\.3 three",
    ):
        gate(rollout_gate, Looks, *rows)


def test_rows_that_a_shallow_player_solves_are_left_out(tmp_path, monkeypatch, capsys):
    """Over a generator, and over a dataset."""
    monkeypatch.setattr(project.Project, "load_class", lambda self: Short)
    monkeypatch.setitem(project.of_loaded, Short, here())

    def tasks(rng: random.Random) -> Iterable[Example]:
        return (Example(f"City {n}?", {"city": city}) for n, city in enumerate(CITIES))

    options = ["--train", "4", "--validation", "0", "--output", str(tmp_path)]
    options += ["--without-solved-by", "shallow"]
    assert main(tasks, 4, None, options) == 0
    written = load_rows(tmp_path / "train.jsonl")
    long = {"quito", "cairo", "delhi", "seoul"}
    assert {row["ground_truth"][0]["city"] for row in written} == long
    assert main(
        tasks, 4, None, [*options, "--without-solved-by", "nobody", "--overwrite"]
    )
    assert "no player 'nobody'; there are shallow" in capsys.readouterr().err
    source = tmp_path / "cities.jsonl"
    source.write_text("".join(f'{{"city": "{city}"}}\n' for city in CITIES))

    def example(record: dict[str, Any]) -> Example:
        return Example(f"Name {record['city'][:2]}...", {"city": record["city"]})

    options = [*options[2:4], *options[4:], "--overwrite"]
    assert from_dataset(example, str(source), 4, None, options) == 0
    written = load_rows(tmp_path / "train.jsonl")
    assert {row["ground_truth"][0]["city"] for row in written} == long
    assert "4 records left out: a shallow player solves it" in capsys.readouterr().out


def test_a_file_of_other_data_is_left_alone(play):
    """A dataset may lie beside the rows that are made of it."""
    assert "questions" not in play(Short, questions=[{"question": "?", "city": "oslo"}])


class Choosy(Short):
    def __init__(self, task: dict[str, Any]) -> None:
        if task["city"] == "atlantis":
            raise ValueError("nobody knows this city")
        super().__init__(task)


def test_rows_that_the_class_refuses_are_a_note(play):
    """They were made for an older class, say: those that the gate plays are fine."""
    note = play(Choosy, train=rows_of(["nice", "atlantis"]))
    assert re.search(
        r"\nshallow was not played in \S*train\.jsonl: nobody knows this city", note
    )
    keyless = [{**row, "ground_truth": [{"town": "x"}]} for row in rows_of(["nice"])]
    note = play(Short, train=keyless)
    assert re.search(
        r"\n\S*train\.jsonl is not compared: Short\.oracle\(task\) raised KeyError",
        note,
    )


def test_a_gate_that_looked_at_too_little_says_weak(
    gate_client, tmp_path, monkeypatch, capsys
):
    """It passes all the same."""
    monkeypatch.setattr(project.Project, "load_class", lambda self: Cities)
    monkeypatch.setitem(project.of_loaded, Cities, here())
    client = gate_client(Cities)
    for count, word in ((2, "WEAK"), (8, "PASS")):
        path = rows_file(tmp_path, *rows_of(CITIES[:count]))
        gates = {"rollout": lambda path=path: rollout_gate(client, Cities, path)}
        assert run_gates(gates, None, []) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(f"{word} rollout ")
        assert ("not for leak, crowd, " in printed) == (word == "WEAK")
        strict = int(word == "WEAK")
        assert run_gates(gates, None, ["--strict"]) == strict
        assert ("--strict: rollout looked" in capsys.readouterr().err) == bool(strict)
        assert run_gates(gates, None, ["--json", "--strict"]) == strict
        [result] = json.loads(capsys.readouterr().out)
        assert run_gates(gates, None, ["--json"]) == 0
        capsys.readouterr()
        assert (result["passed"], result["weak"]) == (True, word == "WEAK")


class Map(Cities):
    """The city stands on a map, and the prompts are alike."""

    def look(self) -> str:
        """Look at the map."""
        return f"It shows {self.city}."

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("look", {}), task["city"]]


class Seen(Cities):
    def observation(self) -> str:
        return f"The map shows {self.city}."


@pytest.mark.parametrize(
    ("kind", "counted"), [(Cities, True), (Map, False), (Seen, False)]
)
def test_prompts_are_not_compared_if_the_policy_sees_more(kind, counted):
    """Then they say little of how the tasks differ."""
    trained, others = (
        rows_of(names, f"Where does {who} meet '{{city}}' at {{n}}:15?")
        + rows_of(["paris"], "Who lives in {city}?")
        for who, names in (("Ann", CITIES), ("Bob", [f"{one}ville" for one in CITIES]))
    )
    others[-1]["ground_truth"] = [{"city": "nice"}]
    note = compared(kind, Path("train.jsonl"), trained, Path("b.jsonl"), others)
    assert ("are prompts of" in note) == counted
