"""The environments of examples/: generated, proved, and attacked."""

import base64
import json
import shutil
import sys
import textwrap
import zlib

import pytest
import yaml

from nights import nightly
from projects import ROOT, borrow_venv, load_module

EXAMPLES = ROOT / "examples"
NAMES = ["shop", "bugs", "shapes", "helpdesk"]


def rows_of(name):
    text = (EXAMPLES / name / "rows.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def tasks_of(name):
    return [row["ground_truth"][0] for row in rows_of(name)]


# ---------------------------------------------------------------------- generated


def test_an_example_is_answers_a_class_and_rows():
    folders = {path.name for path in EXAMPLES.glob("[!.]*") if path.is_dir()}
    assert folders == {*NAMES, "nemo_gym", "packages"}
    for name in NAMES:
        files = {path.name for path in (EXAMPLES / name).glob("[!_]*")}
        assert files == {"answers.yml", f"{name}.py", "rows.jsonl"}
        assert 6 <= len(rows_of(name)) <= 10
        for row in rows_of(name):
            assert "tools" not in row["responses_create_params"]


@pytest.mark.slow
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
@pytest.mark.parametrize("name", [NAMES[0], *map(nightly, NAMES[1:])])
def test_gates_and_tests_are_green(copy, generate, tmp_path, name):
    """As in examples/README.md, the rows exist before the environment does."""
    source, project = EXAMPLES / name, tmp_path / name
    (project / "nemo_gym/data").mkdir(parents=True)
    shutil.copy(source / f"{name}.py", project)
    shutil.copy(source / "rows.jsonl", project / "nemo_gym/data/example.jsonl")
    copy(project, f"--data-file={source / 'answers.yml'}")
    answers = yaml.safe_load((source / "answers.yml").read_text())
    recorded = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert answers.items() <= recorded.items()
    module = (project / f"{name}.py").read_bytes()
    assert module == (source / f"{name}.py").read_bytes()

    environment = borrow_venv(project, generate(archetype="game"))
    environment.run("gates.py", "import", "--write-tools")
    imported, _, smoke, rollout = environment.green()
    assert "not served" not in imported
    assert "error" not in smoke, "the oracle should call every tool"
    assert rollout.startswith(f"{len(rows_of(name))} rows: the oracle earns")


# ---------------------------------------------------------------------- attacked


@pytest.fixture
def example(monkeypatch):
    """Imports the module of an example."""
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def of(name):
        return load_module(EXAMPLES / name / f"{name}.py", name)

    return of


# Parameters of the constructor, after the task.
MODELS = {"helpdesk": ["user", "judge"]}


class StandIn:
    """A model that gives the answers of the class's stand_in()."""

    def __init__(self, domain_class, name):
        self.say, self.name = domain_class.stand_in, name

    def ask(self, prompt, choices=None, *, data=""):
        texts = [prompt] if isinstance(prompt, str) else [m["content"] for m in prompt]
        said = self.say(self.name, "\n\n".join([*texts, data]))
        assert choices is None or said in choices
        return said


@pytest.fixture
def play(example):
    """The reward of an episode with these calls. Errors that a policy reads are passed."""

    def earn(name, task, calls):
        domain_class = getattr(example(name), name.capitalize())
        models = {model: StandIn(domain_class, model) for model in MODELS.get(name, [])}
        episode = domain_class(task, **models)
        try:
            for tool, arguments in calls:
                try:
                    getattr(episode, tool)(**arguments)
                except ValueError:
                    continue
            return episode.reward()
        finally:
            getattr(episode, "close", lambda: None)()

    return earn


@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_earns_what_the_row_says(example, play, name):
    domain_class = getattr(example(name), name.capitalize())
    for row in rows_of(name):
        [task] = row["ground_truth"]
        earned = play(name, task, domain_class.oracle(task))
        assert earned == pytest.approx(row.get("oracle_reward", 1.0))


def test_an_answer_that_lists_everything_earns_nothing(example, play):
    columns = {
        "customers": ["id", "name", "city"],
        "products": ["id", "name", "price"],
        "orders": ["id", "day"],
        "items": ["order_id", "product_id", "count"],
    }
    shop = example("shop")
    for task in tasks_of("shop"):
        db = shop.Shop(task)._db
        lists = [[str(number) for number in range(200)]]
        for table, names in columns.items():
            for column in names:
                found = db.execute(f"SELECT DISTINCT {column} FROM {table}")
                lists.append([str(value) for (value,) in found])
        lists.append([value for values in lists for value in values])
        for values in lists:
            assert play("shop", task, [("answer", {"values": values})]) == 0.0


def test_partial_answers_earn_in_part(example, play):
    shop = example("shop")
    for row in rows_of("shop"):
        [task] = row["ground_truth"]
        [_, (_, answer)] = shop.Shop.oracle(task)
        values, worth = answer["values"], len(answer["values"]) + task.get("unknown", 0)

        def earn(values, task=task):
            return play("shop", task, [("answer", {"values": values})])

        for count in range(len(values)):
            assert earn(values[:count]) == pytest.approx(count / worth)
        wrong = [f"wrong {number}" for number in values]
        guessed = earn([*values, "a guess"])
        assert guessed == pytest.approx((len(values) - 1) / worth)
        assert guessed < row.get("oracle_reward", 1.0)
        assert earn([*values, *wrong]) == 0.0
        assert earn([*values, *values]) == 0.0


NESTED = ", ".join(
    f"t{n} AS (SELECT a.x FROM t{n - 1} a, t{n - 1} b)" for n in range(1, 24)
)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM orders",
        "UPDATE customers SET city = 'Rome'",
        "DROP TABLE items",
        "CREATE TEMP TABLE customers AS SELECT 1 AS id",
        "PRAGMA query_only = ON",
        "ATTACH 'stolen.db' AS stolen",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM orders",
        "SELECT length(zeroblob(1000000000))",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n",
        f"WITH t0 AS (SELECT 1 x), {NESTED} SELECT count(*) FROM t23",
        "SELECT " + ", ".join(["hex(randomblob(4900))"] * 800) + " FROM items",
        "SELECT count(*) FROM items a, items b, items c, items d",
        "nonsense",
    ],
)
def test_a_query_only_reads_and_ends(example, play, sql):
    shop = example("shop").Shop
    task = tasks_of("shop")[0]
    with pytest.raises(ValueError, match="the query failed: "):
        shop(task).query(sql)
    assert play("shop", task, [("query", {"sql": sql}), *shop.oracle(task)]) == 1.0


