"""Adapt the user's files after an update from release 0.4 or earlier.

    python migrate.py ENV_NAME DOMAIN_MODULE DOMAIN_CLASS BACKEND

The template's modules are in the package env_runtime now. In 0.4 they were in the
folder <env>_runtime/, before that in several folders. This rewrites imports of them in
the user's files, adds the user's own dependencies to the new pyproject.toml, and removes
folders that only hold caches of deleted modules. It prints each change, and each line
that only a person can change.

Copier runs this in the destination, with its own interpreter: standard library only. A
second run changes nothing.
"""

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path("nemo_gym")
PACKAGE = Path(__file__).resolve().parents[1] / "runtime/src/env_runtime"
CACHES = {"__pycache__", ".ruff_cache", ".pytest_cache", ".mypy_cache"}

# Packages that have one package per backend. In 0.4 they were the backend.
BACKENDS = ("workspace", "desktop")

# Names of <env>_runtime.project that a Project has now.
OF_PROJECT = {
    "ENV_NAME": "name",
    "MODULE": "module",
    "CLASS": "class_name",
    "MODELS": "models",
    "ROOT": "root",
    "GYM": "gym",
    "ROWS": "rows",
    **{
        name: name
        for name in (
            *("table", "number_of_turns", "load_class", "check_imports"),
            *("load_server", "served_tools"),
        )
    },
}

# The places of modules of <env>_runtime that have other places in env_runtime. What is
# not named here has the same place.
RENAMED = {
    "frameworks.playing": "frameworks.rollouts",
    "frameworks.rows": "frameworks.splits",
    "frameworks.serving": "frameworks.access",
    "gates": "checks",
    "make_rows": "rows",
    "nemo_gym_gates": "gates",
    "rollouts": "evaluation",
    "server": "resources_server",
    "server.serve": "resources_server.launch",
    "serving": "server",
    "testing.fixtures": "testing",
    "testing.rows": "testing.row_tests",
    "testing.scripted_model": "evaluation.scripted_model",
    "testing.suite": "testing",
}

# The new module of an old module's names, "*" for all others. A target `x.y:Name` also
# renames.
MOVED = {
    "workspace_backend": {"*": "workspace"},
    "desktop_backend": {"*": "desktop"},
    "session_server": {
        "Limits": "settings",
        "tool_definitions": "resources_server.endpoints",
        "*": "server",
    },
    "trainers.trl_adapter": {"*": "trainers.trl"},
    "plumbing.client": {"*": "evaluation.client"},
    "plumbing.figures": {"*": "evaluation.stats"},
    "plumbing.gates": {
        "GateError": "errors",
        "oracle_reward": "episode.tasks",
        "starting_server": "checks.starting",
        "url_of": "checks.starting",
        "*": "checks.rows",
    },
    "plumbing.models": {"*": "evaluation.llm"},
    "plumbing.policies": {
        "NoOracle": "errors:NoOracleError",
        "sample_arguments": "episode.samples",
        "*": "evaluation.policies",
    },
    "plumbing.records": {
        "RolloutError": "errors",
        "ROWS": "project",
        "number_of_turns": "project",
        "load_rows": "evaluation.rows",
        "write_rows": "evaluation.rows",
        "as_response": "evaluation.trajectory",
        "function_call": "evaluation.trajectory",
        "with_tools": "evaluation.trajectory",
    },
    "plumbing.scripted_model": {"*": "evaluation.scripted_model"},
    "plumbing.splits": {
        "cut": "evaluation.row_generator",
        "example_rows": "evaluation.row_generator",
        "*": "rows",
    },
    # Of <env>_episode.py
    "_episode": {
        "Answer": "episode.episode",
        "Episode": "episode.episode",
        "sample_arguments": "episode.samples",
        "check_row": "evaluation.rows",
        "read_task": "episode.tasks",
        "task_type": "episode.tasks",
        "Tool": "episode.tools",
        "make_tool": "episode.tools",
        "tools_of": "episode.tools",
    },
}


