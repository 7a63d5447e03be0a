"""The step after generation: what it finds, leaves and reports."""

import importlib
import shutil
import sys
import tomllib
from pathlib import Path
from unittest import mock

import pytest

from projects import ROOT, UV, git, run

SCRIPT = ROOT / "extensions/post_generate.py"


@pytest.fixture
def step(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return importlib.import_module("post_generate")


@pytest.fixture
def project(copy, tmp_path):
    """A project whose Copier tasks were not run."""
    copy(tmp_path / "my_env")
    return tmp_path / "my_env"


def post_generate(project, operation="copy", **variables):
    done = run([sys.executable, SCRIPT, operation], project, check=False, **variables)
    assert done.returncode == 1
    return done.stdout.strip().splitlines()


@pytest.mark.nightly
def test_copie_generates_a_green_environment(repository, request, tmp_path):
    """Through Copier's own API with trust, as pytest-copie does it."""
    request.config.option.template = str(repository)
    copie = request.getfixturevalue("copie")
    result = copie.copy(extra_answers={"env_name": "my_env", "space": "me/my-env"})
    assert result.exit_code == 0, result.exception
    assert result.answers["space"] == "me/my-env"
    assert (result.project_dir / "nemo_gym/uv.lock").is_file()
    again = run(
        [UV, "run", "python", "gates.py", "import"], result.project_dir / "nemo_gym"
    )
    assert "PASS import" in again.stdout


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({"pyproject.toml": "[tool.ruff]\n"}, []),
        ({"pyproject.toml": "[build-system]\n"}, [["--editable", ".."]]),
        (
            {"pyproject.toml": "", "requirements.txt": "numpy\n"},
            [["--requirements", "../requirements.txt"]],
        ),
    ],
)
def test_what_a_repository_has_to_install(step, tmp_path, monkeypatch, files, options):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert step.own_packages([]) == options
    assert step.own_packages(["../.."]) == [*options, ["--editable", "../../.."]]


@pytest.mark.parametrize(
    ("version", "kept"), [("3.13.15", True), ("3.12.1", True), ("3.11.7", False)]
)
def test_an_update_keeps_the_interpreter_of_the_venv(
    step, tmp_path, monkeypatch, version, kept
):
    monkeypatch.delenv("UV_PYTHON", raising=False)
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(sys.executable)
    (venv / "pyvenv.cfg").write_text(f"home = /x\nversion_info = {version}\n")
    found = step.kept_python(tmp_path, ">=3.12,<3.15")
    assert found == (str(Path(sys.executable).resolve()) if kept else None)
    monkeypatch.setenv("UV_PYTHON", "3.14")
    assert step.kept_python(tmp_path, ">=3.12,<3.15") is None


def test_a_missing_uv_is_one_line(project):
    [line] = post_generate(project, PATH="/nowhere", UV="")
    assert line.startswith("nemo-gym-template: uv is not installed: `pip install uv`")


def test_uv_must_be_allowed_to_build(project):
    assert "unset it for this command" in post_generate(project, UV_NO_BUILD="1")[-1]


def test_a_venv_without_pyvenv_cfg_is_not_touched(project):
    venv = project / "nemo_gym/.venv"
    venv.mkdir()
    (venv / "precious").write_text("mine")
    [line] = post_generate(project)
    assert "has no pyvenv.cfg" in line
    assert (venv / "precious").read_text() == "mine"


