"""Adapt the user's files after an update from release 0.3 or earlier.

    python migrate.py ENV_NAME DOMAIN_MODULE DOMAIN_CLASS

The template's modules are in the package <env>_runtime now. This rewrites imports of
them in the user's files, adds the user's own dependencies to the new pyproject.toml, and
removes folders that only hold caches of deleted modules. It prints each change, and each
import that only a person can change.

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

# The new module of an old module's names, "*" for all others. A target `x.y:Name` also
# renames.
MOVED = {
    "workspace_backend": {"*": "workspace"},
    "desktop_backend": {"*": "desktop"},
    "session_server": {
        "Limits": "settings",
        "tool_definitions": "server.endpoints",
        "*": "serving",
    },
    "trainers.trl_adapter": {"*": "trainers.trl"},
    "plumbing.client": {"*": "rollouts.client"},
    "plumbing.figures": {"*": "rollouts.stats"},
    "plumbing.gates": {
        "GateError": "errors",
        "oracle_reward": "episode.tasks",
        "starting_server": "gates.starting",
        "url_of": "gates.starting",
        "*": "gates.rows",
    },
    "plumbing.models": {"*": "rollouts.llm"},
    "plumbing.policies": {
        "NoOracle": "errors:NoOracleError",
        "sample_arguments": "episode.samples",
        "*": "rollouts.policies",
    },
    "plumbing.records": {
        "RolloutError": "errors",
        "ROWS": "project",
        "number_of_turns": "project",
        "load_rows": "rollouts.rows",
        "write_rows": "rollouts.rows",
        "as_response": "rollouts.trajectory",
        "function_call": "rollouts.trajectory",
        "with_tools": "rollouts.trajectory",
    },
    "plumbing.scripted_model": {"*": "testing.scripted_model"},
    "plumbing.splits": {
        "cut": "rollouts.row_generator",
        "example_rows": "rollouts.row_generator",
        "*": "make_rows",
    },
    # Of <env>_episode.py
    "_episode": {
        "Answer": "episode.episode",
        "Episode": "episode.episode",
        "sample_arguments": "episode.samples",
        "check_row": "episode.tasks",
        "oracle_calls": "episode.tasks",
        "read_task": "episode.tasks",
        "task_type": "episode.tasks",
        "Tool": "episode.tools",
        "make_tool": "episode.tools",
        "tools_of": "episode.tools",
    },
}


class Names:
    """The names of one project, old and new."""

    def __init__(self, env_name: str, domain_module: str, domain_class: str) -> None:
        self.runtime = f"{env_name}_runtime"
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
            f"from {self.runtime}.{place} import {', '.join(names)}"
            for place, names in sorted(new.items())
        ]
        return lines

    def _modules(self, node: ast.Import) -> list[str] | None:
        lines = []
        for alias in node.names:
            target = self.moved.get(alias.name, {}).get("*")
            if target is None or (alias.asname is None and "." in alias.name):
                return None
            above, _, last = f"{self.runtime}.{target}".rpartition(".")
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


def python_files(runtime: str) -> list[Path]:
    """The project's Python files that git does not ignore."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py")
    paths = {Path(name) for name in (listed or "").split("\0") if name}
    return sorted(path for path in paths if path.is_file() and path.parts[0] != runtime)


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


def fitted(line: str) -> list[str]:
    """An import on one line, or on several as ruff writes it."""
    if len(line) <= 88:
        return [line]
    start, _, names = line.partition(" import ")
    indent = line[: len(line) - len(line.lstrip())]
    each = [f"{indent}    {name}," for name in names.split(", ")]
    return [f"{start} import (", *each, f"{indent})"]


# ---------------------------------------------------------------------- pyproject.toml

PYPROJECT = PROJECT / "pyproject.toml"
LISTS = ("dependencies", "dev")


def merge_dependencies() -> Iterator[str]:
    """Resolve a conflict in nemo_gym/pyproject.toml that is only about dependencies.

    Both sides changed these lists: the template removed its packages, and `uv add`
    added packages of the user, which go into the new lists.
    """
    stages = [
        git("show", f":{number}:./{PYPROJECT.as_posix()}") for number in (1, 2, 3)
    ]
    base, mine, new = stages
    if base is None or mine is None or new is None:
        return
    added = {name: list_items(mine, name) for name in LISTS}
    for name in LISTS:
        theirs = list_items(base, name)
        added[name] = [item for item in added[name] if item not in theirs]
        mine = replace_list(mine, name, base)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, str(number)) for number in range(3)]
        for path, text in zip(paths, (mine, base, new), strict=True):
            path.write_text(text, encoding="utf-8")
        merged = git("merge-file", "-p", *map(str, paths))
    if merged is None:
        return
    for name, items in added.items():
        merged = add_items(merged, name, items)
    PYPROJECT.write_text(merged, encoding="utf-8")
    git("reset", "--quiet", "--", str(PYPROJECT))
    kept = ", ".join(item for items in added.values() for item in items)
    yield f"{PYPROJECT}: your dependencies stay" + (f": {kept}" if kept else "")


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


# ---------------------------------------------------------------------- caches


def remove_caches() -> Iterator[str]:
    """Remove folders of deleted modules in which only Python's caches are left."""
    for folder in (PROJECT / "plumbing", PROJECT / "trainers"):
        files = [path for path in folder.rglob("*") if path.is_file()]
        if folder.is_dir() and all(path.parent.name == "__pycache__" for path in files):
            shutil.rmtree(folder)
            yield f"{folder}/: removed, only caches were left"


def deleted_backends(runtime: str) -> Iterator[str]:
    """The places of changes that somebody made in a deleted module."""
    for module in ("workspace_backend", "desktop_backend"):
        path = Path(f"{module}.py")
        if not path.exists() and git("cat-file", "-e", f"HEAD:./{path}") is not None:
            package = f"{runtime}/src/{runtime}/{MOVED[module]['*']}/"
            yield (
                f"{path} is {package} now; if you had changed it, "
                f"`git show HEAD:./{path}` has your changes"
            )


def main(env_name: str, domain_module: str, domain_class: str) -> None:
    names = Names(env_name, domain_module, domain_class)
    reports = [*remove_caches(), *merge_dependencies()]
    for path in python_files(names.runtime):
        reports += rewrite_imports(path, names)
    reports += deleted_backends(names.runtime)
    if reports:
        print("Moved to the package", names.runtime, flush=True)
    for report in reports:
        print(f"  {report}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
