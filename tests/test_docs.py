"""Every command and class of the documents does what it says.

The blocks marked `sh` are run in order, each as one script that stops at the first
command that fails:

- A document whose first lines say so is run in `nemo_gym/` of an environment `my_env`
  that was installed for real, beside its running server and a scripted model.
- README.md and examples/README.md are run in a clone of the template.
- The others are run in an empty folder. A class that a `copier copy` wraps is put there
  first, from the document's own Python block.

Sybil finds the blocks, and calls what runs them. gh:org/nemo-gym-template is a local clone. Copier is the one of these tests, and
`uv sync` in a new environment borrows the packages of the installed environment.
"""

import contextlib
import importlib
import os
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path
from typing import NamedTuple

import pytest
from sybil import Document, Example
from sybil.parsers.markdown import CodeBlockParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer
from sybil.typing import Evaluator

from nights import PAGES_BY_NIGHT, nightly
from projects import (
    COPIER,
    ROOT,
    RUNTIME,
    UV,
    Environment,
    clean_environment,
    git,
    printing,
)

DOCUMENTS = [
    "README.md",
    "examples/README.md",
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")),
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("skills/**/*.md")),
]
IN_A_CLONE = ["README.md", "examples/README.md"]
IN_A_PROJECT = "Commands are run in `nemo_gym/` of an environment"
# Its blocks have nothing to do with each other, and generate into the same folder.
UNRELATED_BLOCKS = [
    "README.md",
    "docs/frameworks.md",
    "docs/generating.md",
    "docs/start.md",
    "docs/your-own-class.md",
]

