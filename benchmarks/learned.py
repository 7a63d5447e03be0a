"""What the rollout gate says of twenty classes over public packages, and of public environments.

    uv pip install --target SITE sympy pint python-dateutil sqlglot num2words phonenumbers \\
        babel inflect jmespath roman isodate pyphen chess networkx semver python-stdnum \\
        rapidfuzz croniter holidays pycountry reasoning-gym "textarena[online]"
    PYTHONPATH=SITE uv run python benchmarks/learned.py [NAME]...

It prints the table of docs/internals/measured.md, with the seconds of this process's
processor, and on standard error what the search for flaws said. The exit status is 1 if
a class has a flaw. Rows are drawn without a thought about shortcuts, as a first draft has
them. Clocks that end a search early are stopped: a busy machine sees the same as a fast one.
"""

import random
import string
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples/packages")]

import runtime.rendered  # noqa: F401 - it makes a rendered game this process's project
from env_runtime import project
from env_runtime.checks import attempts
from env_runtime.episode.tools import tools_of
from env_runtime.errors import GateError
from env_runtime.probe import learned
from env_runtime.probe.search import find_flaws
from env_runtime.project import here
from mastermind import Mastermind

ROWS, SEARCHED, SECONDS = 200, 20, 1000.0
Task = dict[str, Any]
Made = Iterator[tuple[str, Task]]
KINDS: dict[str, tuple[type, Callable[[random.Random], Made]]] = {}


def kind(rows: Callable[[random.Random], Made]) -> Callable[[type], type]:
    """Lists a class with the function that makes its rows, as make_rows.py would."""

    def listed(one: type) -> type:
        KINDS[one.__name__] = one, rows
        return one

    return listed


class Answered:
    """The last message is the answer."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def reward(self, answer: str) -> float:
        return float(answer.strip() == self.oracle(self.task))

    @staticmethod
    def oracle(task: Task) -> Any:
        raise NotImplementedError


class Chosen:
    """A tool's first call is the answer."""

    def __init__(self, task: Task) -> None:
        self.task, self.chosen = task, None

    def choose(self, item: str) -> str:
        """Choose an item. Only the first choice counts."""
        if self.chosen is None:
            self.chosen = item
        return "noted"

    def reward(self) -> float:
        return float(self.chosen == self.right(self.task))

    @staticmethod
    def right(task: Task) -> str:
        raise NotImplementedError

    @classmethod
    def oracle(cls, task: Task) -> Any:
        return [("choose", {"item": cls.right(task)})]


# ------------------------------------------------------------------ answers


def functions(rng: random.Random) -> Made:
    while True:
        powers = rng.sample(range(1, 7), 3)
        text = " + ".join(f"{rng.randint(2, 9)}*x**{n}" for n in powers)
        yield f"Differentiate {text} with respect to x.", {"f": text}


@kind(functions)
class Sympy(Answered):
    def reward(self, answer: str) -> float:
        import sympy

        if len(answer) > 100 or not set(answer) <= set("0123456789x*+- "):
            return 0.0
        try:
            difference = sympy.sympify(answer) - sympy.sympify(self.oracle(self.task))
        except (sympy.SympifyError, SyntaxError, TypeError):
            return 0.0
        return float(sympy.expand(difference) == 0)

    @staticmethod
    def oracle(task: Task) -> Any:
        import sympy

        return str(sympy.diff(sympy.sympify(task["f"]), "x"))


LENGTHS = {"mile": 1, "yard": 1, "foot": 1, "inch": 1, "nautical_mile": 1, "meter": 1}


def lengths(rng: random.Random) -> Made:
    while True:
        unit, other = rng.sample([*LENGTHS], 2)
        value = rng.randint(2, 900)
        yield (
            f"How many {other}s are {value} {unit}s? To 4 significant digits.",
            {"value": value, "unit": unit, "other": other},
        )


