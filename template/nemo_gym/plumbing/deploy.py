"""Deploys the environment to a Hugging Face Space.

    uv run python -m plumbing.deploy [--space owner/name] [--private] [--dry-run FOLDER]

The Space gets what the image gets, that is, what the .dockerignore above this folder
leaves; at its root the Dockerfile of this folder, and a README of its own. Whatever
else is in the Space is removed. --dry-run writes all of that into a folder instead.

The token is HF_TOKEN, or that of `uv run hf auth login`.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "nemo_gym"

# The port of a Space, which server.py takes where SPACE_ID is set.
PORT = 7860

# Never pushed, whatever the .dockerignore says.
NEVER = [
    "**/.git",
    "**/.venv*",
    "**/.env*",
    "**/env.yaml",
    "**/.netrc",
    "**/.pypirc",
    "**/.ssh",
    "**/.aws",
    "**/id_rsa*",
    "**/id_ed25519*",
    "**/*.key",
    "**/*.pem",
]
SECRET = re.compile(
    rb"\bhf_[A-Za-z0-9]{30,}|\bsk-[\w-]{32,}|\bnvapi-[\w-]{40,}|\be2b_[0-9a-f]{32,}"
    rb"|\bgh[pousr]_[A-Za-z0-9]{36,}|-----BEGIN [A-Z ]*PRIVATE KEY"
)

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
secret: until then, all who reach the Space may play. Keys that the environment needs go
there too. Then, from here:
  API_TOKEN=... uv run python gates.py --url {url}"""


class DeployError(Exception):
    """What is wrong, and what to do, in one line."""


# ---------------------------------------------------------------------- the files


def ignored(path: str, patterns: list[str]) -> bool:
    """Whether .dockerignore patterns leave a file out; the last that matches decides."""
    out = False
    for pattern in patterns:
        keep = pattern.startswith("!")
        if _matches(path, pattern.lstrip("!").strip("/")):
            out = not keep
    return out


def _matches(path: str, pattern: str) -> bool:
    """Whether a pattern names a file, or a folder that it is in."""
    expression = "".join(
        {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part)
        or (part if part.startswith("[") else re.escape(part))
        for part in re.findall(r"\*\*/|\*\*|\*|\?|\[[^]]+\]|[^*?[]+|\[", pattern)
    )
    return re.fullmatch(f"{expression}(?:/.*)?", path) is not None


def collect(dry_run: Path | None = None) -> Iterator[str]:
    """The files of the project, relative to ROOT, that a Space gets."""
    try:
        lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise DeployError(
            f"{ROOT} has no .dockerignore, which says what stays private: "
            "bring it back with `copier update`"
        ) from None
    patterns = [line.strip() for line in lines]
    patterns = [line for line in patterns if line and not line.startswith("#")]
    # A whole folder can be left out where no later pattern brings back what is in it.
    never = (
        NEVER if any(line.startswith("!") for line in patterns) else NEVER + patterns
    )
    for folder, folders, files in os.walk(ROOT):
        here = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if not ignored(_relative(here / name), never)
            and not _is_dry_run(here / name, dry_run)
        )
        for name in sorted(files):
            path = _relative(here / name)
            # A link may lead to what is not the project's.
            if not (
                ignored(path, patterns)
                or ignored(path, NEVER)
                or (here / name).is_symlink()
            ):
                yield path


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _is_dry_run(folder: Path, current: Path | None) -> bool:
    """Whether a dry run wrote the folder, this one or one before."""
    return folder == current or (folder / "nemo_gym" / "deploy.py").is_file()


def assemble(folder: Path) -> list[str]:
    """Write the Space into a folder, which is there and empty. Returns its files."""
    if not (PROJECT / "uv.lock").is_file():
        raise DeployError(
            f"{PROJECT} has no uv.lock, which the Space installs: run `uv lock` there"
        )
    for path in collect(folder):
        content = (ROOT / path).read_bytes()
        if found := SECRET.search(content):
            line = content.count(b"\n", 0, found.start()) + 1
            raise DeployError(
                f"{path}, line {line}, looks like it holds a key "
                f"({found[0][:8].decode()}...): remove it, or name the file in "
                f"{ROOT / '.dockerignore'}"
            )
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    (folder / "Dockerfile").write_text(_dockerfile(), encoding="utf-8")
    (folder / "README.md").write_text(_readme(), encoding="utf-8")
    written = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in written)


