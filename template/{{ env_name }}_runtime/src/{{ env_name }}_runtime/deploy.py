"""Deploy the environment to a Hugging Face Space.

    uv run python -m plumbing.deploy [--space owner/name] [--private] [--with-data]
                                     [--dry-run FOLDER]

The Space gets what the image gets: the project's files but for those that its
.dockerignore names, and in a git work tree but for those that git ignores. At its root
are nemo_gym/Dockerfile and a README of the Space's own. Whatever else is in the Space
is removed. --dry-run writes all of that into a folder instead. Files that hold a key are
refused, and those that look like rows are only pushed if you say so.

The token is HF_TOKEN, or that of `uv run hf auth login`.
"""

import argparse
import json
import os
import posixpath
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from detect_secrets.core import scan
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.settings import transient_settings
from pathspec import PathSpec

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "nemo_gym"

PORT = 7860  # of a Space: server.py takes it if SPACE_ID is set
MARK = Path("nemo_gym", "plumbing", "deploy.py")  # is in what a dry run wrote

# Never pushed, whatever the .dockerignore says.
SECRETS = ".env* env.yaml .netrc .pypirc .ssh .aws id_rsa* id_ed25519* *.key *.pem"
NEVER = [f"**/{name}" for name in (".git", ".venv*", *SECRETS.split())]

# detect-secrets finds the rest, but not by entropy, which would refuse every lock file.
KEY = re.compile(
    r"\bhf_[A-Za-z0-9]{30,}|\bsk-[\w-]{32,}|\bnvapi-[\w-]{40,}|\be2b_[0-9a-f]{32,}"
)
UNSURE = ["Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector"]
UNSURE += ["IPPublicDetector"]

# Files that may be rows: by their suffix, or by a key of a row's.
DATA = (".jsonl", ".csv", ".tsv", ".parquet", ".arrow", ".db", ".sqlite", ".sqlite3")
ROW_KEY = re.compile(rb'"(?:ground_truth|responses_create_params|expected_output)"\s*:')

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


def matcher(patterns: Iterable[str]) -> PathSpec:
    """Docker's patterns as git's. The last one that matches a file decides.

    Docker reads each from the project's root on, git only those with a slash.
    """
    rooted = []
    for line in map(str.strip, patterns):
        if line and not line.startswith("#"):
            name = posixpath.normpath(line.removeprefix("!").strip()).strip("/")
            rooted.append(f"!/{name}" if line.startswith("!") else f"/{name}")
    return PathSpec.from_lines("gitignore", rooted)


def ignore_file() -> Path:
    """What `docker build` reads: beside the Dockerfile, else at the project's root."""
    beside = PROJECT / "Dockerfile.dockerignore"
    return beside if beside.is_file() else ROOT / ".dockerignore"


def collect(dry_run: Path | None = None) -> Iterator[str]:
    """The files of the project, relative to ROOT, that a Space gets."""
    lines = _read(ignore_file()).splitlines()
    ignored, never = matcher(lines), matcher(NEVER)
    for path in _in_git() or _walk(lines):
        file = ROOT / path
        folders = list(file.parents)[: path.count("/")]
        if not (
            ignored.match_file(path)
            or never.match_file(path)
            or file.is_symlink()  # it may lead to what is not the project's
            or not file.is_file()
            or any(one == dry_run or (one / MARK).is_file() for one in folders)
        ):
            yield path


def _in_git() -> list[str]:
    """What git tracks of the project, or would track; nothing if git ignores it all."""
    if not any((folder / ".git").exists() for folder in (ROOT, *ROOT.parents)):
        return []
    # Git sets GIT_DIR and the like for its hooks; they may be another repository's.
    own = {name: text for name, text in os.environ.items() if name[:4] != "GIT_"}
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=own, stdout=subprocess.PIPE, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise DeployError(f"git must list the files of {ROOT}: {error}") from None
    return sorted(set(os.fsdecode(done.stdout).split("\0")) - {""})


def _walk(lines: list[str]) -> Iterator[str]:
    """All files, without the folders that hold none for the Space: .venv, .git."""
    # A pattern with ! may bring back a file in a folder that another one leaves out.
    keeps = any(line.strip().startswith("!") for line in lines)
    pruned = matcher(NEVER if keeps else NEVER + lines)
    for folder, folders, files in os.walk(ROOT):
        here = Path(folder).relative_to(ROOT)
        folders[:] = [x for x in folders if not pruned.match_file(str(here / x))]
        yield from sorted(str(here / name) for name in files)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DeployError(f"{path} is missing: run `copier update`") from None


def assemble(folder: Path) -> list[str]:
    """Write the Space into a folder, which is there and empty. Returns its files."""
    files = list(collect(folder))
    if "nemo_gym/uv.lock" not in files:
        raise DeployError(
            f"{PROJECT} has no uv.lock, which the Space installs: run `uv lock` there, "
            "and see that neither git nor .dockerignore ignores it"
        )
    for path in files:
        content = (ROOT / path).read_bytes()
        for line, kind in _keys(ROOT / path, content):
            raise DeployError(
                f"{path}, line {line}, looks like it holds a key ({kind}): remove it, or "
                f"name the file in {ignore_file()}"
            )
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    (folder / "Dockerfile").write_text(_dockerfile(), encoding="utf-8")
    (folder / "README.md").write_text(_readme(), encoding="utf-8")
    return sorted({*files, "Dockerfile", "README.md"})