@kind(lengths)
class Pint(Answered):
    registry: Any = None

    def reward(self, answer: str) -> float:
        try:
            said, right = float(answer), float(self.oracle(self.task))
        except ValueError:
            return 0.0
        return float(abs(said - right) <= 1e-3 * right)

    @staticmethod
    def oracle(task: Task) -> Any:
        import pint

        Pint.registry = Pint.registry or pint.UnitRegistry()
        one = Pint.registry.Quantity(task["value"], task["unit"])
        return f"{one.to(task['other']).magnitude:.4g}"


WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]


def rules(rng: random.Random) -> Made:
    while True:
        start = date(2020, 1, 1) + timedelta(rng.randrange(3000))
        rule = f"FREQ=WEEKLY;INTERVAL={rng.randint(1, 4)};BYDAY={rng.choice(WEEKDAYS)}"
        n = rng.randint(2, 9)
        yield (
            f"From {start} on, events repeat by {rule}. On which day is number {n}?",
            {"start": str(start), "rule": rule, "n": n},
        )


@kind(rules)
class Dateutil(Answered):
    @staticmethod
    def oracle(task: Task) -> Any:
        from dateutil.rrule import rrulestr

        rule = rrulestr(task["rule"], dtstart=datetime.fromisoformat(task["start"]))
        return str(rule[task["n"] - 1].date())


TABLES = ["orders", "customers", "items", "prices", "stock", "returns"]


def queries(rng: random.Random) -> Made:
    while True:
        a, b, c = rng.sample(TABLES, 3)
        text = f"select * from {a} join {b} using (id)"
        if rng.random() < 0.5:
            text += f" where id in (select id from {c})"
        if rng.random() < 0.4:
            text = f"with {a} as (select 1 as id) {text}"
        yield f"Which tables does this query read? {text}", {"query": text}


@kind(queries)
class Sqlglot(Answered):
    """The names of tables, with commas, in any order."""

    def reward(self, answer: str) -> float:
        said = [one.strip() for one in answer.split(",")]
        return float(sorted(said) == self.oracle(self.task).split(", "))

    @staticmethod
    def oracle(task: Task) -> Any:
        import sqlglot
        from sqlglot import exp

        tree = sqlglot.parse_one(task["query"])
        own = {one.alias for one in tree.find_all(exp.CTE)}
        return ", ".join(sorted({t.name for t in tree.find_all(exp.Table)} - own))


def numbers(rng: random.Random) -> Made:
    while True:
        n = rng.randint(1000, 999_999)
        yield f"Write {n} in words, in French.", {"n": n}


@kind(numbers)
class Num2words(Answered):
    @staticmethod
    def oracle(task: Task) -> Any:
        from num2words import num2words

        return num2words(task["n"], lang="fr")


REGIONS = {"DE": 30, "FR": 1, "GB": 20, "US": 212, "CH": 44, "JP": 3}


def phones(rng: random.Random) -> Made:
    while True:
        region = rng.choice([*REGIONS])
        local = f"{REGIONS[region]} {rng.randint(2_000_000, 9_999_999)}"
        trunk = "" if region == "US" else "0"
        task = {"number": f"{trunk}{local}", "region": region}
        yield f"Write the number {trunk}{local} ({region}) as E.164.", task


@kind(phones)
class Phonenumbers(Answered):
    @staticmethod
    def oracle(task: Task) -> Any:
        import phonenumbers

        found = phonenumbers.parse(task["number"], task["region"])
        return phonenumbers.format_number(found, phonenumbers.PhoneNumberFormat.E164)


def amounts(rng: random.Random) -> Made:
    while True:
        value, place = rng.randint(1000, 10**8) / 100, rng.choice(["de", "en", "sv"])
        yield (
            f"Write {value} as people of the locale {place} do.",
            {"value": value, "locale": place},
        )


@kind(amounts)
class Babel(Answered):
    @staticmethod
    def oracle(task: Task) -> Any:
        from babel.numbers import format_decimal

        return format_decimal(task["value"], locale=task["locale"])


NOUNS = [
    "box",
    "city",
    "knife",
    "mouse",
    "child",
    "leaf",
    "ox",
    "bus",
    "hero",
    "piano",
    "datum",
    "wolf",
    "tooth",
    "sheep",
]


