"""Rows as Harbor tasks, read and checked by Harbor itself."""

import sys

import pytest

from projects import UV, python_in, run

HARBOR = [UV, "run", "--quiet", "--no-project", "--python", sys.executable]
HARBOR += ["--with", "harbor==0.26.0"]
# Without Docker's Compose, Harbor checks nothing of what it checks with it.
LINT = """
import shutil, subprocess, sys
from pathlib import Path
from unittest import mock
from harbor.lint import task as lint
from harbor.lint.models import DEFAULT_RULES
from harbor.models.task.task import Task

compose = ["docker", "compose", "version"]
if not shutil.which("docker") or subprocess.run(compose, capture_output=True).returncode:
    mock.patch.object(lint, "lint_compose", lambda *a, **k: []).start()
for folder in sorted(Path(sys.argv[1]).iterdir()):
    task = Task(folder)
    servers = [server.url for server in task.config.environment.mcp_servers]
    found = lint.lint_task(folder, selected_rules=DEFAULT_RULES)
    print(task.name, *servers, *(f"{one.rule}: {one.message}" for one in found))
"""


@pytest.mark.nightly
@pytest.mark.parametrize("archetype", ["game", "answer", "conversation", "sandbox"])
def test_harbor_takes_the_tasks(render, archetype, tmp_path):
    project = render(archetype=archetype)
    python_in(project, "-m", "env_runtime.harbor", tmp_path / "tasks", "--limit", "2")
    printed = run([*HARBOR, "python", "-c", LINT, tmp_path / "tasks"], tmp_path).stdout
    url = "" if archetype == "answer" else " http://server:11000/mcp"
    assert printed.splitlines() == [f"my-env/my-env-000{n}{url}" for n in (1, 2)]