def _keys(path: Path, content: bytes) -> Iterator[tuple[int, str]]:
    """Line and kind of each key in a file."""
    text = content.decode("utf-8", "replace")
    for found in KEY.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, f"{found[0][:8]}..."
    known = get_mapping_from_secret_type_to_class().values()
    names = [{"name": one.__name__} for one in known if one.__name__ not in UNSURE]
    with transient_settings({"plugins_used": names}):
        for secret in scan.scan_file(str(path)):
            yield secret.line_number, secret.type


def _rows(folder: Path, files: list[str]) -> list[str]:
    """The files that may hold tasks with their answers."""
    found = []
    for path in files:
        looks = path.endswith((*DATA, *(f"{one}.gz" for one in DATA)))
        code = path.endswith((".py", ".md"))  # which name the keys of a row
        if looks or (not code and ROW_KEY.search((folder / path).read_bytes())):
            found.append(path)
    return found


def _ask_for_rows(found: list[str]) -> None:
    """Raises DeployError unless whoever deploys agrees to push these files."""
    names = ", ".join(found)
    question = (
        f"{names} may hold tasks with their answers, for all to read. Push? [y/N] "
    )
    if sys.stdin.isatty() and input(question).strip().lower() in ("y", "yes"):
        return
    raise DeployError(
        f"{names} may hold tasks with their answers, for all to read: name them in "
        f"{ignore_file()}, or push them with --with-data"
    )


def _dockerfile() -> str:
    """The Dockerfile, for the port of a Space."""
    path = PROJECT / "Dockerfile"
    ports = f"ENV PORT={PORT}\nEXPOSE {PORT}"
    text, exposed = re.subn(r"^EXPOSE\b.*$", ports, _read(path), flags=re.MULTILINE)
    if exposed != 1:
        raise DeployError(f"{path} must have one line with EXPOSE, got {exposed}")
    return text


def _readme() -> str:
    project = {"description": "", **_pyproject()["project"], "port": PORT}
    project["name"] = project["name"].removesuffix("-environment")
    # A JSON string is a YAML string.
    return README.format(title=json.dumps(project["name"]), **project)


def _pyproject() -> dict[str, Any]:
    return tomllib.loads(_read(PROJECT / "pyproject.toml"))


def warnings(files: list[str]) -> Iterator[str]:
    """What whoever deploys should know about the files."""
    for path in _rows(ROOT, [one for one in files if (ROOT / one).is_file()]):
        yield f"{path} may hold tasks with their answers, for all to read"
    lock = _read(PROJECT / "uv.lock")
    indexes = set(re.findall(r'registry = "(https?://[^"]+)"', lock))
    for index in sorted(indexes - {"https://pypi.org/simple"}):
        yield (
            f"uv.lock names the package index {index}, which Hugging Face may not "
            "reach, and anyone who reads the Space learns of: "
            "`uv lock --default-index https://pypi.org/simple` makes another"
        )


def push(folder: Path, space: str, private: bool) -> None:
    """Make the Space what the folder is."""
    import huggingface_hub

    if not (token := huggingface_hub.get_token()):
        raise DeployError("no token: set HF_TOKEN, or run `uv run hf auth login`")
    api = huggingface_hub.HfApi(token=token)
    repo: Any = {"repo_id": space, "repo_type": "space"}
    upload: Any = {"delete_patterns": "*", "commit_message": "Deploy"}
    try:
        api.create_repo(**repo, space_sdk="docker", private=private, exist_ok=True)
        if private:  # a Space that was there keeps its visibility otherwise
            api.update_repo_settings(**repo, private=True)
        api.upload_folder(**repo, **upload, folder_path=folder)
    # Each release series of huggingface_hub has the errors of another HTTP library.
    except Exception as error:
        reason = " ".join(str(error).split()) or repr(error)
        raise DeployError(
            f"the Space {space!r} could not be written ({reason}): the token needs "
            f"write access to {space.partition('/')[0]}'s Spaces"
        ) from error


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    named = _pyproject().get("tool", {}).get("environment", {}).get("space", "")
    text = "default: space of [tool.environment] in pyproject.toml"
    add("--space", default=named, metavar="OWNER/NAME", help=text)
    add("--private", action="store_true", help="only you can see the Space")
    text = "push files that look like rows of a dataset, too"
    add("--with-data", action="store_true", help=text)
    text = "push nothing: write what would be pushed into a new folder"
    add("--dry-run", type=Path, metavar="FOLDER", help=text)
    options = parser.parse_args(arguments)
    if options.dry_run:
        folder = options.dry_run.resolve()
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise DeployError(f"{folder} is there already: name a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        return _report(assemble(folder), folder)
    space = options.space
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", space):
        raise DeployError(
            f"the Space must be owner/name, got {space!r}: give --space, or set "
            "space of [tool.environment] in pyproject.toml"
        )
    with tempfile.TemporaryDirectory() as name:
        files = assemble(Path(name))
        _report(files, Path(name))
        if not options.with_data and (found := _rows(Path(name), files)):
            _ask_for_rows(found)
        push(Path(name), space, options.private)
    host = re.sub(r"[^a-z0-9]+", "-", space.lower())
    print(NEXT.format(space=space, url=f"https://{host}.hf.space"))


def _report(files: list[str], folder: Path) -> None:
    print("\n".join(files))
    size = sum((folder / path).stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1e6:.1f} MB")
    for warning in warnings(files):
        print(f"warning: {warning}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except DeployError as problem:
        sys.exit(f"deploy.py: {problem}")