def nouns(rng: random.Random) -> Made:
    while True:
        noun, count = rng.choice(NOUNS), rng.randint(0, 20)
        task = {"noun": noun, "count": count}
        yield f"Write the number {count} in words, and {noun} in the right form.", task


@kind(nouns)
class Inflect(Answered):
    engine: Any = None

    @staticmethod
    def oracle(task: Task) -> Any:
        import inflect

        own = Inflect.engine = Inflect.engine or inflect.engine()
        count = task["count"]
        return f"{own.number_to_words(count)} {own.plural(task['noun'], count)}"


def documents(rng: random.Random) -> Made:
    while True:
        people = [
            {"name": name, "age": rng.randint(18, 80), "team": rng.choice("ABC")}
            for name in rng.sample(["Ada", "Bob", "Eva", "Ian", "Kim", "Leo", "Mia"], 4)
        ]
        age = rng.randint(20, 70)
        query = f"[?age > `{age}`].name | sort(@) | join(', ', @)"
        if rng.random() < 0.4:
            query = f"[?team == '{rng.choice('ABC')}'].name | join(', ', @)"
        task = {"people": people, "query": query}
        yield f"What does the JMESPath query {query} find in {people}?", task


@kind(documents)
class Jmespath(Answered):
    @staticmethod
    def oracle(task: Task) -> Any:
        import jmespath

        return jmespath.search(task["query"], task["people"]) or "nobody"


def years(rng: random.Random) -> Made:
    while True:
        n = rng.randint(1, 3999)
        yield f"Write {n} as a Roman numeral.", {"n": n}


@kind(years)
class Roman(Answered):
    @staticmethod
    def oracle(task: Task) -> Any:
        import roman

        return roman.toRoman(task["n"])


def durations(rng: random.Random) -> Made:
    while True:
        texts = [
            f"P{rng.randint(0, 3)}DT{rng.randint(0, 23)}H{rng.randint(0, 59)}M"
            for _ in range(2)
        ]
        yield (
            f"How many minutes are {texts[0]} and {texts[1]} together?",
            {"texts": texts},
        )


