"""Write the folder that `openenv push` turns into a Hugging Face Space.

    uv run python -m {package}.frameworks.openenv_space FOLDER [--add PATTERN ...]
    uv run openenv push FOLDER [--private] [--repo-id owner/name]

`openenv push` sends one folder, and the server needs what is beside openenv/, too: the
runtime, the class, and the rows, with their answers. So FOLDER gets the project's files
that the image needs, and at its root what OpenEnv and Hugging Face look for: README.md,
Dockerfile, openenv.yaml, and the package that AutoEnv installs. Name other files that
the class reads with --add. Files that hold a key are refused.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import shipped
from ..command_line import exit_status, new_parser
from ..project import Project, here

# Patterns, as in a .dockerignore. Other files are copied only if --add names them.
NEEDED = [
    "openenv",
    *shipped.READ,
    *shipped.ROWS,
    "nemo_gym/vendor/*.whl",
    "!openenv/dist",
]

# Files of openenv/ that are copied to the root, too: OpenEnv and pip look for them there.
AT_ROOT = ["Dockerfile", "README.md", "openenv.yaml", "*_trl.py", "*_openenv/**"]
PACKAGE = ["pyproject.toml", "hatch_build.py"]
NEXT = """\
{count} files. The rows are among them, with their answers: --private hides them.
  uv run openenv push {folder} --private"""
CLIENT = '"""For `openenv push`; pip installs {}_openenv/."""\n'


def main(arguments: list[str] | None = None) -> int:
    """Write the folder. Raises DeployError."""
    parser = new_parser(__doc__)
    parser.add_argument("folder", type=Path, help="a new folder")
    text = "also copy these files: paths from the project's root, with * and **"
    parser.add_argument(
        "--add", action="append", default=[], metavar="PATTERN", help=text
    )
    options = parser.parse_args(arguments)
    project = here()
    files = write_space(project, options.folder.resolve(), options.add)
    print("\n".join(files))
    if "openenv/uv.lock" in files:
        for warning in shipped.lock_warnings(project.root / "openenv/uv.lock"):
            print(f"warning: {warning}", file=sys.stderr)
    print(NEXT.format(count=len(files), folder=options.folder))
    return 0


def write_space(project: Project, folder: Path, named: Sequence[str] = ()) -> list[str]:
    """Write the files into a new folder. Returns their paths in it.

    `named` are patterns of further files. Raises DeployError if the folder already
    exists, or if a file holds a key.
    """
    shipped.check_new(folder)
    source = project.root / "openenv"
    ignore = source / "Dockerfile.dockerignore"
    files = shipped.wanted(project, folder, [*NEEDED, *named], ignore)
    shipped.copy_files(project, files, folder)
    own = "pyproject.toml" in files  # of the user's package, which the image builds
    at_root = shipped.matcher(AT_ROOT if own else [*AT_ROOT, *PACKAGE])
    for path in files:
        place = path.removeprefix("openenv/")
        if place != path and at_root.match_file(place):
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / place, folder / place)
    # A Space has the page, which needs more packages.
    _replace(folder / "Dockerfile", "ARG WEB=false", "ARG WEB=true")
    if not own:
        _replace(folder / "pyproject.toml", '"../nemo_gym/', '"nemo_gym/')
    for name in ("__init__.py", "client.py"):
        (folder / name).write_text(CLIENT.format(project.name), encoding="utf-8")
    written = (path for path in folder.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(folder)) for path in written)


def _replace(file: Path, old: str, new: str) -> None:
    file.write_text(
        file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8"
    )


if __name__ == "__main__":
    sys.exit(exit_status("openenv_space.py", main))
