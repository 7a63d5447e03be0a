"""Write rows as Harbor tasks, a folder each.

    uv run python -m {package}.harbor OUT [--rows FILE] [--image NAME] [--limit N]

Each task has the project's image, in which the row's episode is played: its tools are the
task's MCP server, and /verify says the reward. The row, with its answer, is in that
container only. The solution makes the oracle's calls. Build the image first:
`docker build -f Dockerfile -t NAME ..`.
"""

import sys
from pathlib import Path

from ..command_line import counted, exit_status, new_parser, positive
from ..errors import DeployError
from ..evaluation.rows import load_rows
from ..project import here
from .tasks import write_tasks


def main(arguments: list[str] | None = None) -> int:
    """Write the tasks. Raises DeployError, RolloutError."""
    project = here()
    parser = new_parser(__doc__)
    parser.prog = "env_runtime.harbor"
    add = parser.add_argument
    add(
        "out",
        type=Path,
        metavar="OUT",
        help="a folder, which gets a folder for each row",
    )
    add("--rows", type=Path, metavar="FILE", help="default: data/example.jsonl")
    text = "the project's image (default: the environment's name)"
    add("--image", metavar="NAME", default=project.name, help=text)
    text = "write the first N rows"
    add("--limit", type=positive, metavar="N", help=text)
    text = "the most that an agent may take (default: 1800)"
    add("--seconds", type=positive, metavar="N", default=1800, help=text)
    options = parser.parse_args(arguments)
    rows = load_rows(options.rows)[: options.limit]
    if not rows:
        raise DeployError("there are no rows to write: name others with --rows")
    written = write_tasks(project, rows, options.image, options.seconds, options.out)
    for folder, lacking in written:
        if lacking:
            print(f"{folder.name}: {lacking}", file=sys.stderr)
    print(f"{counted(len(rows), 'task')} in {options.out}. With Docker:")
    print(f"  docker build -f Dockerfile -t {options.image} ..")
    print(f"  harbor run -p {options.out} -a oracle")
    return 0


if __name__ == "__main__":
    sys.exit(exit_status("harbor", main))
