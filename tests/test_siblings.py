"""The folders of verifiers, OpenEnv and ORS beside nemo_gym/, as they are rendered."""

import json
import re
import shutil
import sys
import tomllib
from types import SimpleNamespace

import pytest
from env_runtime.shipped import matcher
from test_render import check, names_of, text_files

from nights import GAME_FIRST
from projects import (
    CLASSES,
    FRAMEWORKS,
    ROOT,
    run,
)
from rendering import render_project

FILES = {
    "verifiers": {"my_env_env.py", "hatch_build.py"},
    "openenv": {
        *("Dockerfile", "openenv.yaml", "hatch_build.py"),
        *("server/__init__.py", "server/app.py", "server/my_env_environment.py"),
        *("my_env_openenv/client.py", "my_env_openenv/models.py", "my_env_trl.py"),
    },
    "ors": {"Dockerfile", "requirements.txt", "server.py"},
}
EACH = {"README.md", "gates.py", "pyproject.toml", "rollout.py", ".python-version"}
EACH |= {"tests/conftest.py", "tests/test_conformance.py"}


@pytest.mark.parametrize("archetype", [*GAME_FIRST, "answer"])
def test_rendered_files(render, archetype):
    project = render(archetype=archetype, siblings=FRAMEWORKS)
    check(project)
    for name in FRAMEWORKS:
        assert names_of(project / name) >= EACH | FILES[name]
        # It would shadow the package of the same name.
        assert not (project / name / "__init__.py").exists()
    listed = (project / ".dockerignore").read_text().splitlines()
    assert set(FRAMEWORKS) <= set(listed)


def test_no_image_gets_a_key(render):
    """Nor among the rows, which the frameworks' servers read."""
    project = render(siblings=["openenv", "ors"])
    for folder in (".", "openenv", "ors"):
        name = ".dockerignore" if folder == "." else "Dockerfile.dockerignore"
        lines = (project / folder / name).read_text().splitlines()
        left_out = matcher(lines).match_file
        for key in (".aws/credentials", "id_rsa", "a.p12", ".pypirc", ".env.local"):
            for place in ("", "sub/", "nemo_gym/data/"):
                assert left_out(f"{place}{key}"), (folder, place, key)
        for path in ("secrets_game.py", "key.md", "nemo_gym/server.py"):
            assert not left_out(path), (folder, path)


@pytest.mark.parametrize(
    ("name", "framework"), [("openenv",) * 2, ("ors", "openreward")]
)
def test_an_image_leaves_out_what_no_server_imports(render, name, framework):
    """Its build plays the gates, before it gives up the right to write."""
    project = render(siblings=["openenv", "ors"])
    text = (project / name / "Dockerfile").read_text()
    packages, serving = text.split("\nFROM ")[1:]
    assert f"env_runtime.slim_image options {framework} >" in packages
    [wheel] = re.findall(r"vendor/(\S+\.whl) python", packages)
    settings = (project / "nemo_gym/pyproject.toml").read_text()
    assert f'"vendor/{wheel}"' in settings
    assert ":/uv" not in serving and "COPY --from=packages /opt /opt" in serving
    gates = serving.index("python gates.py import server smoke")
    assert gates < serving.index("USER 1000") < serving.index('CMD ["python"')
    assert ("ARG WEB=false" in text) == (name == "openenv")


@pytest.mark.slow
def test_a_class_whose_module_is_called_like_the_taskset(copy, tmp_path):
    project = tmp_path / "my_env"
    project.mkdir()
    shutil.copy(CLASSES / "inventory.py", project / "my_env_env.py")
    answers = {"domain_module": "my_env_env", "domain_class": "Inventory"}
    copy(project, siblings=FRAMEWORKS, tools="look_up", **answers)
    check(project)
    assert (project / "verifiers/my_env_taskset.py").is_file()