def test_the_wheel_of_this_release_replaces_others(step, tmp_path, monkeypatch, capsys):
    vendor = tmp_path / "nemo_gym/vendor"
    vendor.mkdir(parents=True)
    (vendor / "nemo_gym_env_runtime-0.4.9-py3-none-any.whl").touch()
    library = vendor / "teamlib-1-py3-none-any.whl"
    library.touch()
    git(tmp_path, "init", "--quiet")
    monkeypatch.chdir(tmp_path)
    step.build_runtime(UV, "copy again")
    text = (ROOT / "pyproject.toml").read_text()
    version = tomllib.loads(text)["project"]["version"]
    [wheel] = set(vendor.iterdir()) - {library}
    assert wheel.name == f"nemo_gym_env_runtime-{version}-py3-none-any.whl"
    assert capsys.readouterr().out == ""
    content = wheel.read_bytes()
    (tmp_path / ".gitignore").write_text("*.whl\ndata/\n")
    step.build_runtime(UV, "copy again")
    assert wheel.read_bytes() == content  # uv.lock has its hash
    printed = capsys.readouterr().out
    for rule in ("!/nemo_gym/vendor/*.whl", "!/nemo_gym/data/"):
        assert f"add `{rule}` to .gitignore" in printed
        with (tmp_path / ".gitignore").open("a") as file:
            file.write(f"{rule}\n")
    step.build_runtime(UV, "copy again")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "extra", ["antlr4_13_2", "antlr4-11-0", "antlr4_13_2,inference"]
)
def test_an_extra_for_another_antlr4_is_named_before_anything_is_installed(
    project, extra
):
    """uv would take a math-verify without the extra, of two years ago."""
    settings = project / "nemo_gym/pyproject.toml"
    [line] = [x for x in settings.read_text().splitlines() if x.startswith("dependen")]
    wanted = (
        f'dependencies = ["nemo-gym-env-runtime[nemo-gym]", "math-verify[{extra}]"]'
    )
    settings.write_text(settings.read_text().replace(line, wanted))
    said = post_generate(project)[-1]
    assert f"math-verify[{extra}] and nemo-gym cannot be installed together" in said
    assert said.endswith("Name math-verify[antlr4_9_3] instead")
    assert not (project / "nemo_gym/.venv").exists()
    settings.write_text(settings.read_text().replace(extra, "antlr4_9_3"))
    venv = project / "nemo_gym/.venv"
    venv.mkdir()  # the next check
    assert "has no pyvenv.cfg" in post_generate(project)[-1]


RESOLVED = """\
error: No solution found when resolving dependencies for split (markers: python_full_version >= '3.13.14')
  cause: Because hydra-core>=1.3.0,<=1.3.8 depends on antlr4-python3-runtime==4.9.* and
         {0}, we can conclude that they are incompatible.
"""


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("latex2sympy2-extended>=1.0.4,<=1.0.6 depends on antlr4-python3-runtime==4.13.2", "latex2sympy2-extended and nemo-gym cannot be installed together: latex2sympy2-extended needs antlr4-python3-runtime==4.13.2"),
        ("formulas[antlr4-13-2]==2 depends on antlr4-python3-runtime>=4.11,<5", "formulas[antlr4-13-2] and nemo-gym cannot"),
        ("your project depends on antlr4-python3-runtime>=4.13", "this project and nemo-gym cannot"),
        ("your project depends on fastapi<0.1", None),
    ],
)  # fmt: skip
def test_a_resolution_that_antlr4_stops_names_the_pair(step, capfd, said, named):
    code = f"import sys; sys.exit({RESOLVED.format(said)!r})"
    with pytest.raises(step.Problem) as caught:
        step.sync([sys.executable, "-c", code], "`uv sync` failed, see above")
    *clash, last = caught.value.args
    assert last == "`uv sync` failed, see above"
    assert RESOLVED.format(said).strip() in capfd.readouterr().err
    assert (named in clash[0] and "antlr4_9_3" in clash[0]) if named else not clash


OLDER = """
import pathlib, sys
text = pathlib.Path("pyproject.toml").read_text()
sys.exit({said!r} if {refused!r} in text else 0)
"""


