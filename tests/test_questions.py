"""Questions: answers that they refuse, and their defaults."""

import pytest
import yaml

from projects import ROOT
from rendering import copier, render_project


def answers(project):
    recorded = yaml.safe_load((project / ".copier-answers.yml").read_text())
    return {key: value for key, value in recorded.items() if key[0] != "_"}


@pytest.mark.parametrize(
    ("question", "value", "message"),
    [
        ("env_name", "My Env", r'env_name must match ^[a-z][a-z0-9_]{0,39}$, got "My Env"'),
        ("env_name", "2048", 'env_name must match ^[a-z][a-z0-9_]{0,39}$, got "2048"'),
        ("env_name", "a" * 41, f'env_name must match ^[a-z][a-z0-9_]{{0,39}}$, got "{"a" * 41}"'),
        ("env_name", "", 'env_name must match ^[a-z][a-z0-9_]{0,39}$, got ""'),
        ("env_name", "while", 'env_name must not be a Python keyword, got "while"'),
        ("env_name", "nemo_gym", 'env_name must not be "nemo_gym"'),
        ("domain_module", "a-b", 'domain_module must be a Python module name in lower case, got "a-b"'),
        ("domain_module", "box.env", 'domain_module: there is no such module, got "box.env": there is no box/env.py and no box/env/__init__.py in '),
        ("domain_module", "box.while", 'domain_module must be a Python module name in lower case, got "box.while"'),
        ("domain_module", "quiz.py", 'domain_module is the name of a module, not of a file, got "quiz.py": answer "quiz"'),
        ("domain_module", "./src/quiz.py", 'not of a file, got "./src/quiz.py": answer "quiz"'),
        ("dependencies", "numpy ../shop", 'dependencies: "../shop" is not the folder of a package: '),
        ("dependencies", "numpy @file", 'dependencies: "@file" is neither a requirement such as gymnasium[toy-text]>=1 nor the path'),
        ("domain_module", "json", 'of Python\'s standard library, got "json"'),
        ("domain_module", "server", 'that the environment uses itself, got "server"'),
        ("domain_class", "wordle", 'domain_class must be a Python class name in PascalCase, got "wordle"'),
        ("domain_class", "None", 'domain_class must be a Python class name in PascalCase, got "None"'),
        ("domain_class", "BaseModel", 'that Python or server.py uses itself, got "BaseModel"'),
        ("description", "", 'description must not be empty, got ""'),
        ("description", "a\ufffeb", "description must be one line without control characters"),
        ("description", "a\u202eb", "description must be one line without control characters"),
        ("description", "two\nlines", "description must be one line without control characters"),
        ("space", "no-owner", 'space must be a Hugging Face Space as owner/name, or empty, got "no-owner"'),
        ("tools", "", "tools: no tool is named"),
        ("tools", "# only a comment", "tools: no tool is named"),
        ("tools", "a b()", "tools: 'a b()' is not a tool signature"),
        ("tools", "f(x: str", "tools: 'f(x: str' is not a tool signature"),
        ("tools", "while()", "the tool name 'while' is a Python keyword"),
        ("tools", "verify(x: int)", "the tool name 'verify' is a route of the server's own"),
        ("tools", "health", "the tool name 'health' is a route of the server's own"),
        ("tools", "stats()", "the tool name 'stats' is a route of the server's own"),
        ("tools", "guess, tools", "the tool name 'tools' is a route of the server's own"),
        ("tools", "livez(x: int)", "the tool name 'livez' is a route of the server's own"),
        ("tools", "reverify_mode()", "the tool name 'reverify_mode' is a route of the server's own"),
        ("tools", "close()", "the tool name 'close' belongs to the class's protocol"),
        ("tools", "_hidden()", "the tool name '_hidden' must be an ASCII identifier"),
        ("tools", "f(); f()", "the tool 'f' is listed twice"),
        ("tools", "reward()", "the tool name 'reward' belongs to the class's protocol"),
        ("tools", "f(x)", "the parameter 'x' of tool 'f' needs a type"),
        ("tools", "f(x: dict)", "the parameter 'x: dict' of tool 'f' is not"),
        ("tools", "f(x: list[dict])", "the parameter 'x: list[dict]' of tool 'f' is not"),
        ("tools", "f(x: int = 'a')", "the default 'a' of parameter 'x' of tool 'f' is not of the type int"),
        ("tools", "f(x: Literal['a'] = 'b')", "the default 'b' of parameter 'x'"),
        ("tools", "f(x: int = None)", "the default None of parameter 'x'"),
        ("tools", "f(x: int, x: int)", "the tool 'f' has a parameter twice"),
        ("tools", "f(self: int)", "the parameter name 'self' of tool 'f' is a name of Python's"),
        ("tools", "f(class: int)", "the parameter name 'class' of tool 'f' is a Python keyword"),
        ("max_turns", "0", "max_turns must be a positive integer, got 0"),
        ("domain_module", "nemo_gym", 'that the environment uses itself, got "nemo_gym"'),
        ("domain_module", "env_runtime", 'that the environment uses itself, got "env_runtime"'),
        ("tools", "guess(letter: str)", "'guess' is a tool of the game archetype with the parameters (word: str), not (letter)"),
        ("tools", "f()\x07", "control characters are not allowed"),
        ("models", "judge", 'models must be a list of names such as [judge], got "judge"'),
        ("models", {"judge": 1}, "models must be a list of names such as [judge], got {"),
        ("models", ["the judge"], 'models must be names that match ^[a-z][a-z0-9_]{0,39}$, got "the judge"'),
        ("models", [7], "models must be names that match ^[a-z][a-z0-9_]{0,39}$, got 7"),
        ("models", ["class"], 'models must not be Python keywords, got "class"'),
        ("models", ["task"], 'policy, self, shard, task, tool, got "task"'),
        ("archetype=mcp mcp_server", "", 'mcp_server must not be empty, got ""'),
        ("archetype=mcp tools", "read_graph, look at", 'tools: names of the MCP server\'s tools, such as \'create_issue, list_issues\', or nothing for all of them, got "look at"'),
        ("archetype=mcp siblings", ["ors"], "siblings: ors has the same tools in all rows, so only NeMo Gym plays an MCP server's tools"),
        ("models", ["judge", "judge"], 'models must be different, got ["judge", "judge"]'),
        ("domain_class=Counter tools=add domain_module", "counter", 'got "counter": there is no counter.py and no counter/__init__.py in '),
        ("tools=guess,add domain_module", "counter", ". Save your class with its tool add there first. To have a new class written instead, give the tool's signature, add()"),
        ("domain_module=counter domain_class", "Counter", '"Counter"; if it is a class of yours, save it first: there is no counter.py'),
    ],
)  # fmt: skip
def test_a_bad_answer_is_refused(template, tmp_path, question, value, message):
    destination = tmp_path / "my_env"
    *others, question = question.split()
    answers = dict(other.split("=") for other in others)
    with pytest.raises(ValueError) as error:
        render_project(template, destination, **answers, **{question: value})
    last = str(error.value).splitlines()[-1]
    assert last.startswith(f"Validation error for question '{question}'")
    assert message in last
    assert not destination.exists()