class Names:
    """The names of one project, old and new."""

    def __init__(
        self, env_name: str, domain_module: str, domain_class: str, backend: str
    ) -> None:
        self.backend = backend
        self.folder = Path(f"{env_name}_runtime")
        self.moved = {
            env_name + module if module == "_episode" else module: targets
            for module, targets in MOVED.items()
        }
        self.environment = f"from {domain_module} import {domain_class}"
        # Packages of the template whose modules are all gone.
        self.packages = ("plumbing", "trainers")

    def is_gone(self, module: str) -> bool:
        """Whether an import names a module of an earlier release that is gone."""
        top = module.partition(".")[0]
        if module not in self.moved and top not in self.packages:
            return False
        places = [Path(f"{top}.py"), PROJECT / f"{top}.py"]
        places += [PROJECT / top / "__init__.py", Path(top) / "__init__.py"]
        return not any(place.exists() for place in places)

    def imports(self, node: ast.ImportFrom | ast.Import) -> list[str] | None:
        """The statements that replace an import, or None if it has to stay."""
        if isinstance(node, ast.Import):
            return self._modules(node)
        module = node.module or ""
        targets = self.moved.get(module, {})
        new: dict[str, list[str]] = {}
        lines = []
        for alias in node.names:
            name, bound = alias.name, alias.asname or alias.name
            if (module, name) == ("plumbing.environment", "EnvironmentClass"):
                lines.append(f"{self.environment} as {bound}")
                continue
            target = targets.get(name) or targets.get("*")
            if target is None or name == "*":
                return None
            place, _, renamed = target.partition(":")
            name = renamed or name
            new.setdefault(place, []).append(
                name if name == bound else f"{name} as {bound}"
            )
        lines += [
            f"from {self.module(place)} import {', '.join(names)}"
            for place, names in sorted(new.items())
        ]
        return lines

    def module(self, place: str) -> str:
        """The full name of a module of env_runtime, of this project's backend."""
        top, _, rest = place.partition(".")
        shared = rest and source_of(f"env_runtime.{place}")  # by all backends
        if top in BACKENDS and self.backend and not shared:
            top = f"{top}.{self.backend}"
        return ".".join(part for part in ("env_runtime", top, rest) if part)

    def _modules(self, node: ast.Import) -> list[str] | None:
        lines = []
        for alias in node.names:
            target = self.moved.get(alias.name, {}).get("*")
            if target is None or (alias.asname is None and "." in alias.name):
                return None
            above, _, last = self.module(target).rpartition(".")
            bound = alias.asname or alias.name
            lines.append(
                f"from {above} import {last}"
                + (f" as {bound}" if bound != last else "")
            )
        return lines


def git(*arguments: str) -> str | None:
    """The output of a git command, or None if it fails."""
    done = subprocess.run(
        ["git", *arguments], check=False, capture_output=True, text=True
    )
    return done.stdout if done.returncode == 0 else None


def files_of(pattern: str | Path) -> list[Path]:
    """The project's files of a pattern or folder that git does not ignore."""
    options = ("-z", "--cached", "--others", "--exclude-standard", "--")
    listed = git("ls-files", *options, str(pattern)) or ""
    paths = {Path(name) for name in listed.split("\0") if name}
    return sorted(path for path in paths if path.is_file())


def rewrite_imports(path: Path, names: Names) -> Iterator[str]:
    """Rewrite the imports of one file. Yields a line about each change."""
    source = path.read_bytes()
    try:
        tree = ast.parse(source)
        text = source.decode("utf-8")
    except (SyntaxError, ValueError):  # a conflict, or another encoding
        return
    lines = text.split("\n")
    for node in sorted(
        (
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
        ),
        key=lambda node: -node.lineno,
    ):
        modules = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
        )
        if getattr(node, "level", 0) or not all(map(names.is_gone, modules)):
            continue
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        before = lines[first][: node.col_offset]
        after = lines[last].encode()[node.end_col_offset :].decode()
        old = " ".join(" ".join(lines[first : last + 1]).split())
        new = names.imports(node)
        comments = re.findall("#.*", "\n".join(lines[first : last + 1]))
        alone = not before.strip() and re.match(r"\s*(#|$)", after)
        if new is None or not alone:
            yield f"{path}, line {first + 1}: `{old}` names a module that is gone"
            continue
        lines[first : last + 1] = [
            line for statement in new for line in fitted(before + statement)
        ]
        if comments:
            lines[first] += "  " + "  ".join(comments)
        yield f"{path}, line {first + 1}: {'; '.join(new)}"
    changed = "\n".join(lines)
    if changed != text:
        path.write_bytes(changed.encode("utf-8"))