# Commands that are not run, by how they begin.
NOT_RUN = {
    "README.md": {
        "python3 -m pip install uv && python3 -m uv run pytest": "is these tests; .ci/run runs it",
    },
    "examples/README.md": {
        f"mkdir -p ../{name}": "as for `shop`; tests/test_examples.py generates it"
        for name in ("bugs", "shapes", "helpdesk")
    },
    "docs/from/repository.md": {
        "cd envs/counter": "tests/test_guests.py generates several environments",
        "uvx copier copy --trust --defaults -d domain_module=counter": "is of another package",
        "uv run --project envs/words/nemo_gym python -m env_runtime.shelf": "tests/runtime/test_shelf.py runs it",
        "cd envs/words/nemo_gym": "tests/runtime/test_imports.py runs these",
        "uv build --wheel --no-create-gitignore": "as above",
        "uv add --upgrade-package teamlib": "as above",
    },
    "docs/agents.md": {
        "cd nemo_gym": "is of any project",
        "uv run python gates.py rollout --under-gym --agent": "tests/test_gym_agents.py runs it",
        "uv run python -m env_runtime.under_gym --agent": "needs the agent, and a model",
    },
    "docs/frameworks.md": {
        "docker build ": "needs Docker",
        "uv run python -m env_runtime.harbor ": "tests/test_harbor.py runs it",
        "uvx harbor run ": "needs Docker",
        "cp .venv/lib/python3.13/site-packages/responses_api_agents/harbor_agent": "needs nemo-gym 0.7",
        'echo \'{"instance_id"': "is for the next ones",
        ".venv/bin/gym env start --config harbor.yaml": "needs Harbor, from GitHub, and Daytona",
        ".venv/bin/gym eval run --no-serve --agent harbor_agent": "as above",
        "uvx copier copy --trust --defaults -d domain_module=questions": "installs Inspect; tests/test_inspect.py runs the adapter",
        "uvx copier copy --trust --defaults -d 'siblings": "installs the frameworks; tests/test_siblings_installed.py runs it",
        "uvx copier update ": "tests/test_update.py runs it",
    },
    "docs/grading.md": {
        "uv run python -m env_runtime.under_gym --reverify": "tests/test_nemo_gym.py runs it",
    },
    "docs/models.md": {
        "uvx copier copy ": "tests/test_models.py generates such an environment",
        "uv run python rollout.py --policy labelled:": "needs labels; tests/runtime/test_rollout.py plays such a policy",
        "uv run python -c 'import collections": "counts what the command before it wrote",
        "uv run python -m env_runtime.under_gym --reverify": "tests/test_models.py runs it",
    },
    "skills/generate-nemo-gym-env/SKILL.md": {
        "uv run python gates.py rollout --under-gym": "takes a minute; tests/test_nemo_gym.py runs it",
        "uv run python -m env_runtime.under_gym --stand-in": "docs/running.md runs it",
        ".venv/bin/gym env start ": "docs/running.md runs it",
        ".venv/bin/ng_run ": "docs/running.md runs it",
        "unset UV_PYTHON": "is for the lines after it",
        "while kill -0": "waits for the line before it",
    },
    "docs/start.md": {
        "cd my_env/nemo_gym": "is of any project",
        "uv run python gates.py": "is of any project",
        "uv run pytest": "is of any project",
        "uvx copier copy --trust --defaults -d archetype=answer": "docs/from/dataset.md runs it",
        "uvx copier copy --trust --defaults -d archetype=mcp": "docs/from/mcp-server.md runs it",
        "uvx copier copy --trust --defaults -d archetype=gymnasium": "installs Gymnasium; tests/test_environments.py runs it",
        "uvx copier copy --trust --defaults -d domain_module=counter": "README.md runs it",
        "uvx copier copy --trust --defaults -d domain_module=mazes.search": "docs/from/repository.md runs it",
    },
    "docs/from/gymnasium.md": {
        "uvx copier copy ": "installs Gymnasium; tests/test_environments.py runs it",
    },
    "docs/generating.md": {
        "uvx copier update ": "needs a project of an earlier release; tests/test_update.py runs it",
        "git add ": "is for such a project",
        "uv sync --directory nemo_gym": "installs what the command before it built; needs a project",
    },
    "docs/scale.md": {
        "SHARDS=": "serves until it is stopped; tests/test_shards.py runs it",
        "SESSION_SECRET=": "is for the next one",
        "haproxy ": "needs HAProxy",
    },
    "docs/internals/measured.md": {
        "uv run gym eval submit ": "only on NeMo Gym 0.7; tests/test_shards.py runs it",
    },
    "docs/sandbox.md": {
        "docker ": "needs Docker",
        "SANDBOX_PROVIDER=": "needs its provider; tests/test_environments.py runs `local`",
        "SANDBOX_CONFIG=": "needs a cluster",
        "uv add 'nemo-gym[sandbox]'": "needs an account",
    },
    "docs/running.md": {
        **dict.fromkeys(
            [
                "uv run python -m env_runtime.variant hard",
                "uv run python gates.py --variant",
                "uv run python server.py --variant",
                "uv run python rollout.py --variant",
                "uv run python -m env_runtime.under_gym --variant",
                "uv run python -m env_runtime.prepare --variant",
            ],
            "needs a class with parameters; tests/test_nemo_gym.py runs these",
        ),
        "uv run python play.py": "serves until it is stopped; tests/test_play.py runs it",
        "uv run python gates.py rollout --under-gym": "takes a minute; tests/test_nemo_gym.py runs it",
        "uv run python -m env_runtime.under_gym --reverify": "tests/test_nemo_gym.py runs it",
        ".venv/bin/gym env validate ": "tests/test_nemo_gym.py runs it",
        ".venv/bin/gym env test my_env": "takes a minute; tests/test_nemo_gym.py runs it",
        **dict.fromkeys(
            ["unset UV_PYTHON", "uv run python -m env_runtime.under_gym --stand-in"]
            + [
                "while kill -0 ",
                "kill $servers",
                ".venv/bin/ng_",
                ".venv/bin/gym env start ",
            ]
            + [".venv/bin/gym eval run "],
            "are one script; tests/test_nemo_gym.py runs it",
        ),
        ".venv/bin/gym env test --resources-server ": "installs NeMo Gym once more; tests/test_nemo_gym.py runs it",
        ".venv/bin/gym env publish ": "needs a license; tests/test_nemo_gym.py runs it",
    },
    "docs/tasks-and-data.md": {
        "uv run python make_rows.py --without-solved-by": "tests/runtime/test_splits.py runs it",
        "uvx --from huggingface_hub": "needs the Hub",
    },
    "docs/tools.md": {
        "cd my_dots/nemo_gym && uv add": "installs Pillow, and all else once more",
    },
    "docs/training.md": {
        "uv run python make_rows.py": "tests/test_environments.py runs it",
        "uv run python -m env_runtime.package ": "downloads 400 MB; tests/test_package.py runs it",
        "nemo ": "needs a NeMo Helix",
        "uv run python -m env_runtime.prepare  ": "tests/test_nemo_gym.py runs it",
        "export NEMO_GYM_EXTRA_ROOTS=": "needs NeMo RL; tests/nemo_rl.py reads what it does",
        "uv run python examples/nemo_gym/run_grpo_nemo_gym.py ": "needs NeMo RL and GPUs",
        "export OPENAI_API_KEY=": "is for the next one",
        "uvx --from verifiers": "installs verifiers; tests/test_verifiers.py runs it",
        ".venv/bin/ng_run ": "needs vLLM; benchmarks/trainer_configs.py reads Axolotl's part",
    },
    "docs/deploying.md": {
        "docker ": "needs Docker",
        "uv run python -m env_runtime.deploy --space ": "needs a token of Hugging Face",
        "API_TOKEN=... ": "needs a Space",
    },
}

