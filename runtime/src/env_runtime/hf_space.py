"""The files of a Hugging Face Space, and the files that must not be in it."""

import json
import os
import posixpath
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from detect_secrets.core import scan
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.settings import transient_settings
from pathspec import PathSpec

from .errors import DeployError
from .imports import not_in_image, own_files
from .project import SETTINGS, Project

PORT = 7860  # a Space's port, which server.py takes if SPACE_ID is set
# A folder that has this file is an earlier dry run.
MARK = SETTINGS

# The files of nemo_gym/ that an image needs. Any other file is pushed only if the user
# names it: nobody can list all names and formats of keys and of rows.
_FILES = "__init__.py gates.py rollout.py server.py view.py pyproject.toml uv.lock"
_FILES += " README.md .python-version Dockerfile.dockerignore vendor/*.whl"
_FILES += " configs/{name}.yaml configs/{name}_agent.yaml configs/{name}_train.yaml"
_FILES += " configs/{name}_eval.toml"
_FILES += " environments/{name}/config.yaml environments/{name}/manifest.yaml"
for _place in ("resources_servers/{name}", "responses_api_agents/{name}_agent"):
    _FILES += f" {_place}/*.py {_place}/requirements.txt {_place}/pytest.ini"

# Never pushed, even if named.
SECRETS = ".env* *.env env.yaml .netrc .pypirc .ssh .aws .docker .kube kaggle.json"
SECRETS += " id_rsa* id_ed25519* *.key *.pem *.der *.p12 *.pfx *.jks"
NEVER = [f"**/{name}" for name in (".git", ".venv*", *SECRETS.split())]

# detect-secrets finds keys by their form, and these, which it does not know.
KEY = re.compile(
    r"\bhf_[A-Za-z0-9]{30,}|\bsk-[\w-]{32,}|\bnvapi-[\w-]{40,}|\be2b_[0-9a-f]{32,}"
    r"|\bAIza[\w-]{35}|\bgsk_\w{40,}|\bdtn_\w{40,}"
)
# By entropy, it would refuse every lock file, and by a name without a value, too much.
UNSURE = {"Base64HighEntropyString", "HexHighEntropyString", "IPPublicDetector"}
UNSURE |= {"KeywordDetector"}
# A name such as openai_api_key with a value that has a digit; in code, a long literal.
_NAME = r"((?i:[\w-]*(?:[_-]key|apikey|token|secret|password|credentials?)(?:_?\d+)?))"
_NAME += r"[\"'\]]*[ \t]*[:=][ \t]*"
SETTING = re.compile(_NAME + r"[\"']?(?=[^\s\"',}$]*\d)")
LITERAL = re.compile(_NAME + r"[\"'](?=[^\s\"']*\d)[\w+/=-]{16,}[\"']")

# Files that may be rows: by their suffix, or by a key that rows have.
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