CONFLICT = re.compile(
    r"^<{7} .*\n((?:.*\n)*?)={7}\n((?:.*\n)*?)>{7} .*\n", re.MULTILINE
)


def merge_imports(path: Path) -> Iterator[str]:
    """Resolve the conflicts of a Python file if all of them are about imports only.

    Both sides changed these lines: the template renamed its packages, and the user
    imported more. Yields a line about it.
    """
    base = git("show", f":1:./{path.as_posix()}")
    if base is None:
        return
    known = base.splitlines()
    text = path.read_text(encoding="utf-8")
    conflicts = CONFLICT.findall(text)
    lines = [line for sides in conflicts for line in "".join(sides).splitlines()]
    if not all(re.fullmatch(r"((from \S+ )?import [\w., ]+)?", line) for line in lines):
        return

    def resolved(match: re.Match[str]) -> str:
        mine = [line for line in match[1].splitlines() if line not in known]
        return "".join(f"{line}\n" for line in mine) + match[2]

    path.write_text(CONFLICT.sub(resolved, text), encoding="utf-8")
    git("reset", "--quiet", "--", str(path))
    yield f"{path}: your imports stay; `ruff check --fix` sorts them"


def rename_package(path: Path, names: Names) -> Iterator[str]:
    """Rename <env>_runtime in one Python file, also in strings and comments.

    Yields a line about each change.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except ValueError:  # another encoding
        return
    backends = "|".join(BACKENDS)
    place = rf"(?:{backends})(?:\.\w+)?\b|(?!(?:{backends})\b)\w+(?:\.\w+)*"
    old = rf"\b{names.folder}(?:\.({place})|(?= import ))"
    lines = text.split("\n")
    for number, line in enumerate(lines):
        new = re.sub(old, lambda match: names.module(renamed(match[1] or "")), line)
        if new != line:
            new = renamed_modules(new)
        if new != line:
            simple = re.fullmatch(r"\s*from \S+ import [\w, ]+", new)
            lines[number] = "\n".join(fitted(new)) if simple else new
            yield f"{path}, line {number + 1}: {new.strip()}"
    changed = "\n".join(lines)
    if changed != text:
        path.write_bytes(changed.encode("utf-8"))


def renamed(place: str) -> str:
    """The place in env_runtime of a module of <env>_runtime, or of a name in one."""
    parts = place.split(".")
    for count in range(len(parts), 0, -1):
        if target := RENAMED.get(".".join(parts[:count])):
            return ".".join([target, *parts[count:]])
    return place


def renamed_modules(line: str) -> str:
    """A line whose `from env_runtime import ...` names the modules of 0.5."""
    head, found, names = line.partition("from env_runtime import ")
    for name, target in RENAMED.items():
        if found and "." not in target:
            names = re.sub(
                rf"\b(?<!as ){name}\b(?=,| *$)", f"{target} as {name}", names
            )
            names = re.sub(rf"\b(?<!as ){name} as\b", f"{target} as", names)
    return head + found + names


def source_of(module: str) -> Path | None:
    """The file of a module of env_runtime, or None if there is no such module."""
    place = PACKAGE.parent.joinpath(*module.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def names_of(file: Path) -> set[str]:
    """The names at the top level of a module, and its modules if it is a package."""
    found = {path.stem for path in file.parent.iterdir()} - set(BACKENDS)
    names = found if file.name == "__init__.py" else set()
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                names.add(part.id)
            elif isinstance(part, ast.alias):
                names.add(part.asname or part.name)
    return names


def missing_names(path: Path) -> Iterator[str]:
    """A line about each import of a name that env_runtime does not have."""
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.level:
            continue
        module = node.module or ""
        if module.partition(".")[0] != "env_runtime":
            continue
        file = source_of(module)
        known = names_of(file) if file else set()
        for name in (alias.name for alias in node.names):
            if name not in known | {"*"}:
                yield f"{path}, line {node.lineno}: {module} has no {name}{hint(module, name)}"
    if "env_runtime" in text:
        for number, line in enumerate(text.split("\n"), 1):
            for name in re.findall(r"\bproject\.(\w+)", line):
                if name in OF_PROJECT:
                    new = f"project.here().{OF_PROJECT[name]}"
                    yield f"{path}, line {number}: write `{new}` for `project.{name}`"


def hint(module: str, name: str) -> str:
    """Advice for a name that a module does not have any more."""
    if module != "env_runtime.project" or name not in OF_PROJECT:
        return ""
    new = f"here().{OF_PROJECT[name]}"
    return f": write `from env_runtime.project import here`, and `{new}` for `{name}`"


def fitted(line: str) -> list[str]:
    """An import on one line, or on several as ruff writes it."""
    if len(line) <= 88:
        return [line]
    start, _, names = line.partition(" import ")
    indent = line[: len(line) - len(line.lstrip())]
    each = [f"{indent}    {name}," for name in names.split(", ")]
    return [f"{start} import (", *each, f"{indent})"]


# ---------------------------------------------------------------------- pyproject.toml

LISTS = ("dependencies", "dev")
SOURCES = re.compile(r"^\[tool\.uv\.sources\]\n((?:[^\[\n].*\n)*)", re.MULTILINE)
MAX_TURNS = re.compile(r"^max_turns = .*", re.MULTILINE)


def merge_pyproject(path: Path) -> Iterator[str]:
    """Resolve a conflict in a pyproject.toml that is only about what people change there.

    Both sides changed these lines: the template renamed or removed its packages, and the
    user added packages with `uv add`, or raised max_turns.
    """
    stages = [git("show", f":{number}:./{path.as_posix()}") for number in (1, 2, 3)]
    base, mine, new = stages
    if base is None or mine is None or new is None:
        return
    added = {name: list_items(mine, name) for name in LISTS}
    for name in LISTS:
        theirs = list_items(base, name)
        added[name] = [item for item in added[name] if item not in theirs]
        mine = replace_list(mine, name, base)
    theirs, ours = SOURCES.search(base), SOURCES.search(mine)
    lines = ours[1].splitlines(keepends=True) if ours else []
    sources = [line for line in lines if not theirs or line not in theirs[1]]
    if ours and theirs:
        mine = mine.replace(ours[0], theirs[0])
    elif ours:
        mine = mine.replace(f"\n{ours[0]}", "")
    turns, chosen = MAX_TURNS.search(base), MAX_TURNS.search(mine)
    if turns and chosen:
        mine = mine.replace(chosen[0], turns[0])
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(number)) for number in range(3)]
        for file, text in zip(files, (mine, base, new), strict=True):
            file.write_text(text, encoding="utf-8")
        merged = git("merge-file", "-p", *map(str, files))
    if merged is None:
        return
    for name, items in added.items():
        merged = add_items(merged, name, items)
    merged = SOURCES.sub(lambda match: match[0] + "".join(sources), merged, count=1)
    if turns and chosen and turns[0] != chosen[0]:
        merged = MAX_TURNS.sub(chosen[0], merged)
    path.write_text(merged, encoding="utf-8")
    git("reset", "--quiet", "--", str(path))
    kept = ", ".join(item for items in added.values() for item in items)
    yield f"{path}: your dependencies stay" + (f": {kept}" if kept else "")


def find_list(text: str, name: str) -> re.Match[str] | None:
    """A list of strings and tables in TOML, with its name; the items are group 1."""
    item = r'\s*(?:#[^\n]*\n|"[^"\n]*"|\'[^\'\n]*\'|\{[^}\n]*\}|,)'
    return re.search(rf"^{name} = \[((?:{item})*\s*)\]", text, re.MULTILINE)


def list_items(text: str, name: str) -> list[str]:
    """The strings of a list of TOML."""
    match = find_list(text, name)
    lines = re.sub(r"#[^\n]*|\{[^}\n]*\}", "", match[1]) if match else ""
    return [item[1:-1] for item in re.findall(r'"[^"\n]*"|\'[^\'\n]*\'', lines)]


def replace_list(text: str, name: str, source: str) -> str:
    """`text` with the list of `source`."""
    old, new = find_list(text, name), find_list(source, name)
    return text.replace(old[0], new[0], 1) if old and new else text


def add_items(text: str, name: str, items: list[str]) -> str:
    """`text` with more strings at the end of a list."""
    match = find_list(text, name)
    if not match or not items:
        return text
    lines = [line.strip() for line in match[1].strip().split("\n")]
    lines[-1] = lines[-1].rstrip(",") + ","
    lines += [f'"{item}",' if '"' not in item else f"'{item}'," for item in items]
    inner = "".join(f"    {line}\n" for line in lines)
    return text.replace(match[0], f"{name} = [\n{inner}]", 1)


# ---------------------------------------------------------------------- what is left


def remove_caches(folder: Path) -> Iterator[str]:
    """Remove a folder of deleted modules in which only caches are left."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    if folder.is_dir() and all(CACHES & set(path.parts) for path in files):
        shutil.rmtree(folder)
        yield f"{folder}/: removed, only caches were left"