# Text of the documents, and the text that runs here instead.
PLACEHOLDERS = {
    "http://127.0.0.1:11000": "$ENV_URL",
    "http://localhost:8000/v1": "$OPENAI_BASE_URL",
    "/tmp/space": '"$TEMPORARY/space"',
    # These two ask their questions on a terminal.
    "copier copy --trust gh:": "copier copy --trust --defaults gh:",
    "copier copy --trust -d tools='guess; hint": "copier copy --trust --defaults -d tools='guess; hint",
}

# What a command of a document needs, and how to make it.
BEFORE = {
    "uv run python make_rows.py --example --overwrite           #": "cd number_env/nemo_gym",
    "uv run python -m env_runtime.prepare my_rows.jsonl --hold-out": "cp data/example.jsonl my_rows.jsonl",
    "uv run python -m env_runtime.prepare my_rows.jsonl --validation": (
        "head -n 12 data/example.jsonl > my_rows.jsonl\n"
        "tail -n 12 data/example.jsonl > my_other_rows.jsonl"
    ),
    "uv run python view.py results/before.jsonl": (
        "cp results/llm.jsonl results/before.jsonl\ncp results/llm.jsonl results/after.jsonl"
    ),
}

LANGUAGES = ["", "sh", "python", "py", "json", "toml", "yaml", "nginx"]


def parsed(document: str, language: str, evaluate: Evaluator | None = None) -> Document:
    """The blocks of a document in a language, which `evaluate` runs."""
    return Document.parse(str(ROOT / document), CodeBlockParser(language, evaluate))


def commands(script: str) -> list[str]:
    """The commands of a block: a line each, with what it continues on, or reads (<<)."""
    found: list[str] = []
    lines = iter(script.splitlines())
    for line in lines:
        command = line
        while command.endswith("\\"):
            command += "\n" + next(lines)
        if end := re.search(r"<<'(\w+)'", command):
            for text in lines:
                command += "\n" + text
                if text == end[1]:
                    break
        if line.strip() and not line.startswith("#"):
            found.append(command)
    return found


def begins(command: str, starts: list[str]) -> str:
    """Which of the starts a command has, if any."""
    return next((start for start in starts if command.startswith(start)), "")


def script_of(document: str, block: str) -> str:
    """The part of a block that is run, or an empty text."""
    script = ""
    for command in commands(block):
        if not begins(command, list(NOT_RUN.get(document, {}))):
            if before := BEFORE.get(begins(command, list(BEFORE))):
                script += before + "\n"
            for text, here in PLACEHOLDERS.items():
                command = command.replace(text, here)
            script += command + "\n"
    return script


# ---------------------------------------------------------------------- the tables


SHELL = {
    document: [block.parsed for block in parsed(document, "sh")]
    for document in DOCUMENTS
}
SHELL = {document: found for document, found in SHELL.items() if found}