@pytest.mark.parametrize("refused", ["<3.15", "requires-python"])
def test_a_package_that_refuses_the_newest_nemo_gym_gets_an_older_one(
    step, tmp_path, monkeypatch, capfd, refused
):
    """If none will do, requires-python is as before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(step, "find_python", lambda *_: None)
    before = 'requires-python = ">=3.12,<3.15"\n'
    Path("pyproject.toml").write_text(before)
    Path("Dockerfile").write_text("FROM python:3.13-slim\n")
    said = RESOLVED.format("your project depends on pyarrow<21")
    command = [sys.executable, "-c", OLDER.format(said=said, refused=refused)]
    with pytest.raises(step.NewestRefused):
        step.sync(command, "`uv sync` failed, see above")
    if refused == "requires-python":
        with pytest.raises(step.Problem):
            step.sync_older(command, "`uv sync` failed, see above", UV, tmp_path)
        assert Path("pyproject.toml").read_text() == before
        assert "3.13-slim" in Path("Dockerfile").read_text()
        return
    step.sync_older(command, "`uv sync` failed, see above", UV, tmp_path)
    assert '">=3.12,<3.13.14"' in Path("pyproject.toml").read_text()
    assert "python:3.12-slim" in Path("Dockerfile").read_text()
    assert "is now >=3.12,<3.13.14, which has an older one" in capfd.readouterr().out


@pytest.mark.nightly
def test_no_package_pulls_nemo_gym_down(tmp_path):
    """Not to a hydra-core before 1.3, nor to the candidate of a release."""
    text = f"""
        [project]
        name = "one"
        version = "1"
        requires-python = ">=3.12,<3.15"
        dependencies = ["nemo-gym-env-runtime[nemo-gym]", "antlr4-python3-runtime>4.9.3"]
        [tool.uv.sources]
        nemo-gym-env-runtime = {{ path = "{ROOT / "runtime"}" }}
    """
    settings = tmp_path / "pyproject.toml"
    settings.write_text(text)
    command = [UV, "lock", "--python", sys.executable]
    done = run(command, tmp_path, check=False)
    assert done.returncode == 1
    assert "hydra-core>=1.3" in done.stdout
    settings.write_text(text.replace(', "antlr4-python3-runtime>4.9.3"', ""))
    run(command, tmp_path)
    packages = tomllib.loads((tmp_path / "uv.lock").read_text())["package"]
    gym = {one["version"] for one in packages if one["name"] == "nemo-gym"}
    assert {version.rpartition(".")[0] for version in gym} == {"0.4", "0.7"}


def test_a_copy_without_tasks_says_how_to_build_the_wheel(copy, template, tmp_path):
    printed = copy(tmp_path / "my_env").stdout
    [command] = [line for line in printed.splitlines() if "uv build" in line]
    run([UV, *command.split()[1:]], template)
    assert len(list((tmp_path / "my_env/nemo_gym/vendor").glob("*.whl"))) == 1


def test_a_failing_sync_says_what_to_do(project):
    pyproject = project / "nemo_gym/pyproject.toml"
    text = pyproject.read_text()
    asked = '["nemo-gym-env-runtime[nemo-gym]"]'
    assert asked in text
    pyproject.write_text(text.replace(asked, '["nemo-gym>=9999"]'))
    lines = post_generate(project)
    assert "`uv sync` failed" in lines[-1]
    assert str(project / "nemo_gym") in lines[-1]


def test_conflicts_are_named_before_anything_is_run(project):
    git(project, "init", "--quiet", "--initial-branch", "main")
    server = project / "nemo_gym/server.py"
    for options, text in (([], "1"), (["-b", "one"], "2"), (["main"], "3")):
        if options:
            git(project, "checkout", "--quiet", *options)
        server.write_text(text)
        git(project, "add", "--all")
        git(project, "commit", "--quiet", "--message", text)
    with pytest.raises(Exception, match="returned non-zero"):
        git(project, "merge", "one")
    [line] = post_generate(project, "update")
    assert "conflicts in nemo_gym/server.py" in line
    assert not (project / "nemo_gym/.venv").exists()


CONFLICT = """\
[project]
<<<<<<< before updating
dependencies = [
    "mine>=1",
    "nemo-gym-env-runtime[nemo-gym]",
]
=======
dependencies = ["nemo-gym-env-runtime[models,nemo-gym]"{more}]
>>>>>>> after updating
"""


@pytest.mark.parametrize("more", ["", ', "yours"'])
def test_only_the_runtimes_extras_are_merged(step, tmp_path, monkeypatch, more):
    """Nobody knows whether a package that only the update names is wanted."""
    monkeypatch.chdir(tmp_path)
    settings = tmp_path / "pyproject.toml"
    settings.write_text(text := CONFLICT.replace("{more}", more))
    step.merge_dependencies([tmp_path])
    merged = '[project]\ndependencies = [\n    "mine>=1",\n'
    merged += '    "nemo-gym-env-runtime[models,nemo-gym]",\n]\n'
    assert settings.read_text() == (text if more else merged)


def test_an_interpreter_behind_pyenvs_shims_is_found(step, tmp_path, monkeypatch):
    """uv does not know these interpreters, which are in pyenv's versions folder."""
    for version in ("3.11.9", "3.12.1", "3.12.10", "3.15.0", "miniforge3"):
        python = tmp_path / "versions" / version / "bin/python"
        python.parent.mkdir(parents=True)
        python.touch()
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\nexit 1\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.delenv("UV_PYTHON", raising=False)
    found = step.find_python(str(uv), ">=3.12,<3.15")
    assert found == str(tmp_path / "versions/3.12.10/bin/python")
    newer = tmp_path / "versions/3.13.14/bin/python"
    newer.parent.mkdir(parents=True)
    newer.touch()
    assert step.find_python(str(uv), ">=3.12,<3.15") == str(newer)
    assert step.find_python(str(uv), ">=3.15.1,<3.16") is None
    assert step.find_python(str(uv), ">=3.11,<3.12").endswith("3.11.9/bin/python")