def deleted_code(names: Names) -> Iterator[str]:
    """The places of changes that somebody made in a deleted module."""
    for module in ("workspace_backend", "desktop_backend"):
        path = Path(f"{module}.py")
        if not path.exists() and git("cat-file", "-e", f"HEAD:./{path}") is not None:
            yield (
                f"{path} is {names.module(MOVED[module]['*'])} now; if you had changed "
                f"it, `git show HEAD:./{path}` has your changes"
            )
    folder = names.folder
    paths = ("--", f"{folder}/")
    # The commit that added the folder: release 0.4 alone had it.
    commits = git("log", "--format=%h", "--diff-filter=A", *paths) or ""
    if commits and git("cat-file", "-e", f"HEAD:./{folder}") is not None:
        first = commits.split()[-1]
        if git("diff", "--name-only", first, "HEAD", *paths):
            yield (
                f"{folder}/ is deleted, and you had changed it: `git diff {first} HEAD "
                f"-- {folder}/` has your changes"
            )
        if own := ", ".join(map(str, files_of(folder))):
            yield f"{folder}/ is deleted, except your own files: {own}"


def other_mentions(names: Names) -> Iterator[str]:
    """The lines that still name the runtime of 0.4: commands, paths, packages."""
    old = f"{names.folder}|{str(names.folder).replace('_', '-')}"
    left_out = (f":!{names.folder}", ":!*uv.lock", ":!verifiers/pyproject.toml")
    found = git("grep", "--untracked", "-nIwE", old, "--", ".", *left_out) or ""
    for line in found.splitlines():
        path, number, text = line.split(":", 2)
        yield f"{path}, line {number}: `{text.strip()[:100]}`: the package is env_runtime"


def main(env_name: str, domain_module: str, domain_class: str, backend: str) -> None:
    names = Names(env_name, domain_module, domain_class, backend)
    reports = []
    for folder in (PROJECT / "plumbing", PROJECT / "trainers", names.folder):
        reports += remove_caches(folder)
    for path in files_of("*/pyproject.toml"):
        reports += merge_pyproject(path)
    for path in files_of("*.py"):
        if path.parts[0] != str(names.folder):
            reports += merge_imports(path)
            reports += rewrite_imports(path, names)
            reports += rename_package(path, names)
            reports += missing_names(path)
    reports += [*deleted_code(names), *other_mentions(names)]
    if reports:
        print("Moved to the package env_runtime", flush=True)
    for report in reports:
        print(f"  {report}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
