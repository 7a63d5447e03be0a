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
import os
import posixpath
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from detect_secrets.core import scan
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.settings import transient_settings
from pathspec import PathSpec

from .command_line import exit_status, new_parser
from .errors import DeployError
from .imports import not_in_image, own_files
from .project import SETTINGS, Project, here

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

NEXT = """\
https://huggingface.co/spaces/{space} builds now. In its settings, set API_TOKEN as a
secret: until then, anybody who reaches the Space may play. Also add there the keys that
the environment needs. Then, from here:
  API_TOKEN=... uv run python gates.py --url {url}"""


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
    problem = ""
    if "nemo_gym/uv.lock" not in files:
        problem = f"{project.gym} has no uv.lock, which the Space installs: run `uv lock` there"
    elif not any(path.startswith("nemo_gym/vendor/") for path in files):
        problem = (
            "the Space needs nemo_gym/vendor/*.whl: run "
            f"`{project.update_command()}` if it is missing"
        )
    if problem:
        raise DeployError(
            f"{problem}, and see that neither git nor .dockerignore ignores it"
        )


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


# ---------------------------------------------------------------------- the command


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
        folder = options.dry_run.resolve()
        check_new(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _report(project, assemble(project, folder, named), folder)
    else:
        deploy(project, options.space, named, options.private, options.with_data)
    return 0


def deploy(
    project: Project, space: str, named: Sequence[str], private: bool, with_data: bool
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
    # An image gets these files, and a Space does not. `folder` is the Space itself.
    if left := [path for path in collect(project, folder) if path not in files]:
        print(
            f"not pushed: {', '.join(left)} (if the class needs a file, --add it)",
            file=sys.stderr,
        )
    there = [path for path in files if (project.root / path).is_file()]
    warnings = [
        f"{path} may hold tasks with their answers, for all to read"
        for path in rows_among(project.root, there)
    ]
    warnings += not_in_image(project.gym, project.root)
    for warning in [*warnings, *lock_warnings(project.gym / "uv.lock")]:
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