def test_the_tables_name_what_is_there():
    """A command that is gone must not keep its exception."""
    known = {
        document: [command for block in found for command in commands(block)]
        for document, found in SHELL.items()
    }
    everything = "\n".join(command for found in known.values() for command in found)
    for document, starts in NOT_RUN.items():
        for start in starts:
            assert any(begins(command, [start]) for command in known[document]), start
    for text in [*PLACEHOLDERS, *BEFORE]:
        assert text in everything, text
    for document in IN_A_CLONE + UNRELATED_BLOCKS:
        assert document in known


def test_the_tests_that_a_page_names_exist():
    page = (ROOT / "docs/internals/measured.md").read_text()
    named = re.findall(r"\]\(\.\./\.\./(\S+\.py)\) `(test_\w+)`", page)
    assert len(named) >= 7
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text()


def test_no_command_hides_in_a_block_of_another_kind():
    """Blocks without a language are drawings and output."""
    for document in DOCUMENTS:
        page = Document.parse(str(ROOT / document))
        found = [block.lexemes for block in FencedCodeBlockLexer(r"\w*")(page)]
        fences = page.text.count("```")
        assert fences == 2 * len(found), f"{document}: a fence does not end"
        for block in found:
            assert block["language"] in LANGUAGES, document
            if block["language"] == "":
                start = r"^ *(uv|uvx|python3?|pip) "
                assert not re.search(start, block["source"], re.MULTILINE), block


# ---------------------------------------------------------------------- the commands