def check_new(folder: Path) -> None:
    """Raise DeployError if there is something in the folder, or a file in its place."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise DeployError(f"{folder} already exists: name a new folder")


def wanted(
    project: Project, folder: Path, patterns: Sequence[str], ignore: Path | None = None
) -> list[str]:
    """The files with the class, and those that Docker's patterns name.

    `folder` and `ignore` are those of collect().
    """
    place = Path(project.folder, project.top_name()).as_posix()
    module = [f"{place}{end}" for end in (".py", "/**/*.py", "/**/py.typed")]
    found = matcher([*module, *code_patterns(project), *patterns])
    return [path for path in collect(project, folder, ignore) if found.match_file(path)]


def assemble(project: Project, folder: Path, named: Sequence[str] = ()) -> list[str]:
    """Write the Space into an existing, empty folder. Returns its files.

    `named` are patterns of further files. Raises DeployError if a file that the image
    needs is missing, or if a file holds a key.
    """
    needed = [f"nemo_gym/{name}" for name in _FILES.format(name=project.name).split()]
    files = wanted(project, folder, [".dockerignore", *needed, *named])
    _check_complete(project, files)
    copy_files(project, files, folder)
    (folder / "Dockerfile").write_text(_dockerfile(project), encoding="utf-8")
    (folder / "README.md").write_text(_readme(project), encoding="utf-8")
    return sorted({*files, "Dockerfile", "README.md"})


def copy_files(project: Project, files: Sequence[str], folder: Path) -> None:
    """Copy files of the project. Raises DeployError if one holds a key."""
    for path in files:
        content = (project.root / path).read_bytes()
        refuse_keys(project, project.root / path, content)
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def refuse_keys(project: Project, path: Path, content: bytes) -> None:
    """Raise DeployError if a file of the project holds a key."""
    for line, kind in _keys(path, content):
        raise DeployError(
            f"{path.relative_to(project.root)}, line {line}, looks like it holds a key ({kind}): "
            f"remove it, or name the file in {ignore_file(project)}"
        )


def code_patterns(project: Project) -> list[str]:
    """The modules that the class imports, and the repository's own package, if any."""
    root, module = project.root, project.top_name()
    files = own_files(project.sources(), module)
    patterns = [str(file.relative_to(root)) for file in files]
    file = root / "pyproject.toml"
    settings = tomllib.loads(_read(file)) if file.is_file() else {}
    if "build-system" in settings:
        about = settings.get("project", {})
        folder = re.sub(r"[-.]+", "_", about.get("name", module)).lower()
        patterns += ["pyproject.toml", "LICENSE*", "src/**/*.py", f"{folder}/**/*.py"]
        # A package is not built without the files that its pyproject.toml names.
        named = [about.get("readme"), about.get("license")]
        named = [each.get("file") if isinstance(each, dict) else each for each in named]
        patterns += [name for name in named if name and (root / name).is_file()]
    return patterns


def _check_complete(project: Project, files: list[str]) -> None:
    """Raise DeployError if the image cannot be built from these files."""
    if "nemo_gym/uv.lock" not in files:
        raise DeployError(
            f"{project.gym} has no uv.lock, which the Space installs: run `uv lock` there, "
            "and see that neither git nor .dockerignore ignores it"
        )
    if not any(path.startswith("nemo_gym/vendor/") for path in files):
        raise DeployError(
            "the Space needs nemo_gym/vendor/*.whl: run "
            f"`{project.update_command()}` if it is missing, "
            "and see that neither git nor .dockerignore ignores it"
        )


def not_pushed(project: Project, files: Sequence[str], folder: Path) -> list[str]:
    """The files that an image gets, but the Space does not. `files` are the Space's.

    `folder` is the Space itself, which is left out.
    """
    return [path for path in collect(project, folder) if path not in files]


def collect(
    project: Project, dry_run: Path | None = None, ignore: Path | None = None
) -> Iterator[str]:
    """The files of the project, relative to its folder, that an image gets.

    `dry_run` is a folder that is left out, and `ignore` the file that `docker build`
    reads for the image, by default the file for nemo_gym/Dockerfile.
    """
    lines = _read(ignore or ignore_file(project)).splitlines()
    ignored, never = matcher(lines), matcher(NEVER)
    for path in _in_git(project) or _walk(project, lines):
        file = project.root / path
        folders = list(file.parents)[: path.count("/")]
        if not (
            ignored.match_file(path)
            or never.match_file(path)
            or file.is_symlink()  # it may lead to a file of another project
            or not file.is_file()
            or any(each == dry_run or (each / MARK).is_file() for each in folders)
        ):
            yield path


def ignore_file(project: Project) -> Path:
    """The file that `docker build` reads: beside the Dockerfile, else in the project's folder."""
    beside = project.gym / "Dockerfile.dockerignore"
    return beside if beside.is_file() else project.root / ".dockerignore"


def matcher(patterns: Iterable[str]) -> PathSpec:
    """Docker's patterns as git's. The last pattern that matches a file decides.

    Docker matches all patterns from the project's root, git only patterns with a slash.
    """
    rooted = []
    for line in map(str.strip, patterns):
        if line and not line.startswith("#"):
            name = posixpath.normpath(line.removeprefix("!").strip()).strip("/")
            rooted.append(f"!/{name}" if line.startswith("!") else f"/{name}")
    return PathSpec.from_lines("gitignore", rooted)


