"""The agent of a class with reply(), which Copier cannot know before it is imported.

NeMo Gym's own agent ends an episode at the policy's first message. A project whose
answer to `talks` is true has an agent that asks the class for its reply.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TEMPLATE = Path(__file__).resolve().parents[1]


def is_missing(folder: Path, answers: Path) -> bool:
    """Whether an installed project needs the agent and does not have it.

    `answers` is Copier's file of the project, seen from the current folder. A class that cannot be imported needs none yet: the import gate says why.
    """
    configs = folder.glob("configs/*_agent.yaml")
    usual = any("simple_agent:" in path.read_text("utf-8") for path in configs)
    if not (usual and answers.is_file()):
        return False
    code = (
        "from env_runtime import project; from env_runtime.episode.tasks import "
        "replies; print('talks:', replies(project.here().load_class()))"
    )
    printed = subprocess.run(
        [(folder / ".venv/bin/python").absolute(), "-c", code],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
    )
    return printed.stdout.endswith("talks: True\n")


def add(answers: Path) -> list[str]:
    """Merge all that the template renders for a class with reply() into the project.

    Returns the files in which the user's edits conflict with it. Raises
    subprocess.CalledProcessError if the template cannot be rendered.
    """
    conflicts = []
    with tempfile.TemporaryDirectory() as temporary:
        # Copier would clone a repository, and this one may be a partial clone.
        source = Path(temporary, "template")
        ignored = shutil.ignore_patterns(".git", ".venv")
        shutil.copytree(TEMPLATE, source, ignore=ignored)
        before = _render(source, Path(temporary, "before"), answers, talks="false")
        after = _render(source, Path(temporary, "after"), answers, talks="true")
        for new in filter(Path.is_file, after.rglob("*")):
            name = new.relative_to(after)
            old, own = before / name, Path(name)
            if not old.exists():
                own.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(new, own)
            elif old.read_bytes() != new.read_bytes() and own.exists():
                merge = ["git", "merge-file", "--quiet", own, old, new]
                if subprocess.run(merge, check=False).returncode != 0:
                    conflicts.append(str(name))
    return sorted(conflicts)


def _render(source: Path, destination: Path, answers: Path, *, talks: str) -> Path:
    """Render the project elsewhere, with its recorded answers but this one.

    Returns the destination.
    """
    (destination / answers).parent.mkdir(parents=True)
    shutil.copy(answers, destination / answers)
    command = [sys.executable, "-m", "copier", "copy", "--quiet", "--overwrite"]
    options = ["--defaults", "--skip-tasks", f"--data=talks={talks}"]
    options += ["--answers-file", str(answers)]
    subprocess.run([*command, *options, source, destination], check=True)
    return destination