def test_the_readmes_call_a_tool_with_its_arguments(render):
    projects = {
        '{"word": "crane"}': render(siblings=FRAMEWORKS),
        '{"text": "..."}': render(archetype="answer", siblings=FRAMEWORKS),
        '{"n": 1, "on": True, "kind": "a b", "more": []}': render(
            siblings=FRAMEWORKS,
            tools="f(n: int, on: bool, kind: Literal['a b'], more: list[int], x: int = 1)",
        ),
    }
    for arguments, project in projects.items():
        for name in ("openenv", "ors"):
            assert arguments in (project / name / "README.md").read_text()


@pytest.mark.parametrize("name", ["my_env", "my__env_", "env", "word_env"])
def test_verifiers_finds_the_module_by_the_distributions_name(render, name):
    """verifiers imports OWNER/NAME of the Hub as NAME with "_" for "-"."""
    project = render(env_name=name, siblings=["verifiers"]) / "verifiers"
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    module = settings["project"]["name"].replace("-", "_")
    assert (project / f"{module}.py").is_file()
    assert module == f"{name}_env"  # which trainers' configurations name


def test_openenvs_package_requires_what_its_server_imports(render):
    settings = tomllib.loads(
        (render(siblings=["openenv"]) / "openenv/pyproject.toml").read_text()
    )
    assert "nemo-gym-env-runtime[openenv]" in settings["project"]["dependencies"]
    assert [*settings["dependency-groups"]] == ["dev"]


def test_what_prime_rl_reads_names_the_taskset(render):
    """The README's blocks for its training and its eval."""
    readme = (render(siblings=FRAMEWORKS) / "verifiers/README.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", readme, re.DOTALL)
    train, evaluation = map(tomllib.loads, blocks)
    for [source] in (train["orchestrator"]["train"]["source"], evaluation["source"]):
        assert source["env"] == {"taskset": {"id": "my_env_env"}}


def test_none_is_the_default(render):
    assert not any((render() / name).exists() for name in FRAMEWORKS)
    assert "ors" not in (render() / ".dockerignore").read_text().splitlines()
    first, other = (
        {str(path.relative_to(project)): text for path, text in text_files(project)}
        for project in (render(), render(siblings=["ors"]))
    )
    changed = {path for path, text in other.items() if text != first.get(path)}
    outside = {path for path in changed if not path.startswith("ors/")}
    assert outside == {".copier-answers.yml", ".dockerignore"}


PROBLEMS = {
    "tools": "cannot serve the tool '{}'",
    "domain_module": "has a module '{}' of its own",
}


@pytest.mark.parametrize(
    ("framework", "question", "name"),
    [
        ("ors", "tools", "setup"),
        ("ors", "tools", "name"),
        ("ors", "domain_module", "structlog"),
        ("openenv", "tools", "reset"),
        ("openenv", "domain_module", "my_env_trl"),
        ("openenv", "domain_module", "my_env_openenv"),
    ],
)
def test_a_name_of_the_frameworks_own_is_refused(
    template, tmp_path, framework, question, name
):
    answers = {"siblings": [framework], question: name}
    problem = f"{framework} {PROBLEMS[question].format(name)}"
    with pytest.raises(ValueError, match=problem):
        render_project(template, tmp_path / "my_env", **answers)
    assert not (tmp_path / "my_env").exists()


@pytest.fixture
def post_generate(render, tmp_path):
    """Runs the step after generation with a uv that only prints its arguments."""
    project = tmp_path / "my_env"
    shutil.copytree(render(siblings=FRAMEWORKS), project)
    for name in ["nemo_gym", *FRAMEWORKS]:
        python = project / name / ".venv/bin/python"
        python.parent.mkdir(parents=True)
        (python.parents[1] / "pyvenv.cfg").touch()
        python.write_text("#!/bin/sh\necho 3.13.15 0.1\n")
        python.chmod(0o755)

    def step(status=0):
        """Returns its output, if every import gate ends with this status."""
        uv = tmp_path / "uv"
        uv.write_text(f"""#!/bin/sh
echo "uv $@"
case "$@" in
    "build "*) while [ "$1" != --out-dir ]; do shift; done; touch "$2/env_runtime-0.whl" ;;
    "run --directory "*) exit {status} ;;
esac
""")
        uv.chmod(0o755)
        script = ROOT / "extensions/post_generate.py"
        answers = json.dumps({"siblings": FRAMEWORKS})
        command = [sys.executable, script, "copy", answers]
        done = run(command, project, check=False, UV=str(uv), UV_PYTHON="python3")
        assert done.returncode == status
        return project, done.stdout.splitlines()

    return step


