"""Which files of a project belong to what is shipped: an image, a Space, a package, a wheel.

Files with the class go along, those that the runtime reads, and those that somebody names.
Files that git or the image's .dockerignore ignores do not, and no file that holds a key.
"""

import os
import posixpath
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathspec import PathSpec

from .errors import DeployError
from .facts import SECRETS
from .imports import own_files

if TYPE_CHECKING:  # while a wheel is built, there is only Hatchling
    from .project import Project

# The files of nemo_gym/ that the runtime reads wherever the class is, and the rows
READ = ["nemo_gym/server.py", "nemo_gym/pyproject.toml"]
ROWS = [f"nemo_gym/data/{name}.jsonl" for name in ("example", "train", "validation")]
# A folder that has this file is an earlier dry run.
MARK = READ[1]

# Never pushed, even if named.
NEVER = [f"**/{name}" for name in (".git", ".venv*", *SECRETS)]

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


def wanted(
    project: "Project",
    folder: Path,
    patterns: Sequence[str],
    ignore: Path | None = None,
) -> list[str]:
    """The files with the class, and those that Docker's patterns name.

    `folder` and `ignore` are those of collect().
    """
    place = Path(project.folder, project.top_name()).as_posix()
    module = [f"{place}{end}" for end in (".py", "/**/*.py", "/**/py.typed")]
    found = matcher([*module, *code_patterns(project), *patterns])
    return [path for path in collect(project, folder, ignore) if found.match_file(path)]


def collect(
    project: "Project", dry_run: Path | None = None, ignore: Path | None = None
) -> Iterator[str]:
    """The files of the project, relative to its folder, that an image gets.

    `dry_run` is a folder that is left out, and `ignore` the file that `docker build`
    reads for the image, by default the file for nemo_gym/Dockerfile.
    """
    lines = read_text(ignore or ignore_file(project)).splitlines()
    left_out = matcher([*lines, *NEVER])
    for path in _in_git(project) or _walk(project, lines):
        file = project.root / path
        folders = list(file.parents)[: path.count("/")]
        if not (
            left_out.match_file(path)
            or file.is_symlink()  # it may lead to a file of another project
            or not file.is_file()
            or any(each == dry_run or (each / MARK).is_file() for each in folders)
        ):
            yield path


def ignore_file(project: "Project") -> Path:
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


def _in_git(project: "Project") -> list[str]:
    """The files that git tracks, or would track; none if git ignores the project."""
    if not any(
        (folder / ".git").exists() for folder in (project.root, *project.root.parents)
    ):
        return []
    # Git sets GIT_DIR and the like for its hooks; they may be another repository's.
    own = {name: text for name, text in os.environ.items() if name[:4] != "GIT_"}
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.check_output(command, cwd=project.root, env=own)
    except (OSError, subprocess.CalledProcessError) as error:
        problem = f"git must list the files of {project.root}: {error}"
        raise DeployError(problem) from None
    return sorted(set(os.fsdecode(listed).split("\0")) - {""})


def _walk(project: "Project", lines: list[str]) -> Iterator[str]:
    """All files, except in folders that hold none for the Space, such as .venv."""
    # A pattern with ! may bring back a file in a folder that another one leaves out.
    keeps = any(line.strip().startswith("!") for line in lines)
    pruned = matcher(NEVER if keeps else NEVER + lines)
    for folder, folders, files in os.walk(project.root):
        place = Path(folder).relative_to(project.root)
        folders[:] = [x for x in folders if not pruned.match_file(str(place / x))]
        yield from sorted(str(place / name) for name in files)


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DeployError(f"{path} is missing: run `copier update`") from None


def code_patterns(project: "Project") -> list[str]:
    """The modules that the class imports, and the repository's own package, if any."""
    root, module = project.root, project.top_name()
    files = own_files(project.sources(), module)
    patterns = [str(file.relative_to(root)) for file in files]
    file = root / "pyproject.toml"
    settings = tomllib.loads(read_text(file)) if file.is_file() else {}
    if "build-system" in settings:
        about = settings.get("project", {})
        folder = re.sub(r"[-.]+", "_", about.get("name", module)).lower()
        patterns += ["pyproject.toml", "LICENSE*", "src/**/*.py", f"{folder}/**/*.py"]
        # A package is not built without the files that its pyproject.toml names.
        named = [about.get("readme"), about.get("license")]
        named = [each.get("file") if isinstance(each, dict) else each for each in named]
        patterns += [name for name in named if name and (root / name).is_file()]
    return patterns


def check_new(folder: Path) -> None:
    """Raise DeployError if there is something in the folder, or a file in its place."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise DeployError(f"{folder} already exists: name a new folder")


def copy_files(project: "Project", files: Sequence[str], folder: Path) -> None:
    """Copy files of the project. Raises DeployError if one holds a key."""
    for path in files:
        content = (project.root / path).read_bytes()
        refuse_keys(project, project.root / path, content)
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def refuse_keys(project: "Project", path: Path, content: bytes) -> None:
    """Raise DeployError if a file of the project holds a key."""
    for line, kind in _keys(path, content):
        raise DeployError(
            f"{path.relative_to(project.root)}, line {line}, looks like it holds a key ({kind}): "
            f"remove it, or name the file in {ignore_file(project)}"
        )


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
    from detect_secrets.core import scan
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.settings import transient_settings

    plugins = get_mapping_from_secret_type_to_class().values()
    used = [{"name": name} for name in {kind.__name__ for kind in plugins} - UNSURE]
    with transient_settings({"plugins_used": used}):
        for secret in scan.scan_file(str(path)):
            yield secret.line_number, secret.type


def rows_among(folder: Path, files: list[str]) -> list[str]:
    """The files that may hold tasks with their answers."""
    code = (".py", ".md")  # they name the keys that rows have
    return [
        path
        for path in files
        if path.removesuffix(".gz").endswith(DATA)
        or (not path.endswith(code) and ROW_KEY.search((folder / path).read_bytes()))
    ]


def lock_warnings(lock: Path) -> Iterator[str]:
    """Warnings about the packages' sources that a lock file names."""
    indexes = set(re.findall(r'registry = "(https?://[^"]+)"', read_text(lock)))
    for index in sorted(indexes - {"https://pypi.org/simple"}):
        yield (
            f"uv.lock names the package index {index}, which Hugging Face may not "
            "reach, and which everybody who reads the Space can see: make another with "
            "`uv lock --default-index https://pypi.org/simple`"
        )


def pyproject(project: "Project") -> dict[str, Any]:
    """nemo_gym/pyproject.toml. Raises DeployError if it is missing."""
    return tomllib.loads(read_text(project.gym / "pyproject.toml"))
