"""Make an environment package and a dataset for GRPO jobs of NeMo Helix.

    uv run python -m {package}.package OUT [--arch aarch64] [--rows FILE]
        [--validation FILE|SHARE] [--with OTHER_PROJECT ...] [--check] ...

NeMo Helix was NeMo Platform until 0.6. Writes OUT/environment and OUT/dataset. The package
has the class, the modules and the data_files of [tool.environment], server.py and agents,
and with wheels-v1 every wheel that they install, so that a job needs no network. The
dataset has the rows of --rows, by default those of make_rows.py, else data/example.jsonl.
Helix's rules are checked at the end; --check only checks what is there.
"""

import argparse
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..command_line import add_parameters, exit_status, new_parser, share
from ..errors import DeployError
from ..project import Project, find, here
from . import (
    HOST,
    MANIFEST,
    download,
    package_name,
    pins_of,
    resolve,
    rules,
    write_dataset,
    write_environment,
)

UPLOAD = """\
Upload, with the slashes, which take a folder's content:
  nemo files filesets create {name} --purpose environment --exist-ok
  nemo files upload {out}/environment/ {name}"""
TRAIN = """\
  nemo files filesets create {name}-dataset --purpose dataset --exist-ok
  nemo files upload {out}/dataset/ {name}-dataset
Then `nemo customization rl --job-json job.json` (NeMo Platform: `rl submit job.json`).
The operator sets NHX_SANDBOX_CLUSTER_CAPABLE=true and NHX_RL_JOB_STORAGE_PVC_CLAIM
(NeMo Platform: NMP_... for NHX_...)."""
EVALUATE = """\
Make a taskset of {out}/dataset, and run `nemo evals agent-evaluate --spec-file job.json`."""
NETWORK = {
    "train": "  NHX_RL_SANDBOX_ALLOW_INTERNET=true, because {reason}",
    "evaluate": "  sandbox_egress_allow names the hosts, because {reason}",
}
# The nhx-gym-host image of nemo-helix 0.8.1.
EVALUATION_HOST = {"nemo-gym": "0.5.0", "ray": "2.58.0", "openai": "2.7.2"}


def main(arguments: list[str] | None = None) -> int:
    """Write a package, or check one. Raises DeployError."""
    parser = new_parser(__doc__)
    parser.prog = "env_runtime.package"
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="a new folder, or an earlier package")
    add("--format", choices=["wheels-v1", "native-v1"], default="wheels-v1")
    text = "of the nodes that train (default: x86_64)"
    add("--arch", choices=["x86_64", "aarch64"], default="x86_64", help=text)
    for name in HOST:
        text = "the training image's version (default: uv.lock's)"
        add(f"--{name}", metavar="VERSION", help=text)
    add("--rows", type=Path, metavar="FILE", help="rows to train on")
    text = "rows to validate on, or the share of the rows that is held out"
    add("--validation", type=_rows_or_share, metavar="FILE|SHARE", help=text)
    text = "further projects, with their own rows, in the same package"
    add("--with", nargs="+", type=Path, default=[], dest="others", help=text)
    text = "leave the policy's model server out: the host of evaluations brings its own"
    add("--without-model-server", action="store_true", help=text)
    add("--check", action="store_true", help="write nothing: check what is in OUT")
    add_parameters(parser)
    options = parser.parse_args(arguments)
    if options.others and here().variant:
        parser.error("--with: a package with a variant holds one project")
    out = options.out.resolve()
    if options.check:
        rules.check(rules.Package(out, options.arch, not options.without_model_server))
        print(f"{out}: no rule of NeMo Helix is broken")
    else:
        build(out, options)
    return 0


def _rows_or_share(text: str) -> Path | float:
    if Path(text).is_file():
        return Path(text)
    try:
        return share(text)
    except argparse.ArgumentTypeError:
        message = f"must be a file, or a number between 0 and 1, got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


def build(out: Path, options: argparse.Namespace) -> None:
    """Write the package that the options describe. Raises DeployError, RolloutError."""
    projects = [here(), *map(find, options.others)]
    if len({project.name for project in projects}) < len(projects):
        names = ", ".join(project.name for project in projects)
        raise DeployError(f"each project needs an env_name of its own, got {names}")
    chosen = {name: getattr(options, name.replace("-", "_")) for name in HOST}
    with _replacing(out) as folder, tempfile.TemporaryDirectory() as scratch:
        rows = write_dataset(
            folder / "dataset", projects, options.rows, options.validation
        )
        resolution = resolve(projects, chosen, options.arch, Path(scratch))
        versions = {one["name"]: one.get("version") for one in resolution.packages}
        named = ", ".join(f"{name} {versions[name]}" for name in HOST)
        print(
            f"{named}: they must be the image's own: with another nemo-gym, ray or "
            "openai, no server starts"
        )
        if options.without_model_server and versions != {**versions, **EVALUATION_HOST}:
            wanted = " ".join(f"--{name} {EVALUATION_HOST[name]}" for name in HOST)
            print(f"for the host of nemo-helix 0.8.1's evaluations: {wanted}")
        environment = folder / "environment"
        environment.mkdir()
        if options.format == "wheels-v1":
            wheels = environment / "wheels"
            download(resolution, wheels)
            pins = pins_of(wheels)
        else:
            pins = resolution.pins()
        model_server = not options.without_model_server
        write_environment(
            environment, projects, pins, options.format, options.arch, model_server
        )
        rules.check(rules.Package(folder, options.arch, model_server))
        count = len(list(environment.glob("wheels/*.whl")))
        print(f"{out}/environment: {_size(environment)}, {count} wheels")
        print(f"{out}/dataset: {_size(folder / 'dataset')}, {rows}")
    for text in (UPLOAD, TRAIN if model_server else EVALUATE):
        print(text.format(name=package_name(projects), out=out))
    network = NETWORK["train" if model_server else "evaluate"]
    _say_what_servers_need(projects, options.format, network)


def _say_what_servers_need(projects: list[Project], form: str, network: str) -> None:
    if form == "native-v1":
        print(network.format(reason="the servers install packages from an index"))
    for project in projects:
        for model in project.models:
            name = model.upper()
            names = f"{name}_MODEL, {name}_BASE_URL, {name}_API_KEY"
            print(
                f"  {names}, for the {model} of {project.name}; and if it is elsewhere,"
            )
            print(network.format(reason=f"the {model} is asked over the network"))


@contextmanager
def _replacing(out: Path) -> Generator[Path]:
    """A folder beside `out` which takes its place at the end of the with block.

    If the block raises, `out` stays as it was. Raises DeployError if something else than
    an earlier package is there.
    """
    if out.exists() and not (
        out.is_dir()
        and (not any(out.iterdir()) or (out / "environment" / MANIFEST).is_file())
    ):
        raise DeployError(f"{out} exists, and is not a package: name a new folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as name:
        new = Path(name, "new")
        new.mkdir()
        yield new
        if out.exists():
            out.rename(Path(name, "former"))
        new.rename(out)  # in the same folder, so that nothing can be half done


def _size(folder: Path) -> str:
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return f"{size / 1e6:.1f} MB"


if __name__ == "__main__":
    sys.exit(exit_status("package", main))