def test_the_post_generation_step_installs_each_folder(post_generate):
    project, printed = post_generate()
    built, *asked = [line for line in printed if line.startswith("uv ")]
    assert built.endswith("/runtime")
    [wheel] = (project / "nemo_gym/vendor").iterdir()
    assert wheel.name == "env_runtime-0.whl"
    folders = [name for name in ["nemo_gym", *FRAMEWORKS] for _ in range(2)]
    assert [re.search(r"--directory (\w+)", line)[1] for line in asked] == folders
    assert asked[3].endswith("verifiers python gates.py import")
    assert printed.index("verifiers/") == printed.index(asked[2]) - 1
    [ready] = [line for line in printed if line.startswith("Ready: ")]
    assert "openreward 0.1" in ready
    for name in ["nemo_gym", *FRAMEWORKS]:
        assert f"  cd {project / name}" in printed


def test_the_post_generation_step_tries_each_folder_before_it_fails(post_generate):
    project, printed = post_generate(1)
    assert len([line for line in printed if "gates.py import" in line]) == 4
    # The first one's tools go into the rows, which an import gate that fails does not do.
    gates = ["gates.py --write-tools", *["gates.py"] * 3]
    for name, gate, line in zip(
        ["nemo_gym", *FRAMEWORKS], gates, printed[-4:], strict=True
    ):
        assert line.startswith("nemo-gym-template: the import gate failed")
        assert line.endswith(f"`uv run python {gate}` in {project / name}")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_missing_package_is_one_line(render, name):
    """This interpreter has none of the frameworks."""
    project = render(siblings=FRAMEWORKS)
    command = [sys.executable, "gates.py", "import"]
    done = run(command, project / name, check=False)
    [line] = done.stdout.splitlines()
    assert done.returncode == 1
    problem = (
        r"FAIL import .* ModuleNotFoundError in [\w/]+\.py, line \d+: No module .*"
    )
    advice = f"Add the package that has it: `uv add PACKAGE` in {name}/"
    assert re.fullmatch(problem + re.escape(advice), line)


@pytest.mark.parametrize(
    "rewards", [[1.0, 1.0], [1.0, -1.0, None], [0.0, None, 0.5], [0.0]]
)
def test_the_readmes_reward_for_trl_is_the_sum(render, rewards):
    readme = (render(siblings=FRAMEWORKS) / "ors/README.md").read_text()
    [code] = re.findall(r"^def reward\(.*?\n\n\n", readme, re.DOTALL | re.MULTILINE)
    scope = {}
    exec(code, scope)  # noqa: S102 - the README shows this code
    played = [SimpleNamespace(rewards=each) for each in (rewards, [], [None])]
    total = sum(reward or 0.0 for reward in rewards)
    assert scope["reward"](environments=played, prompts=[]) == [total, None, None]
    assert "reward_funcs=reward," in readme


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_readme_names_a_policy_for_a_class_without_an_oracle(render, name):
    answers = {"siblings": [name], "tools": "act", "gymnasium_id": "Blackjack-v1"}
    project = render(archetype="gymnasium", **answers)
    assert (
        "noop for a class without an oracle"
        in (project / name / "README.md").read_text()
    )
    usual = (render(siblings=FRAMEWORKS) / name / "README.md").read_text()
    assert "noop" not in usual