def _in_git(project: Project) -> list[str]:
    """The files that git tracks, or would track; none if git ignores the project."""
    if not any(
        (folder / ".git").exists() for folder in (project.root, *project.root.parents)
    ):
        return []
    # Git sets GIT_DIR and the like for its hooks; they may be another repository's.
    own = {name: text for name, text in os.environ.items() if name[:4] != "GIT_"}
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(
            command, cwd=project.root, env=own, stdout=subprocess.PIPE, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise DeployError(
            f"git must list the files of {project.root}: {error}"
        ) from None
    return sorted(set(os.fsdecode(done.stdout).split("\0")) - {""})


def _walk(project: Project, lines: list[str]) -> Iterator[str]:
    """All files, except in folders that hold none for the Space, such as .venv."""
    # A pattern with ! may bring back a file in a folder that another one leaves out.
    keeps = any(line.strip().startswith("!") for line in lines)
    pruned = matcher(NEVER if keeps else NEVER + lines)
    for folder, folders, files in os.walk(project.root):
        place = Path(folder).relative_to(project.root)
        folders[:] = [x for x in folders if not pruned.match_file(str(place / x))]
        yield from sorted(str(place / name) for name in files)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DeployError(f"{path} is missing: run `copier update`") from None


def _keys(path: Path, content: bytes) -> Iterator[tuple[int, str]]:
    """The line and the kind of each key in a file."""
    # Tools of Windows write UTF-16.
    utf16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = content.decode("utf-16" if utf16 else "utf-8", "replace")
    for match in KEY.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, f"{match[0][:8]}..."
    if path.suffix not in (".md", ".lock", *DATA):  # prose, locks and rows name keys
        pattern = LITERAL if path.suffix == ".py" else SETTING
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start(1)) + 1, match[1]
    plugins = get_mapping_from_secret_type_to_class().values()
    used = [{"name": name} for name in {kind.__name__ for kind in plugins} - UNSURE]
    with transient_settings({"plugins_used": used}):
        for secret in scan.scan_file(str(path)):
            yield secret.line_number, secret.type


def rows_among(folder: Path, files: list[str]) -> list[str]:
    """The files that may hold tasks with their answers."""
    rows = []
    for path in files:
        named = path.endswith((*DATA, *(f"{suffix}.gz" for suffix in DATA)))
        code = path.endswith((".py", ".md"))  # they name the keys that rows have
        if named or (not code and ROW_KEY.search((folder / path).read_bytes())):
            rows.append(path)
    return rows


def warnings(project: Project, files: list[str]) -> Iterator[str]:
    """Warnings about the files, for the person who deploys them."""
    for path in rows_among(
        project.root, [name for name in files if (project.root / name).is_file()]
    ):
        yield f"{path} may hold tasks with their answers, for all to read"
    yield from not_in_image(project.gym, project.root)
    yield from lock_warnings(project.gym / "uv.lock")


def lock_warnings(lock: Path) -> Iterator[str]:
    """Warnings about the packages' sources that a lock file names."""
    indexes = set(re.findall(r'registry = "(https?://[^"]+)"', _read(lock)))
    for index in sorted(indexes - {"https://pypi.org/simple"}):
        yield (
            f"uv.lock names the package index {index}, which Hugging Face may not "
            "reach, and which everybody who reads the Space can see: make another with "
            "`uv lock --default-index https://pypi.org/simple`"
        )


def _dockerfile(project: Project) -> str:
    """The text of the Dockerfile, with the port of a Space."""
    path = project.gym / "Dockerfile"
    ports = f"ENV PORT={PORT}\nEXPOSE {PORT}"
    own = _read(path)
    refuse_keys(project, path, own.encode())
    text, exposed = re.subn(r"^EXPOSE\b.*$", ports, own, flags=re.MULTILINE)
    if exposed != 1:
        raise DeployError(f"{path} must have one line with EXPOSE, got {exposed}")
    return text


def _readme(project: Project) -> str:
    table = {"description": "", **pyproject(project)["project"], "port": PORT}
    table["name"] = table["name"].removesuffix("-environment")
    # A JSON string is a YAML string.
    return README.format(title=json.dumps(table["name"]), **table)


def pyproject(project: Project) -> dict[str, Any]:
    """nemo_gym/pyproject.toml. Raises DeployError if it is missing."""
    return tomllib.loads(_read(project.gym / "pyproject.toml"))
