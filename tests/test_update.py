"""`copier update`: the template's fixes arrive, and what the user wrote stays."""

import os
import shutil
from pathlib import Path

import pytest

from conftest import COPIER, UV, git, run


@pytest.fixture
def releases(template, tmp_path):
    """A clone of the template that tests can release new versions of."""
    clone = tmp_path / "releases"
    shutil.copytree(template, clone)
    return clone


@pytest.fixture
def project(releases, tmp_path):
    """A committed project of v0.1.0."""
    folder = tmp_path / "my_env"
    run([COPIER, "copy", "--skip-tasks", "--defaults", releases, folder], tmp_path)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Generated")
    return folder


def release(clone, tag, edits):
    for name, (old, new) in edits.items():
        path = clone / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", tag)
    git(clone, "tag", tag)


def edit(project, name, old, new):
    path = project / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def commit(project):
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "Mine")


def update(project, *options):
    return run(
        [COPIER, "update", "--trust", "--skip-tasks", "--defaults", *options],
        project,
        check=False,
    )


FIX = {
    "template/nemo_gym/session_server.py": ("max_sessions: int = 1000", "max_sessions: int = 2000"),
    "archetypes/game/domain.py": ("MAX_GUESSES = 6", "MAX_GUESSES = 7"),
    "archetypes/game/tasks.json": ("Play Wordle", "Play the game"),
}  # fmt: skip


def test_fixes_arrive_and_edits_stay(releases, project):
    edit(project, "my_env.py", "present", "somewhere")
    edit(project, "nemo_gym/data/example.jsonl", "Play Wordle", "Win at Wordle")
    edit(
        project,
        "nemo_gym/server.py",
        "        return app\n",
        "        app.title = 'Mine'\n        return app\n",
    )
    commit(project)
    release(releases, "v0.2.0", FIX)
    done = update(project)
    assert done.returncode == 0, done.stdout
    assert (
        "max_sessions: int = 2000"
        in (project / "nemo_gym/session_server.py").read_text()
    )
    assert "app.title = 'Mine'" in (project / "nemo_gym/server.py").read_text()
    domain = (project / "my_env.py").read_text()
    assert "somewhere" in domain
    assert "MAX_GUESSES = 6" in domain
    rows = (project / "nemo_gym/data/example.jsonl").read_text()
    assert rows.startswith(
        '{"responses_create_params": {"input": [{"role": "user", "content": "Win at'
    )
    assert "_commit: v0.2.0" in (project / ".copier-answers.yml").read_text()
    assert not list(project.rglob("*.rej"))


def test_a_tool_can_be_added_by_an_update(project):
    done = update(project, "--data", "tools=guess; hint()")
    assert done.returncode == 0, done.stdout
    assert (
        'app.post("/hint")(self.hint)' in (project / "nemo_gym/server.py").read_text()
    )


def test_an_update_equals_a_fresh_render(releases, project, tmp_path):
    release(releases, "v0.2.0", {k: v for k, v in FIX.items() if "template/" in k})
    assert update(project).returncode == 0
    run(
        [COPIER, "copy", "--skip-tasks", "--defaults", releases, "fresh/my_env"],
        tmp_path,
    )
    different = run(
        ["diff", "--recursive", "--exclude=.git", project, tmp_path / "fresh/my_env"],
        tmp_path,
        check=False,
    )
    assert different.stdout == ""


def test_a_wrapped_module_stays_through_updates(releases, tmp_path):
    own = "class MyEnv:\n    def guess(self, word):\n        return word\n"
    project = tmp_path / "my_env"
    project.mkdir()
    (project / "my_env.py").write_text(own)
    run([COPIER, "copy", "--skip-tasks", "--defaults", releases, project], tmp_path)
    git(project, "init", "--quiet", "--initial-branch", "main")
    commit(project)
    release(releases, "v0.2.0", FIX)
    done = update(project)
    assert done.returncode == 0, done.stdout
    assert (project / "my_env.py").read_text() == own
    assert not (project / "nemo_gym/tests/test_domain.py").exists()
    assert (
        "max_sessions: int = 2000"
        in (project / "nemo_gym/session_server.py").read_text()
    )


def test_an_update_installs_once_after_the_merge(releases, tmp_path):
    """The post-generation step runs on a copy, and once at the end of an update."""
    log = tmp_path / "log"
    step = releases / "extensions/post_generate.py"
    step.write_text(
        "import pathlib, sys\n"
        f"with open({str(log)!r}, 'a') as log:\n"
        "    edited = 'mine' in pathlib.Path('my_env.py').read_text()\n"
        "    print(sys.argv[1], edited, file=log)\n"
    )
    git(releases, "commit", "--quiet", "--all", "--message", "Log")
    git(releases, "tag", "v0.1.1")
    project = tmp_path / "my_env"
    run([COPIER, "copy", "--trust", "--defaults", releases, project], tmp_path)
    git(project, "init", "--quiet", "--initial-branch", "main")
    edit(project, "my_env.py", "Wordle", "mine: Wordle")
    commit(project)
    release(releases, "v0.2.0", FIX)
    run([COPIER, "update", "--trust", "--defaults"], project)
    assert log.read_text().splitlines() == ["copy False", "update True"]


def test_use_this_template_renders_in_place(template, tmp_path):
    """What the workflow of a repository made with GitHub's button does."""
    made = tmp_path / "My-Env"
    shutil.copytree(template, made)
    script = made / "extensions/use_template.sh"
    bin_folder = Path(UV).parent
    run(
        ["bash", script, template, "My-Env"],
        made,
        PATH=f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
    )
    assert not (made / "copier.yml").exists()
    assert not (made / ".github/workflows/use-template.yml").exists()
    assert (made / "my_env.py").is_file()
    ours = (template / ".github/workflows/ci.yml").read_bytes()
    assert (made / ".github/workflows/ci.yml").read_bytes() == ours
    git(made, "add", "--all")
    changed = git(made, "status", "--porcelain", "--", ".github/workflows").split()
    assert changed == ["D", ".github/workflows/use-template.yml"]