class Shell(NamedTuple):
    """The shell that runs the blocks of a document."""

    variables: dict[str, str]

    def run(self, script: str, folder: Path) -> str:
        done = subprocess.run(
            ["bash", "-eux", "-o", "pipefail", "-c", f"PS4='+ $SECONDS s: '\n{script}"],
            check=False,
            cwd=folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout


STAND_INS = {
    "uvx": """
        [ "$1" = copier ] || exec {uv} tool run "$@"
        shift
        UV={folder}/uv exec {copier} "$@"
    """,
    "uv": """
        [ "$1" = sync ] || UV_NO_SYNC=1 exec {uv} "$@"
        {uv} venv --quiet --python {python} nemo_gym/.venv
        project=$PWD
        cd nemo_gym/.venv/lib/python*/site-packages
        printf '%s\\n' {packages} "$project/nemo_gym" "$project" "$project/src" > borrowed.pth
        cd "$project/nemo_gym/.venv/bin"
        printf '#!/bin/sh\\nexec "%s" -m pytest "$@"\\n' "$PWD/python" > pytest
        chmod +x pytest
    """,
    # Without uv, as on a new machine.
    "python3": """
        [ -d {folder}/venv ] || {python} -m venv {folder}/venv
        exec {folder}/venv/bin/python "$@"
    """,
}


@pytest.fixture(scope="module")
def environment(install, interpreter):
    """A copy of the installed game, which the commands of documents change."""
    project = install(interpreter, archetype="game")
    return Environment(project, project / "nemo_gym/.venv/bin/python")


@pytest.fixture(scope="module")
def shell(repository, environment, tmp_path_factory):
    """A user's shell, with stand-ins for what takes long."""
    folder = tmp_path_factory.mktemp("bin")
    [packages] = environment.folder.glob(".venv/lib/python*/site-packages")
    values = {
        "folder": folder,
        "uv": UV,
        "copier": COPIER,
        "python": environment.python.resolve(),
        "packages": packages,
    }
    for name, script in STAND_INS.items():
        file = folder / name
        lines = [line.strip() for line in script.format(**values).strip().splitlines()]
        file.write_text("\n".join(["#!/bin/sh -e", *lines, ""]))
        file.chmod(0o755)
    path = [str(folder), str(environment.python.resolve().parent), os.environ["PATH"]]
    return Shell(
        clean_environment(
            PATH=os.pathsep.join(path),
            UV_PYTHON_DOWNLOADS="never",
            RAY_ENABLE_UV_RUN_RUNTIME_ENV="0",
            TEMPORARY=str(tmp_path_factory.mktemp("temporary")),
            GIT_CONFIG_COUNT="1",
            GIT_CONFIG_KEY_0=f"url.{repository}.insteadOf",
            GIT_CONFIG_VALUE_0="https://github.com/org/nemo-gym-template.git",
        )
    )


MODEL = """
import sys
from env_runtime.evaluation.scripted_model import ScriptedModel, scripted_model
answer = ScriptedModel.answer
ScriptedModel.answer = lambda self, request: answer(self, {**request, "metadata": {"row": "0"}})
with scripted_model([[]]) as model:
    print(model.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def project(environment, shell):
    """`nemo_gym/` of an installed environment, beside its server and a model."""
    with contextlib.ExitStack() as stack:
        shell.variables.update(
            ENV_URL=stack.enter_context(environment.serving()),
            OPENAI_BASE_URL=stack.enter_context(printing(environment, MODEL)),
            OPENAI_API_KEY="none",
            MODEL="scripted",
        )
        yield environment.folder


def put_tasks(document: str, folder: Path) -> None:
    """Write the document's tasks() into make_rows.py of the project, and 12 examples."""
    blocks = [block.parsed for block in parsed(document, "python")]
    [tasks] = [block for block in blocks if block.startswith("def tasks(")]
    [file] = folder.glob("*/nemo_gym/make_rows.py")
    source = file.read_text()
    start, end = source.index("def tasks("), source.index("if __name__")
    source = f"{source[:start]}{tasks}\n\n{source[end:]}"
    source = source.replace("import random", "import itertools\nimport random", 1)
    file.write_text(
        re.sub(r"^EXAMPLES = \d+", "EXAMPLES = 12", source, flags=re.MULTILINE)
    )


def put_wrapped_classes(document: str, script: str, folder: Path) -> None:
    """Write the classes that a script wraps, from the document's Python blocks."""
    for command in re.findall(r"^uvx copier copy .*", script, re.MULTILINE):
        words = shlex.split(command.partition("&&")[0])
        answers = dict(word.split("=", 1) for word in words if "=" in word)
        if "domain_class" in answers:
            start = f"class {answers['domain_class']}"
            python = [block.parsed for block in parsed(document, "python")]
            source = next(text for text in python if start in text)
            module = answers["domain_module"]
            place = f"src/{module.replace('.', '/')}" if "." in module else module
            file = folder / words[-1] / f"{place}.py"
            file.parent.mkdir(parents=True)
            file.write_text(source)


@pytest.mark.slow
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
@pytest.mark.parametrize(
    "document", [nightly(one) if one in PAGES_BY_NIGHT else one for one in SHELL]
)
def test_the_commands_run(request, repository, shell, tmp_path, document):
    in_project = IN_A_PROJECT in (ROOT / document).read_text()

    def run_block(block: Example) -> None:
        script = script_of(document, block.parsed)
        if not script:
            return
        if in_project:
            folder = request.getfixturevalue("project")
        else:
            name = str(block.line) if document in UNRELATED_BLOCKS else "one"
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            put_wrapped_classes(document, script, folder)
        if document in IN_A_CLONE and "$PWD" in script:
            folder = folder / "nemo-gym-template"
            if not folder.exists():
                git(tmp_path, "clone", "--quiet", str(repository), str(folder))
        if document.startswith("skills/") and "make_rows.py --example" in script:
            put_tasks(document, folder)
        print(shell.run(script, folder))

    for block in parsed(document, "sh", run_block):
        block.evaluate()


# ---------------------------------------------------------------------- the classes

PRELUDE = """
from typing import *
from pydantic import BaseModel, Field
"""

# What a class of a Python block is, with its tools.
CLASSES = {
    "README.md": {"Counter": ["add"]},
    "docs/frameworks.md": {"Counter": [], "NumbersGame": ["guess"]},
    "docs/from/repository.md": {"MazeWalk": ["step"]},
    "docs/grading.md": {"Counter": ["add"], "Sums": []},
    "docs/models.md": {"Reply": [], "Bills": ["look_up_bill"]},
    "docs/tools.md": {"Dots": ["look", "answer"], "Shop": ["query"]},
    "docs/your-own-class.md": {
        "Counter": ["add"],
        "Capital": [],
        "Number": [],
        "NextCall": [],
        "MyMaze": ["step"],
        "Search": ["search"],
    },
    "skills/generate-nemo-gym-env/SKILL.md": {"NumberGame": ["guess"]},
}


class Maze:
    """The class in `their_package`."""

    def __init__(self, size: int, seed: int):
        self.size = size

    def step(self, direction: str) -> str:
        return direction


@pytest.fixture(scope="module")
def tools_of():
    """The runtime's own function, imported from a rendered game."""
    importlib.import_module("runtime.rendered")
    return importlib.import_module("env_runtime.episode.tools").tools_of


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_classes_have_tools(tools_of, monkeypatch, tmp_path, document):
    theirs = types.SimpleNamespace(Maze=Maze)
    monkeypatch.setitem(sys.modules, "their_package", theirs)
    monkeypatch.syspath_prepend(tmp_path)
    found: dict[str, list[str]] = {}

    def find_classes(block: Example) -> None:
        source = block.parsed
        if not re.search(r"^class .*(\n.*)*?\n    def __init__", source, re.MULTILINE):
            return
        name = f"line{block.line}_of_{re.sub(r'[^a-z]', '_', document.lower())}"
        (tmp_path / f"{name}.py").write_text(PRELUDE + source)
        module = importlib.import_module(name)
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == name:
                tools = list(tools_of(kind))
                if tools or "reward" in vars(kind):
                    found.setdefault(kind.__name__, tools)
        del sys.modules[name]

    for block in parsed(document, "python", find_classes):
        block.evaluate()
    assert found == CLASSES.get(document, {})


# Folders of the documents' own examples
EXAMPLES = re.compile("(my_env|my_dots|number_env|taxi|envs|NAME|(src/)?mazes)/")


@pytest.mark.parametrize("document", [*DOCUMENTS, "CONTRIBUTING.md"])
def test_files_and_modules_that_a_document_names_are_there(render, document):
    text = (ROOT / document).read_text()
    project = render(siblings=["verifiers", "openenv", "ors"])
    files = [*filter(None, git(ROOT, "ls-files", "-z").split("\0"))]
    files += [str(path.relative_to(project)) for path in project.rglob("*.py")]
    known = "\n".join(f"/{file}" for file in files) + "\n"
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    gone = [n for n in named if f"/{n}\n" not in known and not EXAMPLES.match(n)]
    assert gone == []
    for name, inner in re.findall(r"\benv_runtime\.(\w+)(?:\.([a-z]\w*))?", text):
        place = RUNTIME / "src/env_runtime" / name
        folder = place.is_dir()
        assert folder or place.with_suffix(".py").is_file(), name
        found = [place / inner, place / f"{inner}.py"] if folder and inner else []
        source = (place / "__init__.py").read_text() if found else ""
        is_name = re.search(rf"\b{inner}\b", source)
        assert not found or is_name or any(map(Path.exists, found)), f"{name}.{inner}"


def test_pages_that_other_files_name_are_there():
    """In messages, docstrings, comments and templates; a changelog names what was."""
    for name in filter(None, git(ROOT, "ls-files", "-z").split("\0")):
        suffix = Path(name).suffix
        if name == "CHANGELOG.md" or suffix not in {".py", ".md", ".jinja", ".yml"}:
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        named = re.findall(r"(?<![\w./-])docs/((?:[\w-]+/)*[\w-]+\.md)", text)
        named += re.findall(r"\bdocs\([^)]*?\"([\w/-]+\.md)", text)
        gone = [page for page in named if not (ROOT / "docs" / page).is_file()]
        assert gone == [], name


def test_a_project_links_the_page_that_the_gates_name(render):
    """env_runtime.checks.rewards.GRADING: a project has no docs/ of its own."""
    readme = (render(archetype="game") / "nemo_gym/README.md").read_text()
    assert "`docs/grading.md`" in readme


def test_the_skill_says_what_it_is():
    text = (ROOT / "skills/generate-nemo-gym-env/SKILL.md").read_text()
    front, _, body = text.removeprefix("---\n").partition("\n---\n")
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    assert fields["name"] == "generate-nemo-gym-env"
    assert 50 < len(fields["description"]) <= 1024
    assert body.count("\n") < 220
    for link in re.findall(r"\]\((?!http)([^)#]+)", body):
        assert (ROOT / "skills/generate-nemo-gym-env" / link).is_file(), link
