"""Make the image that only serves: it leaves out what no server imports.

    python -m {package}.slim_image options [FRAMEWORK]   options of `uv export`
    python -m {package}.slim_image trim                  after the packages are installed
    python -m {package}.slim_image check                 import all that a server may import

FRAMEWORK is nemo-gym, openenv or openreward. `options` needs no package: it runs from the wheel, before anything is installed. What
the project's class needs is never left out, so `uv add` brings a package back.
"""

import importlib
import importlib.metadata
import pkgutil
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

# Packages that a framework requires, and that no server imports. What only they require
# is left out, too.
LEFT_OUT = ["anthropic", "datasets", "fonttools", "gitpython", "gprof2dot", "mlflow"]
LEFT_OUT += ["mlflow-skinny", "pandas", "pyarrow", "pydot", "ray", "scipy", "wandb"]
LEFT_OUT += ["yappi"]
FRAMEWORKS = {
    "nemo-gym": LEFT_OUT,
    "openenv": ["cryptography", "gradio", "hf-xet", "openai"],  # gradio: its page only
    "openreward": ["cryptography"],
}
# NeMo Gym reads the versions of these when it is imported.
ONLY_METADATA = ["ray"]

# All modules in these packages are imported by servers, except UNUSED.
PACKAGES = ["env_runtime.resources_server", "env_runtime.scale", "env_runtime.models"]
PACKAGES += ["env_runtime.server"]
UNUSED = ["env_runtime.scale.ray_actors"]

NO_COMMAND = """\
#!/bin/sh
echo "$0: this image only serves: docker build --target gym makes the one for this" >&2
exit 1
"""


def main(arguments: list[str]) -> int:
    """Run a command. Returns its exit status."""
    match arguments:
        case ["options", *named] if set(named) <= FRAMEWORKS.keys():
            names = left_out(locked(), *named)
            print(*(f"--prune {name}" for name in names))
        case ["trim"]:
            trim(locked())
        case ["check"]:
            return check()
        case _:
            print(__doc__.format(package=__package__), file=sys.stderr)
            return 2
    return 0


def locked() -> dict[str, Any]:
    """The lock file of the current folder."""
    return tomllib.loads(Path("uv.lock").read_text(encoding="utf-8"))


def left_out(lock: dict[str, Any], framework: str = "nemo-gym") -> list[str]:
    """The framework's packages that a project with this lock file does not need itself.

    What only the framework requires is not needed.
    """
    packages: dict[str, list[dict[str, Any]]] = {}
    for package in lock["package"]:
        packages.setdefault(package["name"], []).append(package)
    pending = [
        (name, "")
        for name, versions in packages.items()
        if {"editable", "virtual"} & versions[0].get("source", {}).keys()
    ]
    seen: set[tuple[str, str]] = set()
    while pending:
        name, extra = pending.pop()
        if (name, extra) in seen or name == framework:
            continue
        seen.add((name, extra))
        for package in packages[name]:
            extras = package.get("optional-dependencies", {})
            listed = extras.get(extra, []) if extra else package.get("dependencies", [])
            # openenv/ has the packages of its server in a group.
            groups = {} if extra else package.get("dev-dependencies", {})
            for one in [*listed, *groups.get("server", [])]:
                pending += [(one["name"], more) for more in ("", *one.get("extra", []))]
    needed = {name for name, _ in seen}
    return [name for name in FRAMEWORKS[framework] if name not in needed]


def trim(lock: dict[str, Any]) -> None:
    """Remove NeMo Gym's own environments and commands from the running interpreter's venv.

    No exclusion can say that: they are files of NeMo Gym's wheel. The folders that the
    class imports from stay. Also write the metadata that NeMo Gym reads.
    """
    from .imports import imported_modules
    from .project import here

    gym = importlib.metadata.distribution("nemo-gym")
    site = Path(str(gym.locate_file("")))
    kept = {"nemo_gym", *imported_modules(here().sources(), here().module)}
    folders = {file.parts[0] for file in gym.files or () if len(file.parts) > 1}
    for name in folders - kept:
        if name != ".." and not name.endswith(".dist-info"):
            shutil.rmtree(site / name)
    for script in gym.entry_points.select(group="console_scripts"):
        Path(sys.prefix, "bin", script.name).write_text(NO_COMMAND, encoding="utf-8")
    versions = {package["name"]: package.get("version") for package in lock["package"]}
    for name in set(ONLY_METADATA) & set(left_out(lock)):
        folder = site / f"{name}-{versions[name]}.dist-info"
        folder.mkdir(exist_ok=True)
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {versions[name]}\n"
        (folder / "METADATA").write_text(text, encoding="utf-8")


def check() -> int:
    """Import all that a server may import. Returns 1 if a package is missing for it."""
    from . import gym_series

    name = ""
    try:
        for name in PACKAGES:
            package = importlib.import_module(name)
            for module in pkgutil.iter_modules(
                getattr(package, "__path__", []), f"{name}."
            ):
                if module.name not in UNUSED:
                    importlib.import_module(module.name)
        if gym_series.HAS_MCP:
            gym_series.module_of(name := "maybe_auto_expose")
    except ImportError as error:
        print(
            f"slim_image: {name} cannot be imported: {error}. If LEFT_OUT in "
            "env_runtime/slim_image.py has the package: NeMo Gym needs it by now, and "
            "`uv add` of it keeps it. `docker build --target gym` leaves nothing out",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