@kind(durations)
class Isodate(Answered):
    @staticmethod
    def oracle(task: Task) -> Any:
        import isodate

        total = sum(map(isodate.parse_duration, task["texts"]), timedelta())
        return str(int(total.total_seconds()) // 60)


WORDS = [
    "information",
    "mathematics",
    "generosity",
    "particular",
    "organization",
    "electricity",
    "university",
]
WORDS += [
    "imagination",
    "temperature",
    "dictionary",
    "environment",
    "operation",
    "satellite",
    "television",
]


def words(rng: random.Random) -> Made:
    while True:
        word = rng.choice(WORDS)
        language = rng.choice(["en_US", "en_GB"])
        yield (
            f"Write {word} with all hyphens that {language} allows.",
            {"word": word, "language": language},
        )


@kind(words)
class Pyphen(Answered):
    @staticmethod
    def oracle(task: Task) -> Any:
        import pyphen

        return pyphen.Pyphen(lang=task["language"]).inserted(task["word"])


# ------------------------------------------------------------------ tools


def positions(rng: random.Random) -> Made:
    import chess

    while True:
        board = chess.Board()
        for _ in range(rng.randint(6, 40)):
            if moves := [*board.legal_moves]:
                board.push(rng.choice(moves))
        values = {
            move: board.piece_type_at(move.to_square) or 0
            for move in board.legal_moves
            if board.is_capture(move)
        }
        best = [move for move in values if values[move] == max(values.values())]
        if len(best) == 1 and len(values) > 1:
            yield (
                "Take the most valuable piece that you can take.",
                {
                    "fen": board.fen(),
                    "best": best[0].uci(),
                },
            )


@kind(positions)
class Chess:
    """A position, and one capture."""

    def __init__(self, task: Task) -> None:
        import chess

        self.task, self.made = task, ""
        self.board = chess.Board(task["fen"])

    def look(self) -> str:
        """See the board, and all legal moves."""
        return f"{self.board}\n{', '.join(m.uci() for m in self.board.legal_moves)}"

    def move(self, uci: str) -> str:
        """Make a move. Only the first one counts."""
        if not self.made:
            self.made = uci
        return "noted"

    def reward(self) -> float:
        return float(self.made == self.task["best"])

    @staticmethod
    def oracle(task: Task) -> Any:
        return [("look", {}), ("move", {"uci": task["best"]})]


def graphs(rng: random.Random) -> Made:
    import networkx

    while True:
        graph = networkx.gnp_random_graph(9, 0.3, seed=rng.randrange(10**6))
        names = dict(enumerate(rng.sample(string.ascii_uppercase, 9)))
        graph = networkx.relabel_nodes(graph, names)
        start, end = rng.sample([*graph], 2)
        if networkx.has_path(graph, start, end) and not graph.has_edge(start, end):
            task = {"edges": [*graph.edges], "start": start, "end": end}
            yield f"Find a shortest way from {start} to {end}.", task


@kind(graphs)
class Networkx:
    def __init__(self, task: Task) -> None:
        import networkx

        self.task, self.way = task, ""
        self.graph = networkx.Graph(map(tuple, task["edges"]))

    def neighbors(self, node: str) -> str:
        """The nodes beside a node."""
        if node not in self.graph:
            return "error: no such node"
        return ", ".join(sorted(self.graph[node]))

    def travel(self, way: str) -> str:
        """Travel, such as A-B-C. Only the first way counts."""
        self.way = self.way or way
        return "noted"

    def reward(self) -> float:
        import networkx

        nodes, task = self.way.split("-"), self.task
        shortest = len(networkx.shortest_path(self.graph, task["start"], task["end"]))
        is_way = networkx.is_path(self.graph, nodes) if len(nodes) < 20 else False
        ends = (nodes[0], nodes[-1]) == (task["start"], task["end"])
        return float(is_way and ends and len(nodes) == shortest)

    @staticmethod
    def oracle(task: Task) -> Any:
        import networkx

        graph = networkx.Graph(map(tuple, task["edges"]))
        way = networkx.shortest_path(graph, task["start"], task["end"])
        looks = [("neighbors", {"node": node}) for node in way[:-1]]
        return [*looks, ("travel", {"way": "-".join(way)})]


def releases(rng: random.Random) -> Made:
    while True:
        versions = {
            f"{rng.randint(0, 3)}.{rng.randint(0, 12)}.{rng.randint(0, 9)}"
            + rng.choice(["", "", "-rc.1"])
            for _ in range(8)
        }
        listed = rng.sample(sorted(versions), len(versions))
        limit = f"{rng.randint(1, 3)}.{rng.randint(0, 12)}.0"
        task = {"versions": listed, "limit": limit}
        if Semver.right(task) and "-" not in Semver.right(task):
            yield (
                f"Choose the highest version below {limit}, by semantic versioning.",
                task,
            )


@kind(releases)
class Semver(Chosen):
    def versions(self) -> str:
        """List all versions."""
        return "\n".join(self.task["versions"])

    @staticmethod
    def right(task: Task) -> str:
        import semver

        limit = semver.Version.parse(task["limit"])
        below = [v for v in map(semver.Version.parse, task["versions"]) if v < limit]
        return str(max(below, default=""))

    @staticmethod
    def oracle(task: Task) -> Any:
        return [("versions", {}), ("choose", {"item": Semver.right(task)})]


def isbns(rng: random.Random) -> Made:
    from stdnum import isbn

    while True:
        numbers = []
        for _ in range(5):
            body = f"978{rng.randrange(10**9):09}"
            digits = [d for d in "0123456789" if not isbn.is_valid(body + d)]
            numbers.append(body + rng.choice(digits))
        place = rng.randrange(5)
        body = numbers[place][:-1]
        numbers[place] = next(body + d for d in "0123456789" if isbn.is_valid(body + d))
        yield f"Choose the valid ISBN: {', '.join(numbers)}.", {"numbers": numbers}


@kind(isbns)
class Stdnum(Chosen):
    @staticmethod
    def right(task: Task) -> str:
        from stdnum import isbn

        return next(filter(isbn.is_valid, task["numbers"]))


def typos(rng: random.Random) -> Made:
    from rapidfuzz.distance import Levenshtein

    while True:
        word = rng.choice(WORDS)
        typed = [*word]
        for _ in range(2):
            typed[rng.randrange(len(typed))] = rng.choice(string.ascii_lowercase)
        others = []
        while len(others) < 5:
            other = [*word]
            for _ in range(rng.randint(2, 4)):
                other[rng.randrange(len(other))] = rng.choice(string.ascii_lowercase)
            others.append("".join(other))
        text = "".join(typed)
        distances = sorted(Levenshtein.distance(text, one) for one in others)
        if len({*others}) == 5 and distances[0] < distances[1]:
            task = {"typed": text, "others": others}
            yield f"Choose what is nearest to {text} by edit distance.", task


@kind(typos)
class Rapidfuzz(Chosen):
    def list_items(self) -> str:
        """List all items."""
        return "\n".join(self.task["others"])

    @staticmethod
    def right(task: Task) -> str:
        from rapidfuzz.distance import Levenshtein

        typed = task["typed"]
        return min(task["others"], key=lambda one: Levenshtein.distance(typed, one))

    @staticmethod
    def oracle(task: Task) -> Any:
        return [("list_items", {}), ("choose", {"item": Rapidfuzz.right(task)})]


def schedules(rng: random.Random) -> Made:
    while True:
        jobs = {
            name: f"{rng.randrange(60)} {rng.randrange(24)} * * {rng.randrange(7)}"
            for name in rng.sample(["backup", "mail", "index", "report", "sync"], 4)
        }
        now = datetime(2026, 1, 1) + timedelta(minutes=rng.randrange(500_000))
        task = {"jobs": jobs, "now": str(now)}
        yield f"It is {now}. Choose the job that runs next.", task


@kind(schedules)
class Croniter(Chosen):
    def crontab(self) -> str:
        """See all jobs."""
        return "\n".join(f"{line} {name}" for name, line in self.task["jobs"].items())

    @staticmethod
    def right(task: Task) -> str:
        from croniter import croniter

        now = datetime.fromisoformat(task["now"])
        jobs = task["jobs"]
        return min(jobs, key=lambda job: croniter(jobs[job], now).get_next())

    @staticmethod
    def oracle(task: Task) -> Any:
        return [("crontab", {}), ("choose", {"item": Croniter.right(task)})]


def trips(rng: random.Random) -> Made:
    while True:
        days = [str(date(2025, 1, 1) + timedelta(rng.randrange(365))) for _ in range(3)]
        task = {"days": days, "land": rng.choice(["DE", "FR", "IT", "ES", "PL"])}
        task["days"].insert(rng.randrange(4), Holidays.a_holiday(rng, task["land"]))
        if sum(day in Holidays.of(task["land"]) for day in task["days"]) == 1:
            yield f"Choose the public holiday of {task['land']}.", task


@kind(trips)
class Holidays(Chosen):
    @staticmethod
    def of(land: str) -> Any:
        import holidays

        return holidays.country_holidays(land, years=2025)

    @staticmethod
    def a_holiday(rng: random.Random, land: str) -> str:
        return str(rng.choice(sorted(Holidays.of(land))))

    def days(self) -> str:
        """List the days."""
        return "\n".join(self.task["days"])

    @staticmethod
    def right(task: Task) -> str:
        return next(day for day in task["days"] if day in Holidays.of(task["land"]))

    @staticmethod
    def oracle(task: Task) -> Any:
        return [("days", {}), ("choose", {"item": Holidays.right(task)})]


def countries(rng: random.Random) -> Made:
    import pycountry

    listed = [*pycountry.countries]
    while True:
        some = rng.sample(listed, 6)
        task = {"codes": [one.alpha_3 for one in some], "right": some[0].alpha_3}
        rng.shuffle(task["codes"])
        yield f"Choose the ISO 3166 code of {some[0].name}.", task


@kind(countries)
class Pycountry(Chosen):
    def codes(self) -> str:
        """List codes."""
        return ", ".join(self.task["codes"])

    @staticmethod
    def right(task: Task) -> str:
        return task["right"]

    @staticmethod
    def oracle(task: Task) -> Any:
        return [("codes", {}), ("choose", {"item": task["right"]})]


# ------------------------------------------------------------------ public environments


def of_reasoning_gym(name: str) -> None:
    """A dataset of reasoning-gym, graded as its authors do: partial credit for a wrong answer."""

    def rows(rng: random.Random) -> Made:
        import reasoning_gym

        dataset = reasoning_gym.create_dataset(name, seed=rng.randrange(99), size=ROWS)
        for entry in dataset:
            # What its grade needs beside the answer can be made again from the seed.
            metadata = {"answer": entry["answer"], "dataset": name}
            yield entry["question"], metadata | {"entry": entry}

    class ReasoningGym:
        def __init__(self, task: Task) -> None:
            self.entry = task["entry"]

        def reward(self, answer: str) -> float:
            import reasoning_gym

            score = reasoning_gym.get_score_answer_fn(name)
            return float(score(answer=answer, entry=self.entry))

        @staticmethod
        def oracle(task: Task) -> Any:
            return task["answer"]

    KINDS[f"reasoning-gym {name}"] = ReasoningGym, rows


for dataset in ("leg_counting", "calendar_arithmetic", "shortest_path"):
    of_reasoning_gym(dataset)


def seeds(prompt: str) -> Callable[[random.Random], Made]:
    """Rows of an environment that draws its episode from a seed."""

    def rows(rng: random.Random) -> Made:
        while True:
            yield prompt, {"seed": rng.randrange(10**6)}

    return rows


kind(seeds("Find the code of four different digits from 1 to 6."))(Mastermind)


# ------------------------------------------------------------------ the table


def look(name: str) -> bool:
    """Print a class's line of the table. Returns whether it has no flaw."""
    domain_class, made = KINDS[name]
    rng = random.Random(0)
    rows = []
    for prompt, task in made(rng):
        if hasattr(domain_class, "observation"):
            prompt += f"\n\n{domain_class(task).observation()}"
        rows.append(
            {"responses_create_params": {"input": prompt}, "ground_truth": [task]}
        )
        if len(rows) == ROWS:
            break
    project.of_loaded[domain_class] = here()
    project.Project.served_tools = lambda self: [*tools_of(domain_class)]
    started, notes = time.process_time(), ""
    try:
        notes = find_flaws(domain_class, rows[:SEARCHED], 4.0, SECONDS).text
        flaw = ""
    except GateError as error:
        flaw = str(error)
    between = time.process_time()
    found = learned.shortcuts_of(domain_class, rows, {})
    ended = time.process_time()
    figures = found.figures
    low, high = figures.get("interval", (0, 0))
    mean = f"{figures.get('mean', 0):.3g} ({low:.2g} to {high:.2g})"
    rule = figures.get("rule", "")
    said = [rule] if rule and rule in found.text else []
    said = "; ".join([*said, *figures.get("tells", [])]) or "nothing"
    said += " (WEAK)" if found.weak else ""
    seconds = f"{between - started:.1f} | {ended - between:.1f}"
    print(f"| {name} | {len(rows)} | {seconds} | {mean} | {said} |", flush=True)
    print(f"    {flaw or notes}", file=sys.stderr, flush=True)
    return not flaw


if __name__ == "__main__":
    learned.SECONDS = learned.LONGEST = attempts.CALL_SECONDS = SECONDS
    print(
        "| class | rows | s of the search | s of learning | mean | said |\n| "
        + "--- | " * 6
    )
    honest = [look(name) for name in sys.argv[1:] or KINDS]
    sys.exit(not all(honest))
