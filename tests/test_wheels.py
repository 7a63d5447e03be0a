"""Wheels for verifiers: an environment without its project, and two in one venv."""

import json
import re
import shutil
import tomllib
import zipfile

import pytest

from projects import (
    RUNTIME,
    UV,
    run,
)

WHEEL = """
import asyncio, importlib.util, json, sys
import my_env_env, my_env_runtime
modules = [sys.modules["my_env"], my_env_env, my_env_runtime]
assert all(module.__file__.startswith(sys.prefix) for module in modules), modules
assert importlib.util.find_spec("env_runtime") is None
tasks = list(my_env_env.create_verifiers_env().taskset)
calls = [("guess", {"word": tasks[0].data.ground_truth["target"]})]
print(json.dumps([len(tasks), *(asyncio.run(tasks[0].earned(c)) for c in (calls, []))]))
"""


def build_wheel(folder, out):
    """The path of a folder's wheel."""
    out.mkdir(exist_ok=True)
    before = set(out.iterdir())
    run([UV, "build", "--quiet", "--wheel", "--out-dir", out, folder], out)
    [wheel] = {path for path in out.iterdir() if path.suffix == ".whl"} - before
    return wheel


def content_of(wheel):
    """The names that a wheel installs, and the packages that it requires."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith("/METADATA")]
        text = archive.read(metadata).decode()
    assert len(names) == len(set(names))
    top = {name.partition("/")[0] for name in names} - {metadata.partition("/")[0]}
    return top, re.findall(r"Requires-Dist: ([\w-]+)", text)


@pytest.mark.nightly  # by day, what is in such a wheel
def test_a_wheel_for_verifiers_plays_without_the_project(game, tmp_path):
    [packages] = (game / "verifiers").glob(".venv/lib/python*/site-packages")
    assert {path.suffix for path in packages.glob("my_env*")} == {".dist-info"}
    code = (
        "import importlib.util as u; names = 'nemo_gym gates rollout tests my_env "
        "my_env_env env_runtime'; print(*filter(u.find_spec, names.split()))"
    )
    exposed = run([game / "verifiers/.venv/bin/python", "-c", code], tmp_path).stdout
    assert exposed.split() == ["my_env_env", "env_runtime"]
    taskset = (game / "verifiers/my_env_env.py").read_text()
    wheel = build_wheel(game / "verifiers", tmp_path / "dist")
    assert (game / "verifiers/my_env_env.py").read_text() == taskset
    names, required = content_of(wheel)
    assert names == {"my_env_env.py", "my_env_runtime"}
    assert required == ["pydantic", "pydantic-settings", "mcp", "verifiers"]
    interpreter = (game / "verifiers/.venv/bin/python").resolve()
    run([UV, "venv", "--quiet", "--python", interpreter, "venv"], tmp_path)
    run(
        [UV, "pip", "install", "--quiet", wheel],
        tmp_path,
        VIRTUAL_ENV=str(tmp_path / "venv"),
    )
    printed = run([tmp_path / "venv/bin/python", "-c", WHEEL], tmp_path).stdout
    assert json.loads(printed) == [24, 1.0, 0.0]


@pytest.mark.slow
def test_a_wheel_for_verifiers_has_what_a_package_needs(copy, tmp_path):
    """The files of the class's package; the requirements of extras that name others."""
    project = tmp_path / "env"  # whose wheel must not install a package env_runtime
    (project / "maze").mkdir(parents=True)
    (project / "maze/words.txt").write_text("env_runtime\n")
    (project / "maze/__init__.py").write_text(
        "import env_runtime.errors\n\n\nclass Env:\n    def reward(self) -> float:\n"
        "        raise env_runtime.errors.RolloutError\n"
    )
    answers = {"domain_module": "maze", "domain_class": "Env", "tools": ""}
    copy(project, siblings="[verifiers]", **answers)
    build_wheel(RUNTIME, project / "nemo_gym/vendor")
    (project / "nemo_gym/vendor/teamlib-1-py3-none-any.whl").touch()
    pyproject = project / "verifiers/pyproject.toml"
    text = pyproject.read_text()
    extras = text.replace("[verifiers]", "[gymnasium-frames,verifiers]")
    assert extras != text
    pyproject.write_text(extras)
    wheel = build_wheel(project / "verifiers", tmp_path / "dist")
    names, required = content_of(wheel)
    assert names == {"env_env.py", "env_env_runtime"}
    packages = ["gymnasium", "numpy", "pillow", "mcp", "verifiers"]
    assert required == ["pydantic", "pydantic-settings", *packages]
    with zipfile.ZipFile(wheel) as archive:
        package = "env_env_runtime/_project/maze"
        assert archive.read(f"{package}/words.txt") == b"env_runtime\n"
        module = archive.read(f"{package}/__init__.py").decode()
    assert module.startswith("import env_env_runtime.errors\n")
    assert "raise env_env_runtime.errors.RolloutError" in module


