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

import json
import re
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import shipped
from .command_line import exit_status, new_parser
from .errors import DeployError, one_line
from .imports import not_in_image
from .project import Project, here

PORT = 7860  # a Space's port, which server.py takes if SPACE_ID is set

# The files of nemo_gym/ that an image needs. Any other file is pushed only if the user
# names it: nobody can list all names and formats of keys and of rows.
_FILES = """
__init__.py gates.py rollout.py server.py view.py pyproject.toml uv.lock README.md
.python-version Dockerfile.dockerignore vendor/*.whl configs/{name}.yaml
configs/{name}_agent.yaml configs/{name}_train.yaml configs/{name}_eval.toml
environments/{name}/config.yaml environments/{name}/manifest.yaml
"""
for _place in ("resources_servers/{name}", "responses_api_agents/{name}_agent"):
    _FILES += f" {_place}/*.py {_place}/requirements.txt {_place}/pytest.ini"
ANSWERS = "may hold tasks with their answers, for all to read"

README = """\
---
title: {title}
sdk: docker
app_port: {port}
---

# {name}

{description}

An RL environment for LLM agents, a [NeMo Gym](https://github.com/NVIDIA-NeMo/Gym)
resources server. `/docs` lists its tools, `/health` says whether it is up.
"""

NEXT = """\
https://huggingface.co/spaces/{space} builds now. In its settings, set API_TOKEN as a
secret: until then, anybody who reaches the Space may play. Also add there the keys that
the environment needs. Then, from here:
  API_TOKEN=... uv run python gates.py --url {url}"""


def assemble(project: Project, folder: Path, named: Sequence[str] = ()) -> list[str]:
    """Write the Space into an existing, empty folder. Returns its files.

    `named` are patterns of further files. Raises DeployError if a file that the image
    needs is missing, or if a file holds a key.
    """
    needed = [f"nemo_gym/{name}" for name in _FILES.format(name=project.name).split()]
    files = shipped.wanted(project, folder, [".dockerignore", *needed, *named])
    _check_complete(project, files)
    shipped.copy_files(project, files, folder)
    (folder / "Dockerfile").write_text(_dockerfile(project), encoding="utf-8")
    about = {"description": "", **shipped.pyproject(project)["project"]}
    about["name"] = about["name"].removesuffix("-environment")
    # A JSON string is a YAML string.
    text = README.format(title=json.dumps(about["name"]), port=PORT, **about)
    (folder / "README.md").write_text(text, encoding="utf-8")
    return sorted({*files, "Dockerfile", "README.md"})


def _check_complete(project: Project, files: list[str]) -> None:
    """Raise DeployError if the image cannot be built from these files."""
    if "nemo_gym/uv.lock" not in files:
        problem = f"{project.gym} has no uv.lock, which the Space installs: run `uv lock` there"
    elif not any(path.startswith("nemo_gym/vendor/") for path in files):
        update = f"run `{project.update_command()}` if it is missing"
        problem = f"the Space needs nemo_gym/vendor/*.whl: {update}"
    else:
        return
    raise DeployError(
        f"{problem}, and see that neither git nor .dockerignore ignores it"
    )


def _dockerfile(project: Project) -> str:
    """The text of the Dockerfile, with the port of a Space."""
    path = project.gym / "Dockerfile"
    text = shipped.read_text(path)
    shipped.refuse_keys(project, path, text.encode())
    ports = f"ENV PORT={PORT}\nEXPOSE {PORT}"
    text, exposed = re.subn(r"^EXPOSE\b.*$", ports, text, flags=re.MULTILINE)
    if exposed != 1:
        raise DeployError(f"{path} must have one line with EXPOSE, got {exposed}")
    return text


def main(arguments: list[str] | None = None) -> int:
    """Push the Space, or write it into a folder. Raises DeployError."""
    project = here()
    parser = new_parser(__doc__)
    add = parser.add_argument
    table = project.table()
    text = "default: space of [tool.environment] in pyproject.toml"
    add("--space", default=table.space, metavar="OWNER/NAME", help=text)
    add("--private", action="store_true", help="only you can see the Space")
    text = "also push these files: paths from the project's root, with * and **"
    add("--add", action="append", default=[], metavar="PATTERN", help=text)
    text = "also push files that look like rows of a dataset"
    add("--with-data", action="store_true", help=text)
    text = "push nothing: write what would be pushed into a new folder"
    add("--dry-run", type=Path, metavar="FOLDER", help=text)
    options = parser.parse_args(arguments)
    named = [*table.data_files, *table.space_files, *options.add]
    if options.dry_run:
        folder = options.dry_run.resolve()
        shipped.check_new(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _report(project, assemble(project, folder, named), folder)
    else:
        deploy(project, options, named)
    return 0


def deploy(project: Project, options: Namespace, named: Sequence[str]) -> None:
    """Push the project and the `named` files to the Space. Raises DeployError."""
    space: str = options.space
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", space):
        raise DeployError(
            f"the Space must be owner/name, got {space!r}: give --space, or set "
            "space of [tool.environment] in pyproject.toml"
        )
    with tempfile.TemporaryDirectory() as name:
        files = assemble(project, Path(name), named)
        _report(project, files, Path(name))
        if not options.with_data:
            _ask_for_rows(project, shipped.rows_among(Path(name), files))
        push(Path(name), space, options.private)
    host = re.sub(r"[^a-z0-9]+", "-", space.lower())
    print(NEXT.format(space=space, url=f"https://{host}.hf.space"))


def _report(project: Project, files: list[str], folder: Path) -> None:
    print("\n".join(files))
    size = sum((folder / path).stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1e6:.1f} MB")
    # An image gets these files, and a Space does not. `folder` is the Space itself.
    if left := [one for one in shipped.collect(project, folder) if one not in files]:
        note = f"not pushed: {', '.join(left)} (if the class needs a file, --add it)"
        print(note, file=sys.stderr)
    there = [path for path in files if (project.root / path).is_file()]
    warnings = [f"{path} {ANSWERS}" for path in shipped.rows_among(project.root, there)]
    warnings += not_in_image(project.gym, project.root)
    for warning in [*warnings, *shipped.lock_warnings(project.gym / "uv.lock")]:
        print(f"warning: {warning}", file=sys.stderr)


def _ask_for_rows(project: Project, rows: list[str]) -> None:
    """Raise DeployError unless the person who deploys agrees to push these files."""
    problem = f"{', '.join(rows)} {ANSWERS}"
    answer = "" if rows else "y"
    if rows and sys.stdin.isatty():
        answer = input(f"{problem}. Push? [y/N] ").strip().lower()
    if answer not in ("y", "yes"):
        own = shipped.ignore_file(project)
        raise DeployError(
            f"{problem}: name them in {own}, or push them with --with-data"
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
        reason = one_line(error) or repr(error)
        raise DeployError(
            f"the Space {space!r} could not be written ({reason}): the token needs "
            f"write access to {space.partition('/')[0]}'s Spaces"
        ) from error


if __name__ == "__main__":
    sys.exit(exit_status("deploy.py", main))