MODULES = {
    "nothing": "",
    "no Python": "def",
    "leaves early": "import os\nprint('OK', flush=True)\nos._exit(0)",
    "says yes to all": """
        class Yes(dict):
            __eq__ = lambda self, other: True
        FUNCTION = lambda *arguments: Yes()
    """,
    "prints what may be right": """
        import json
        json.dumps = lambda *arguments, **named: "[true]"
        FUNCTION = lambda *arguments: True
    """,
    "gives back its arguments": "FUNCTION = lambda *arguments: arguments[0]",
    "looks for the results": """
        import sys
        def FUNCTION(*arguments):
            frame = sys._getframe()
            while frame.f_back:
                frame = frame.f_back
            cases = frame.f_globals.get("cases") or frame.f_globals["calls"]
            return dict((str(case[0]), case[-1]) for case in cases)[str(arguments[0])]
    """,
    "never ends": "while True: pass",
}


@pytest.mark.parametrize("source", MODULES.values(), ids=MODULES)
def test_a_module_that_cheats_earns_nothing(play, monkeypatch, source):
    monkeypatch.setenv("SANDBOX_SECONDS", "1")
    for task in tasks_of("bugs")[:2]:
        module, _, function = task["function"].rpartition(".")
        text = textwrap.dedent(source).replace("FUNCTION", function)
        calls = [("write_file", {"path": f"{module}.py", "content": text})]
        assert play("bugs", task, [*calls, ("run_tests", {})]) == 0.0


def test_tests_that_a_policy_edits_are_not_graded(example, play):
    bugs = example("bugs").Bugs
    passing = (
        "import unittest\n\nclass T(unittest.TestCase):\n    def test(self): pass\n"
    )
    for task in tasks_of("bugs")[-2:]:
        module = f"{task['function'].split('.')[0]}.py"
        edited = [("write_file", {"path": f"test_{module}", "content": passing})]
        episode = bugs(task)
        assert "FAILED" in episode.run_tests()
        episode.write_file(**edited[0][1])
        assert "OK" in episode.run_tests()
        assert episode.reward() == 0.0
        episode.close()
        # What is left beside the module does not reach the grader, in either direction.
        for name in ("json.py", "importlib.py", "sitecustomize.py"):
            edited.append(
                ("write_file", {"path": name, "content": "print('[]'); 1 / 0"})
            )
        assert play("bugs", task, edited) == 0.0
        assert play("bugs", task, [*edited, *bugs.oracle(task)]) == 1.0
        nothing = ("write_file", {"path": module, "content": task["files"][module]})
        assert play("bugs", task, [*bugs.oracle(task), nothing]) == 0.0


