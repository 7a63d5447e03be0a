"""Deploy the environment to a Hugging Face Space.

    uv run python -m {package}.deploy [--space owner/name]
        [--private] [--add PATTERN ...] [--with-data] [--dry-run FOLDER]

The Space gets what a server needs: the runtime, the class, the files of nemo_gym/ that
are served, and at its root nemo_gym/Dockerfile and a README of its own. Name every other
file, such as data that the class reads, with --add, or in data_files or space_files
of [tool.environment] in pyproject.toml. Files that .dockerignore or git ignores are never
pushed. Everything else in the Space is removed. --dry-run writes the same files into a
folder instead. Files that hold a key are refused, and files that look like rows are
only pushed if you say so.

The token is HF_TOKEN, or the one of `uv run hf auth login`.
"""

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .command_line import exit_status, new_parser
from .errors import DeployError
from .hf_space import (
    assemble,
    check_new,
    ignore_file,
    not_pushed,
    pyproject,
    rows_among,
    warnings,
)
from .project import Project, here

NEXT = """\
https://huggingface.co/spaces/{space} builds now. In its settings, set API_TOKEN as a
secret: until then, anybody who reaches the Space may play. Also add there the keys that
the environment needs. Then, from here:
  API_TOKEN=... uv run python gates.py --url {url}"""


def main(arguments: list[str] | None = None) -> int:
    """Push the Space, or write it into a folder. Raises DeployError."""
    project = here()
    parser = new_parser(__doc__)
    add = parser.add_argument
    table = pyproject(project).get("tool", {}).get("environment", {})
    default = table.get("space", "")
    text = "default: space of [tool.environment] in pyproject.toml"
    add("--space", default=default, metavar="OWNER/NAME", help=text)
    add("--private", action="store_true", help="only you can see the Space")
    text = "also push these files: paths from the project's root, with * and **"
    add("--add", action="append", default=[], metavar="PATTERN", help=text)
    text = "also push files that look like rows of a dataset"
    add("--with-data", action="store_true", help=text)
    text = "push nothing: write what would be pushed into a new folder"
    add("--dry-run", type=Path, metavar="FOLDER", help=text)
    options = parser.parse_args(arguments)
    named = [*table.get("data_files", []), *table.get("space_files", []), *options.add]
    if options.dry_run:
        write_dry_run(project, options.dry_run.resolve(), named)
    else:
        deploy(project, options.space, named, options.private, options.with_data)
    return 0


def write_dry_run(project: Project, folder: Path, named: Sequence[str] = ()) -> None:
    """Write the Space into a new folder. Raises DeployError."""
    check_new(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _report(project, assemble(project, folder, named), folder)


def deploy(
    project: Project,
    space: str,
    named: Sequence[str],
    private: bool = False,
    with_data: bool = False,
) -> None:
    """Push the project to the Space `owner/name`. Raises DeployError.

    `named` are patterns of further files, which the server itself does not need.
    """
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", space):
        raise DeployError(
            f"the Space must be owner/name, got {space!r}: give --space, or set "
            "space of [tool.environment] in pyproject.toml"
        )
    with tempfile.TemporaryDirectory() as name:
        files = assemble(project, Path(name), named)
        _report(project, files, Path(name))
        if not with_data and (rows := rows_among(Path(name), files)):
            _ask_for_rows(project, rows)
        push(Path(name), space, private)
    host = re.sub(r"[^a-z0-9]+", "-", space.lower())
    print(NEXT.format(space=space, url=f"https://{host}.hf.space"))


def _report(project: Project, files: list[str], folder: Path) -> None:
    print("\n".join(files))
    size = sum((folder / path).stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1e6:.1f} MB")
    if left := not_pushed(project, files, folder):
        print(
            f"not pushed: {', '.join(left)} (if the class needs a file, --add it)",
            file=sys.stderr,
        )
    for warning in warnings(project, files):
        print(f"warning: {warning}", file=sys.stderr)


def _ask_for_rows(project: Project, rows: list[str]) -> None:
    """Raise DeployError unless the person who deploys agrees to push these files."""
    names = ", ".join(rows)
    question = (
        f"{names} may hold tasks with their answers, for all to read. Push? [y/N] "
    )
    if sys.stdin.isatty() and input(question).strip().lower() in ("y", "yes"):
        return
    raise DeployError(
        f"{names} may hold tasks with their answers, for all to read: name them in "
        f"{ignore_file(project)}, or push them with --with-data"
    )


def push(folder: Path, space: str, private: bool) -> None:
    """Replace the content of the Space with the folder's. Raises DeployError."""
    import huggingface_hub  # slow to import, and a dry run does not need it

    if not (token := huggingface_hub.get_token()):
        raise DeployError("no token: set HF_TOKEN, or run `uv run hf auth login`")
    api = huggingface_hub.HfApi(token=token)
    repo: Any = {"repo_id": space, "repo_type": "space"}
    upload: Any = {"delete_patterns": "*", "commit_message": "Deploy"}
    try:
        api.create_repo(**repo, space_sdk="docker", private=private, exist_ok=True)
        if private:  # an existing Space would keep its visibility
            api.update_repo_settings(**repo, private=True)
        api.upload_folder(**repo, **upload, folder_path=folder)
    # Each release series of huggingface_hub raises the errors of another HTTP library.
    except Exception as error:
        reason = " ".join(str(error).split()) or repr(error)
        raise DeployError(
            f"the Space {space!r} could not be written ({reason}): the token needs "
            f"write access to {space.partition('/')[0]}'s Spaces"
        ) from error


if __name__ == "__main__":
    sys.exit(exit_status("deploy.py", main))