def test_names_without_a_class_of_ones_own_are_those_of_a_new_class(render):
    """The step after generation says that its tools are still to be written."""
    named = render(domain_module="counter", domain_class="Count")
    assert "class Count:" in (named / "counter.py").read_text()
    stub = render(tools="guess, add")
    assert "    def add(self) -> str:" in (stub / f"{stub.name}.py").read_text()
    asked = render(archetype="game", domain_module="counter", tools="add")
    assert "    def add(self) -> str:" in (asked / "counter.py").read_text()
    given = render(domain_module="counter", tools="add()")
    assert "    def add(self) -> str:" in (given / "counter.py").read_text()


def test_an_answer_without_a_question_is_refused(template, tmp_path):
    destination = tmp_path / "my_env"
    with pytest.raises(ValueError, match='no question is called "archtype"') as error:
        render_project(template, destination, archtype="vision")
    assert not destination.exists()
    listed = str(error.value).rpartition("the questions are ")[2].split(", ")
    copier_yml = yaml.safe_load((ROOT / "copier.yml").read_text())
    asked = [
        name
        for name, question in copier_yml.items()
        if name[0] != "_" and question.get("ask", question.get("when", True))
    ]
    assert sorted(listed) == sorted(asked)


@pytest.mark.parametrize(
    ("question", "value", "message"),
    [
        ("env_name", "2048", "Validation error for question 'env_name'"),
        ("archetype", "nothing", "Invalid choice for 'archetype'"),
        ("models", "[judge, a-b]", "Validation error for question 'models'"),
    ],
)
def test_a_refusal_ends_the_command_with_status_1(
    copy, tmp_path, question, value, message
):
    destination = tmp_path / "my_env"
    as_typed = question == "archetype"  # one process of its own is enough
    done = copy(destination, trust=as_typed, check=False, **{question: value})
    assert done.returncode == 1, done.stdout
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith(f"ValueError: {message}")
    assert not destination.exists()