def test_the_cases_of_a_bug_are_not_those_of_its_tests():
    """A module that knows what the tests expect, and nothing else, fails them."""
    for task in tasks_of("bugs"):
        tests = "".join(task["files"].values())
        name = task["function"].rpartition(".")[2]
        unseen = [
            arguments
            for arguments, _ in task["cases"]
            if f"{name}({json.dumps(arguments)[1:-1]})" not in tests
        ]
        assert len(unseen) >= 4


def test_clicks_all_over_the_canvas_earn_nothing(example, play):
    shapes = example("shapes")
    tasks = tasks_of("shapes")
    wide, high = range(0, shapes.WIDTH, 5), range(0, shapes.HEIGHT, 5)
    scan = [(x, y) for y in high for x in wide]
    for points in (scan, scan[::-1], sorted(scan)):
        calls = [("click", {"x": x, "y": y}) for x, y in points]
        for task in tasks:
            assert play("shapes", task, calls) == 0.0
    for x, y in shapes.CENTERS:  # always the same place
        calls = [("click", {"x": x, "y": y})]
        assert sum(play("shapes", task, calls) for task in tasks) <= len(tasks) / 4


def test_only_the_first_click_counts(example, play):
    shapes = example("shapes").Shapes
    for task in tasks_of("shapes"):
        right = shapes.oracle(task)
        episode = shapes(task)
        [wrong, *_] = [name for name in episode._centers if name != task["target"]]
        x, y = episode._centers[wrong]
        miss = ("click", {"x": x, "y": y})
        assert play("shapes", task, [miss, *right]) == 0.0
        assert play("shapes", task, [*right, miss]) == 1.0
        assert play("shapes", task, [("click", {"x": -1, "y": 999}), *right]) == 1.0


def test_the_canvas_shows_what_is_clicked(example):
    """The image is a PNG whose pixel at a shape's center has the shape's color."""
    shapes = example("shapes")
    for task in tasks_of("shapes"):
        episode = shapes.Shapes(task)
        data = base64.b64decode(episode.look().image.partition(",")[2])
        start = data.index(b"IDAT") + 4
        size = int.from_bytes(data[start - 8 : start - 4], "big")
        pixels = zlib.decompress(data[start : start + size])
        for name, (x, y) in episode._centers.items():
            place = y * (3 * shapes.WIDTH + 1) + 1 + 3 * x
            assert pixels[place : place + 3] == shapes.COLORS[name.split()[0]]


@pytest.fixture
def desk(play):
    """The reward of a row of the help desk, whose oracle's calls may be changed."""

    def earn(number, change=lambda calls: calls):
        task = tasks_of("helpdesk")[number]
        module = sys.modules.get("helpdesk") or load_module(
            EXAMPLES / "helpdesk/helpdesk.py", "helpdesk"
        )
        return play("helpdesk", task, change(module.Helpdesk.oracle(task)))

    return earn


def test_a_help_desk_that_says_nothing_or_closes_wrongly_earns_nothing(desk):
    """A guess must not pay by changing the wrong order, or all orders."""
    outcomes = ["done", "too late", "not allowed", "not the customer's", "passed on"]
    for number, task in enumerate(tasks_of("helpdesk")):
        silent = desk(number, lambda calls: [c for c in calls if c[0] != "talk"])
        assert silent == 0.0
        for outcome in outcomes:
            last = ("close_case", {"outcome": outcome})
            earned = desk(number, lambda calls, last=last: [*calls[:-1], last])
            assert earned == float(outcome == task["outcome"])
        for tool in ("cancel_order", "refund_order"):
            more = (tool, {"order": 24})
            assert desk(number, lambda calls, more=more: [more, *calls]) == 0.0


def test_a_case_that_is_closed_stays_as_it_is(desk):
    for number, task in enumerate(tasks_of("helpdesk")):
        late = desk(number, lambda calls: [*calls, ("cancel_order", {"order": 24})])
        assert late == 1.0
        first = desk(number, lambda calls: [calls[0], calls[-1], *calls[1:-1]])
        assert first == (0.0 if task["actions"] else 0.8)  # and no thanks


def test_the_tone_is_a_small_part_of_a_right_case(desk):
    def rude(calls):
        return [
            (tool, {"text": "Wait."} if tool == "talk" else given)
            for tool, given in calls
        ]

    assert desk(0, rude) == 0.8
    assert desk(0, lambda calls: [calls[0]] * 12 + calls) == 0.8  # all said before
    assert desk(0, lambda calls: [("talk", {"text": "x" * 601}), *calls]) == 1.0