@pytest.mark.slow
def test_pip_learns_where_openenvs_runtime_is(copy, tmp_path):
    project = tmp_path / "my_env"
    copy(project, siblings="[openenv]")
    runtime = build_wheel(RUNTIME, project / "nemo_gym/vendor")
    wheel = build_wheel(project / "openenv", tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if "METADATA" in name]
        required = archive.read(metadata).decode()
    place = f"nemo-gym-env-runtime[openenv] @ {runtime.resolve().as_uri()}\n"
    assert f"Requires-Dist: {place}" in required
    assert content_of(wheel)[0] == {"my_env_openenv", "my_env_trl.py"}


TWO = """
import asyncio, json
import a_env_env, b_env_env

async def play(taskset):
    tasks = list(taskset.create_verifiers_env().taskset)
    tools = tasks[0].toolsets(tasks[0].config)[0]
    async with tools._exit_stack:
        await tools.setup_task(tasks[0].data)
        answer = await tools.call_and_grade("dance", {})
        await tools.call_and_grade("guess", {"word": tasks[0].data.ground_truth["target"]})
        return len(tasks), answer.output, tools.state.reward

async def play_both():
    return await asyncio.gather(play(a_env_env), play(b_env_env))

classes = [each.Tools.domain_class for each in (a_env_env, b_env_env)]
assert [hasattr(each, "b") for each in classes] == [False, True], classes
shared = a_env_env.parts_of is b_env_env.parts_of
print(json.dumps([shared, *asyncio.run(play_both())]))
"""


@pytest.fixture
def two_environments(render, tmp_path):
    """Each has a class in `world`, and rows of its own."""
    for name in ("a_env", "b_env"):
        answers = {"env_name": name, "domain_module": "world"}
        project = render(**answers, siblings=["verifiers"])
        shutil.copytree(project, tmp_path / name)
    module = tmp_path / "b_env/world.py"
    module.write_text(
        module.read_text().replace("class BEnv:", "class BEnv:\n    b = 1")
    )
    rows = tmp_path / "b_env/nemo_gym/data/example.jsonl"
    rows.write_text(rows.read_text().splitlines()[-1] + "\n")
    run([UV, "venv", "--quiet", "--python", "3.12", "venv"], tmp_path)

    def play(*commands):
        """The output of TWO if these packages are installed, one command after another."""
        for packages in commands:
            command = [UV, "pip", "install", "--quiet", *packages]
            run(command, tmp_path, VIRTUAL_ENV=str(tmp_path / "venv"))
        printed = run([tmp_path / "venv/bin/python", "-c", TWO], tmp_path).stdout
        return json.loads(printed)

    return tmp_path / "a_env", tmp_path / "b_env", play


@pytest.mark.nightly
def test_environments_of_two_releases_play_in_one_venv(two_environments, tmp_path):
    """A trainer's venv: each wheel has a runtime and a class of its own."""
    a_env, b_env, play = two_environments
    other = tmp_path / "other"
    shutil.copytree(RUNTIME, other)
    pyproject = other / "pyproject.toml"
    text = pyproject.read_text()
    version = tomllib.loads(text)["project"]["version"]
    pyproject.write_text(text.replace(f'"{version}"', '"99.0"', 1))
    episodes = other / "src/env_runtime/evaluation/episodes.py"
    text = episodes.read_text()
    assert text.count("no tool {name!r}") == 1
    episodes.write_text(text.replace("no tool {name!r}", "another release: {name!r}"))
    wheels = []
    for project, runtime in ((a_env, RUNTIME), (b_env, other)):
        build_wheel(runtime, project / "nemo_gym/vendor")
        wheels.append(build_wheel(project / "verifiers", tmp_path / "dist"))
    assert play(wheels) == [
        False,
        [24, "error: no tool 'dance'; there are guess", 1.0],
        [1, "error: another release: 'dance'; there are guess", 1.0],
    ]


@pytest.mark.nightly
def test_editable_environments_share_env_runtime(two_environments):
    """Each plays its own class and rows. A second module `world` is refused."""
    a_env, b_env, play = two_environments
    for project in (a_env, b_env):
        build_wheel(RUNTIME, project / "nemo_gym/vendor")
    # In one command, uv refuses two paths of one package.
    folders = [["--editable", project / "verifiers"] for project in (a_env, b_env)]
    with pytest.raises(AssertionError, match="world.py cannot be imported beside /"):
        play(*folders)
    (b_env / "world.py").rename(b_env / "globe.py")
    for path in (b_env / "nemo_gym/pyproject.toml", b_env / "nemo_gym/server.py"):
        path.write_text(path.read_text().replace("world", "globe"))
    assert play() == [
        True,
        [24, "error: no tool 'dance'; there are guess", 1.0],
        [1, "error: no tool 'dance'; there are guess", 1.0],
    ]