@pytest.mark.parametrize("question", ["archetype", "nemo_gym_source"])
def test_a_choice_that_does_not_exist_is_refused(template, tmp_path, question):
    with pytest.raises(ValueError, match=f"Invalid choice for '{question}'"):
        render_project(template, tmp_path / "my_env", **{question: "nothing"})
    assert not (tmp_path / "my_env").exists()


@pytest.mark.parametrize(
    ("folder", "env_name", "domain_module", "domain_class"),
    [
        ("my_wordle", "my_wordle", "my_wordle", "MyWordle"),
        ("My Wordle-2", "my_wordle_2", "my_wordle_2", "MyWordle2"),
        ("2048", "env_2048", "env_2048", "Env2048"),
        ("while", "while_env", "while_env", "WhileEnv"),
        ("calendar", "calendar", "calendar_env", "Calendar"),
        ("exception", "exception", "exception", "ExceptionEnv"),
        ("日本", "env", "env", "Env"),
    ],
)
def test_names_come_from_the_folder(
    template, tmp_path, folder, env_name, domain_module, domain_class
):
    render_project(template, tmp_path / folder)
    recorded = answers(tmp_path / folder)
    assert recorded["env_name"] == env_name
    assert recorded["domain_module"] == domain_module
    assert recorded["domain_class"] == domain_class
    assert (tmp_path / folder / f"{domain_module}.py").is_file()


def test_the_current_folder_gives_the_name_too(template, tmp_path):
    here = tmp_path / "chess"
    here.mkdir()
    copier(here, "copy", "--skip-tasks", "--defaults", template, ".")
    assert answers(here)["env_name"] == "chess"


def test_every_answer_is_recorded(render):
    given = {
        "env_name": "my_env",
        "archetype": "sandbox",
        "description": "A sandbox.",
        "domain_module": "box",
        "domain_class": "Box",
        "tools": "run_command; hint()",
        "dependencies": "numpy>=2 gymnasium[toy-text]",
        "models": ["judge", "user"],
        "backend": "e2b",
        "dataset": "",
        "nemo_gym_source": "git",
        "max_turns": 7,
        "space": "me/box",
        "siblings": ["verifiers", "ors"],
    }
    recorded = {"wrapped": False, "class_file": "", "packaged": False, "own_files": []}
    assert answers(render(**given)) == given | recorded


def test_the_game_has_no_backend(render):
    assert "backend" not in answers(render())


def test_not_every_archetype_takes_a_dataset(template, tmp_path):
    options = ["--trust", "--defaults", "--skip-tasks", "--data=dataset=a.csv"]
    done = copier(tmp_path, "copy", *options, template, "made")
    assert done.returncode == 1
    assert "archetype=game takes no dataset, got a.csv; " in done.stdout
    assert not (tmp_path / "made").exists()


def test_where_a_dataset_is_is_recorded_and_a_judge_brings_its_model(render):
    given = {"archetype": "answer", "dataset": "a.csv", "grader": "judge"}
    recorded = answers(render(**given))
    assert recorded["dataset_place"].startswith("../")
    assert recorded["dataset_place"].endswith("/a.csv")
    assert (recorded["backend"], recorded["models"]) == ("judge", ["judge"])
    assert (
        answers(render(archetype="answer", dataset="/a.csv"))["dataset_place"]
        == "/a.csv"
    )
    usual = answers(render(archetype="answer"))
    assert (usual["dataset"], usual["models"]) == ("", [])
    assert "dataset_place" not in usual
