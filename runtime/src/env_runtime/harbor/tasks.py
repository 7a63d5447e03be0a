"""The folders of Harbor's tasks, one for each row."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..episode.declaration import declared
from ..episode.tasks import steps_of
from ..episode.tools import SAY
from ..episode.types import REPLY, Row
from ..errors import DeployError, NoOracleError
from ..evaluation.observations import first_observation, with_observation
from ..evaluation.policies import solution_for
from ..evaluation.rows import content_parts, messages_of
from ..project import Project
from ..resources_server.over_mcp import unplayable
from ..shipped import pyproject
from . import ANSWER, has_tools

REWARD = "/tmp/reward.txt"
HERE = Path(__file__).parent
CONFIG = """\
schema_version = "1.4"
artifacts = [{{ source = "{reward}", service = "server" }}]

[task]
name = {name}
description = {description}

[metadata]
difficulty = {difficulty}

[agent]
timeout_sec = {seconds}

# The server's container grades the episode: no agent can write there.
[verifier]
environment_mode = "separate"

[[verifier.collect]]
service = "server"
command = "python -m {package}.harbor.serve --verdict {reward}"
timeout_sec = 600.0
"""
TOOLS = """
[[environment.mcp_servers]]
name = {server}
transport = "streamable-http"
url = "http://server:11000/mcp"
"""
COMPOSE = """\
services:
  main:
    depends_on:
      server:
        condition: service_healthy
    volumes:
      - answer:/answer
  server:
    build:
      context: ./server
    environment:
{variables}
    volumes:
      - answer:/answer:ro
volumes:
  answer: {{}}
"""
# The agents of Harbor install what they need. The solution needs Python.
AGENT = "FROM python:3.13-slim\nWORKDIR /app\n"
SERVER = """\
FROM {image}
COPY row.json /task/row.json
CMD ["python", "-m", "{package}.harbor.serve", "/task/row.json"]
"""
VERIFIER = "FROM python:3.13-slim\nCOPY . /tests/\n"
TEST = f"""\
#!/bin/sh
# The server's container has asked /verify: see [[verifier.collect]] in task.toml. Without
# a reward, the episode failed, and not the agent.
cp {REWARD} /logs/verifier/reward.txt
"""
SOLVE = "#!/bin/sh\npython3 /solution/solve.py\n"
USES = "Use the tools of the MCP server `{server}`."
SAYS = f"Talk to the other side with its tool `{SAY}`: nothing else that you write is heard."
WRITES = (
    f"Write your final message, with the answer, to `{ANSWER}`. Only that is graded."
)


def write_tasks(
    project: Project, rows: Sequence[Row], image: str, seconds: float, out: Path
) -> Iterator[tuple[Path, str]]:
    """Write each row's task below `out`. Yields its folder, and what it lacks.

    Raises DeployError for a class that an agent of Harbor cannot play.
    """
    if reason := unplayable(project.load_class()):
        raise DeployError(reason)
    digits = max(4, len(str(len(rows))))
    name = project.name.replace("_", "-").strip("-")
    for number, row in enumerate(rows, start=1):
        folder = out / f"{name}-{number:0{digits}}"
        yield folder, write_task(project, row, image, seconds, folder)


def write_task(
    project: Project, row: Row, image: str, seconds: float, folder: Path
) -> str:
    """Write a row's task, also over an earlier one. Returns what it lacks, if anything.

    Raises DeployError if the prompt has an image, or the folder is something else.
    """
    kind, package = project.load_class(), __name__.partition(".")[0]
    instruction = _instruction(project, row, folder.name)
    configured = {
        "name": _text(f"{folder.name.rpartition('-')[0]}/{folder.name}"),
        "description": _text(pyproject(project)["project"].get("description", "")),
        "difficulty": _text(str(row.get("difficulty", "unknown"))),
        "seconds": float(seconds),
        "server": _text(project.name),
    }
    settings = CONFIG + TOOLS if has_tools(project) else CONFIG
    variables = {"SESSION_IDLE_SECONDS": "86400", "MODEL_ANSWER_SECONDS": "86400"}
    for model in project.models:
        for part in ("MODEL", "BASE_URL", "API_KEY"):
            variables[f"{model.upper()}_{part}"] = f"${{{model.upper()}_{part}:-}}"
    listed = "\n".join(f'      {key}: "{text}"' for key, text in variables.items())
    files = {
        "task.toml": settings.format(reward=REWARD, package=package, **configured),
        "instruction.md": instruction,
        "environment/Dockerfile": AGENT,
        "environment/docker-compose.yaml": COMPOSE.format(variables=listed),
        "environment/server/Dockerfile": SERVER.format(image=image, package=package),
        "environment/server/row.json": json.dumps(row, ensure_ascii=False),
        "tests/Dockerfile": VERIFIER,
        "tests/test.sh": TEST,
    }
    lacking = ""
    try:
        steps, answer = _steps(project, row)
    except NoOracleError as error:
        lacking = f"no solution: {error}"
    else:
        solution = {"url": "http://server:11000/mcp", "steps": steps}
        if declared(kind).ends_with_answer:
            solution |= {"answer": answer, "answer_file": ANSWER}
        files["solution/solve.sh"] = SOLVE
        files["solution/steps.json"] = json.dumps(solution, ensure_ascii=False)
        files["solution/solve.py"] = (HERE / "solve.py").read_text(encoding="utf-8")
    if folder.exists():
        if not (folder / "task.toml").is_file():
            raise DeployError(f"{folder} exists, and is not a task: name another OUT")
        shutil.rmtree(folder)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    for script in folder.rglob("*.sh"):
        script.chmod(0o755)
    return lacking


def _text(text: str) -> str:
    """A string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _instruction(project: Project, row: Row, name: str) -> str:
    """The prompt with the first observation, and how to play. Raises DeployError."""
    kind = project.load_class()
    texts = []
    for item in messages_of(with_observation(row, first_observation(kind, row))):
        parts = content_parts(item.get("content"))
        if any("text" not in part for part in parts):
            raise DeployError(
                f"{name}: the prompt has an image, and Harbor's instructions are text: "
                "show it as the answer of a tool"
            )
        texts += [part["text"] for part in parts if part["text"].strip()]
    own = declared(kind)
    if has_tools(project):
        texts.append(USES.format(server=project.name))
    if own.replies:
        texts.append(SAYS)
    elif own.takes_answer:
        texts.append(WRITES)
    return "\n\n".join(texts) + "\n"


def _steps(project: Project, row: Row) -> tuple[list[Any], str]:
    """The oracle's calls over MCP, and its answer. Raises NoOracleError."""
    kind = project.load_class()
    listed = row.get("responses_create_params", {}).get("tools") or []
    solution = solution_for(row, listed, kind)
    steps = [
        [SAY, {"text": sent["answer"]}] if tool == REPLY else [tool, sent]
        for tool, sent in steps_of(kind, solution)
    ]
    return steps, solution.answer