def _dockerfile() -> str:
    """The Dockerfile, for the port of a Space."""
    path = PROJECT / "Dockerfile"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DeployError(
            f"{path} is missing: bring it back with `copier update`"
        ) from None
    text, exposed = re.subn(
        r"^EXPOSE\b.*$", f"ENV PORT={PORT}\nEXPOSE {PORT}", text, flags=re.MULTILINE
    )
    if exposed != 1:
        raise DeployError(
            f"{path} has {exposed} lines with EXPOSE, not one: deploy.py puts the "
            f"Space's port, {PORT}, there"
        )
    return text


def _readme() -> str:
    project = _pyproject()["project"]
    name = project["name"].removesuffix("-environment")
    return README.format(
        title=json.dumps(name),  # a JSON string is a YAML string
        name=name,
        port=PORT,
        description=project.get("description", ""),
    )


def _pyproject() -> dict[str, Any]:
    with open(PROJECT / "pyproject.toml", "rb") as file:
        return tomllib.load(file)


def warnings(files: list[str]) -> Iterator[str]:
    """What whoever deploys should know about the files."""
    for path in files:
        if path.endswith(".jsonl"):
            yield f"{path} may hold tasks with their answers, for all to read"
    lock = (PROJECT / "uv.lock").read_text(encoding="utf-8")
    indexes = set(re.findall(r'registry = "(https?://[^"]+)"', lock))
    for index in sorted(indexes - {"https://pypi.org/simple"}):
        yield (
            f"uv.lock names the package index {index}, which Hugging Face may not "
            "reach, and anyone who reads the Space learns of: "
            "`uv lock --default-index https://pypi.org/simple` makes another"
        )


# ---------------------------------------------------------------------- the Space


def push(folder: Path, space: str, private: bool) -> None:
    """Make the Space what the folder is."""
    import huggingface_hub

    token = huggingface_hub.get_token()
    if not token:
        raise DeployError(
            "no Hugging Face token: set HF_TOKEN, or run `uv run hf auth login`"
        )
    api = huggingface_hub.HfApi(token=token)
    where = {"repo_id": space, "repo_type": "space"}
    try:
        api.create_repo(**where, space_sdk="docker", private=private, exist_ok=True)
        if private:  # a Space that was there keeps its visibility otherwise
            api.update_repo_settings(**where, private=True)
        api.upload_folder(
            **where,
            folder_path=folder,
            delete_patterns="*",
            commit_message="Deploy",
        )
    # Each line of huggingface_hub has the errors of another HTTP library.
    except Exception as error:
        reason = " ".join(str(error).split()) or repr(error)
        raise DeployError(
            f"the Space {space!r} could not be written ({reason}): the token needs "
            f"write access to {space.partition('/')[0]}'s Spaces"
        ) from error


def _url(space: str) -> str:
    return f"https://{re.sub(r'[^a-z0-9]+', '-', space.lower())}.hf.space"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    settings = _pyproject().get("tool", {}).get("environment", {})
    parser.add_argument(
        "--space",
        default=settings.get("space", ""),
        metavar="OWNER/NAME",
        help="the Space (default: space of [tool.environment] in pyproject.toml)",
    )
    parser.add_argument(
        "--private", action="store_true", help="only you can see the Space"
    )
    parser.add_argument(
        "--dry-run",
        type=Path,
        metavar="FOLDER",
        help="push nothing: write what would be pushed into a new folder",
    )
    options = parser.parse_args(arguments)
    if options.dry_run:
        folder = options.dry_run.resolve()
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise DeployError(f"{folder} is there already: name a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        _report(assemble(folder), folder)
        return
    space = options.space
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", space):
        raise DeployError(
            f"the Space must be owner/name, got {space!r}: give --space, or set "
            "space of [tool.environment] in pyproject.toml"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _report(assemble(folder), folder)
        push(folder, space, options.private)
    print(NEXT.format(space=space, url=_url(space)))


def _report(files: list[str], folder: Path) -> None:
    for path in files:
        print(path)
    size = sum((folder / path).stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1e6:.1f} MB")
    for warning in warnings(files):
        print(f"warning: {warning}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except DeployError as problem:
        sys.exit(f"deploy.py: {problem}")