def test_a_pyenv_that_this_user_may_not_read_has_no_interpreters(step, monkeypatch):
    """After `su`, PYENV_ROOT may name root's."""
    denied = mock.Mock()
    denied.glob.side_effect = PermissionError(13, "Permission denied")
    monkeypatch.setattr(step, "pyenv_root", lambda: denied)
    monkeypatch.delenv("UV_PYTHON", raising=False)
    assert step.find_python("false", ">=3.12,<3.15") is None


def test_the_pin_names_the_interpreter_and_pyenvs_uv(step, tmp_path, monkeypatch):
    (tmp_path / "nemo_gym").mkdir()
    pin = tmp_path / "nemo_gym/.python-version"
    pin.write_text("3.13\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    step.pin_python("3.12.1", "/usr/local/bin/uv")
    assert pin.read_text() == "3.12\n"
    step.pin_python("3.13.15", str(tmp_path / "pyenv/versions/3.11.7/bin/uv"))
    assert pin.read_text().splitlines() == [
        "3.13",
        "# pyenv finds uv only in the version that has it:",
        "3.11.7",
    ]
    monkeypatch.chdir(pin.parent)
    asked = run([UV, "python", "pin"], pin.parent)  # uv reads past the comment
    assert asked.stdout.split("\n")[0] == "3.13"


def test_the_script_needs_nothing_but_python():
    """Copier's own interpreter runs it, which has no package of ours."""
    code = f"import runpy; runpy.run_path({str(SCRIPT)!r})"
    run([sys.executable, "-I", "-S", "-c", code], Path("/"))


def test_a_class_is_completed_once_and_before_it_is_imported(
    step, tmp_path, monkeypatch
):
    """archetype=gymnasium needs that. Later, the class and rows are the user's."""
    folder = tmp_path / "nemo_gym"
    folder.mkdir()
    commands = []
    for name in ("sync", "run"):
        monkeypatch.setattr(step, name, lambda command, _: commands.append(command))
    monkeypatch.setattr(step, "installed", lambda folder: ("3.13.15", "0.7.0"))
    monkeypatch.setattr(step, "required_python", lambda folder: ">=3.12")
    monkeypatch.setattr(step, "find_python", lambda uv, required: None)
    monkeypatch.setattr(step, "pin_python", lambda *arguments: None)
    monkeypatch.chdir(tmp_path)
    folder = Path("nemo_gym")
    given = step.Step("copy", writer=["env_runtime.gymnasium"])
    step.install(given, folder, "uv", [])
    ran = [command[command.index("python") + 1 :] for command in commands[1:]]
    assert ran == [
        ["-m", "env_runtime.gymnasium"],
        ["make_rows.py", "--example", "--overwrite"],
        ["gates.py", "import", "--write-tools", "--signatures", "[]"],
    ]
    (folder / ".venv").mkdir()
    (folder / "data").mkdir()
    for rows, more in (("", ["sync", "run", "run", "run"]), ("{}", ["sync", "run"])):
        (folder / "data/example.jsonl").write_text(rows)
        commands.clear()
        step.install(given, folder, "uv", [])
        assert [command[1] for command in commands] == more
    shutil.rmtree(folder / ".venv")  # a clone of the project, with rows
    commands.clear()
    step.install(step.Step("update", writer=given.writer), folder, "uv", [])
    assert [command[1] for command in commands] == ["sync", "run"]


@pytest.mark.parametrize(
    ("gymnasium_id", "stays"), [("FrozenLake-v1", True), ("Taxi-v4", False)]
)
def test_a_class_that_could_not_be_completed_is_removed(
    step, render, tmp_path, monkeypatch, gymnasium_id, stays
):
    """In a folder that was there before, the next copy would keep it."""

    def fail(command: list[str], failure: str, *folder: Path) -> None:
        if "env_runtime.gymnasium" in command:
            raise step.Problem(failure)

    project = render(archetype="gymnasium", gymnasium_id=gymnasium_id)
    shutil.copytree(project, tmp_path / "my_env")
    monkeypatch.chdir(tmp_path / "my_env")
    monkeypatch.setattr(step, "run", fail)
    monkeypatch.setattr(step, "sync", fail)
    monkeypatch.setattr(step, "installed", lambda folder: ("3.13.15", "0.7.0"))
    monkeypatch.setattr(step, "find_python", lambda uv, required: None)
    monkeypatch.setattr(step, "pin_python", lambda *arguments: None)
    with pytest.raises(step.Problem, match="the class could not be completed"):
        given = step.Step("copy", writer=["env_runtime.gymnasium"])
        step.install(given, Path("nemo_gym"), "uv", [])
    assert Path("my_env.py").exists() == stays


@pytest.mark.parametrize(
    ("text", "skeleton"),
    [
        ('{"ground_truth": [{"size": null}]}\n', True),
        ('{"ground_truth": [{"size": 3}]}\n', False),
        ('{"ground_truth": [{"size": null}]}\n' * 2, False),
        ("", False),
    ],
)
def test_the_next_step_for_rows_that_nobody_wrote(step, tmp_path, text, skeleton):
    rows = tmp_path / "example.jsonl"
    assert not step.is_skeleton(rows)
    rows.write_text(text)
    assert step.is_skeleton(rows) == skeleton


def test_a_new_class_with_names_of_tools_is_noted(step):
    given = {"stubs": ["add", "undo"], "place": "Counter in counter.py"}
    [note] = step.new_class_notes(step.Step("copy", **given))
    assert note.startswith(
        "Counter in counter.py is a new class. Write its methods without parameters: "
        "add, undo. To serve a class of yours instead, save it"
    )
    assert step.new_class_notes(step.Step("update", **given)) == []
    assert step.new_class_notes(step.Step("copy")) == []


def test_a_dataset_that_a_clone_would_lack_is_noted(step, monkeypatch, tmp_path):
    """make_rows.py has its place, which is another one on another machine."""
    project = tmp_path / "my_env"
    (project / "nemo_gym").mkdir(parents=True)
    monkeypatch.chdir(project)

    def notes(place):
        return step.dataset_notes(step.Step("copy", writer=["env_runtime.rows", place]))

    assert notes("hf:org/questions") == notes("../questions.csv") == []
    outside, absolute = notes("../../questions.csv"), notes(f"{project}/questions.csv")
    for [note], place in ((outside, tmp_path), (absolute, project)):
        assert note.startswith(f"make_rows.py reads {place}/questions.csv, which a cl")
        assert note.endswith(f" into {project}, and correct SOURCE in make_rows.py")
    git(tmp_path, "init", "--quiet")
    assert notes("../../questions.csv") == []  # the repository around it has it
    assert step.dataset_notes(step.Step("copy", writer=["env_runtime.gymnasium"])) == []


def test_a_dataset_that_is_not_there_is_refused_before_anything_is_installed(
    step, monkeypatch, tmp_path
):
    (tmp_path / "my_env/nemo_gym").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "my_env")
    (tmp_path / "here.csv").touch()
    for place in ("../../here.csv", "../../*.csv", str(tmp_path), "hf:org/gone"):
        step.check_dataset(step.Step("copy", writer=["env_runtime.rows", place]))
    gone = step.Step("copy", writer=["env_runtime.rows", "../../gone.csv"])
    with pytest.raises(
        step.Problem, match=f"dataset: {tmp_path}/gone.csv is not there"
    ):
        step.check_dataset(gone)


def test_what_a_class_of_an_earlier_release_imports_is_declared(
    step, monkeypatch, tmp_path
):
    """Until 0.8, the runtime brought math-verify for the archetype answer."""
    monkeypatch.chdir(tmp_path)
    settings, module = tmp_path / "nemo_gym/pyproject.toml", tmp_path / "my_env.py"
    settings.parent.mkdir()
    settings.write_text('description = "Sums, graded by math-verify."')
    module.write_text("from math_verify import parse\n")
    assert step.former_packages() == [["math-verify>=0.9"]]
    settings.write_text('dependencies = ["math-verify"]')
    assert step.former_packages() == []
    settings.write_text("")
    module.write_text("import math\n")
    assert step.former_packages() == []
