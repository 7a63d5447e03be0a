"""The page of nemo_gym/view.py: page.html, with the rollouts in it.

The page holds data only as JSON in <script type="application/json">, which a browser
does not run: one element for each trajectory, which the page reads once the episode is
opened, one for each different image, and one with all figures.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from .. import project
from ..command_line import exit_status, new_parser
from ..episode.declaration import declared
from ..errors import GateError, RolloutError, ToolError, one_line
from ..files import write_atomically
from .conversation import KeepImage, conversation, entries_of
from .pages import digest, read_page
from .rows import lines_of, parse
from .stats import RolloutStats, difference, figures, measure

TEMPLATE = Path(__file__).with_name("page.html")


def main(description: str | None, arguments: list[str] | None = None) -> int:
    """Write the page of some files. Returns the exit status."""
    parser = new_parser(description)
    add = parser.add_argument
    add("files", nargs="+", type=Path, metavar="FILE", help="rollouts, as .jsonl")
    add("--output", type=Path, metavar="FILE", help="the page; else FILE.html")
    options = parser.parse_args(arguments)
    output = options.output or options.files[0].with_suffix(".html")
    if output.is_dir():
        parser.error(f"--output names a file; {output} is a folder")

    def run() -> int:
        left_out, other = write_page(options.files, output)
        for notice in left_out + other:
            print(f"view.py: {notice}", file=sys.stderr)
        print(output)
        return 1 if left_out else 0

    return exit_status("view.py", run)


class Source(NamedTuple):
    """A file of rollouts, in numbers."""

    name: str
    models: set[str]  # the models that its responses name, and people
    rollouts: list[RolloutStats]
    played: set[tuple[int, int]]  # the rows and repeats of its rollouts
    prompts: dict[int, bytes]  # a digest of each row's prompt
    left_out: list[str]  # why lines were left out, with file and line


def write_page(paths: list[Path], output: Path) -> tuple[list[str], list[str]]:
    """Write the page of some files of rollouts, whole or not at all.

    Returns two lists of notices for the user: the lines that were left out, and others.
    Raises RolloutError if a file cannot be read or holds no rollouts, and OSError if
    the page cannot be written.
    """
    for path in paths:
        if output.resolve() == path.resolve():
            raise RolloutError(f"{path} is an input: name another file with --output")
    with write_atomically(output) as page:
        return _write(paths, page)


def _write(paths: list[Path], page: IO[bytes]) -> tuple[list[str], list[str]]:
    template = read_page(TEMPLATE)
    # Only this script may run, so nothing that a policy wrote can.
    template = template.replace("SCRIPT_HASH", digest(template, "script"))
    before, after = template.split("<!-- DATA -->\n")
    page.write(before.encode())
    keep = _image_store(page)
    sources = []
    for number, path in enumerate(paths):
        source = Source(str(path), set(), [], set(), {}, [])
        for rollout in _rollouts(path, source.left_out):
            _add(source, rollout)
            name = f"episode-{number}-{len(source.rollouts) - 1}"
            page.write(_data(name, conversation(rollout, keep)))
        if not source.rollouts:
            wrong = source.left_out[0] if source.left_out else f"{path} is empty"
            raise RolloutError(f"{wrong}: the file holds no rollouts")
        sources.append(source)
    left_out = [notice for source in sources for notice in source.left_out]
    other = _other_prompts(sources)
    page.write(_data("summary", _summary(sources, left_out + other)))
    page.write(after.encode())
    return left_out, other


def _rollouts(path: Path, left_out: list[str]) -> Iterator[dict[str, Any]]:
    """The rollouts of a .jsonl file, one at a time.

    Adds a notice to `left_out` for each line without a rollout. Raises RolloutError.
    """
    for place, line in lines_of(path):
        try:
            rollout = parse(line, place)
        except RolloutError as error:
            left_out.append(str(error))
            continue
        if {"response", "reward"} & set(rollout):
            yield rollout
        else:
            left_out.append(
                f"{place}: a rollout has a response or a reward, got "
                f"{one_line(line[:80].decode(errors='replace'))}"
            )


def _add(source: Source, rollout: dict[str, Any]) -> None:
    """Add a rollout's numbers. A second rollout of a repeat counts as a new repeat."""
    # A file without NeMo Gym's keys has one rollout for each row.
    stats = measure(rollout, task=len(source.rollouts))
    while (stats.task, stats.repeat) in source.played:
        stats = stats._replace(repeat=stats.repeat + 1)
    source.played.add((stats.task, stats.repeat))
    source.rollouts.append(stats)
    params = rollout.get("responses_create_params")
    prompt = params.get("input") if isinstance(params, dict) else None
    text = json.dumps(entries_of(prompt, lambda image: 0)).encode()
    source.prompts.setdefault(stats.task, hashlib.sha256(text).digest())
    response = rollout.get("response")
    model = response.get("model") if isinstance(response, dict) else None
    if isinstance(model, str):
        source.models.add(f"{model} (a person)" if stats.player else model)


def _other_prompts(sources: list[Source]) -> list[str]:
    """A notice for each file whose prompts differ from those of the first file."""
    first, *others = sources
    notices = []
    for other in others:
        common = first.prompts.keys() & other.prompts.keys()
        differ = sorted(n for n in common if first.prompts[n] != other.prompts[n])
        if differ:
            notices.append(
                f"{first.name} and {other.name} have different prompts in "
                f"{len(differ)} of {len(common)} common rows, first in row "
                f"{differ[0] + 1}: are these rollouts of the same rows?"
            )
    return notices


def _summary(sources: list[Source], notices: list[str]) -> dict[str, Any]:
    first, *others = sources
    changes = [difference(first.rollouts, other.rollouts) for other in others]
    low, high = _rewards()
    return {
        "range": [low, high],
        "files": [
            {
                "name": source.name,
                "models": sorted(source.models),
                "figures": [
                    (figure.name, figure.text)
                    for figure in figures(source.rollouts, high)
                ],
                "episodes": [rollout._asdict() for rollout in source.rollouts],
            }
            for source in sources
        ],
        # The change from the first file to each other one.
        "differences": [change and (change.name, change.text) for change in changes],
        "notices": notices[:20],
    }


def _rewards() -> tuple[float, float]:
    """The lowest and the highest reward of the class, (0.0, 1.0) if it has an error."""
    try:
        return declared(project.here().load_class()).reward_range
    except (GateError, ToolError):
        return 0.0, 1.0


def _data(name: str, value: Any) -> bytes:
    """A value as an element of the page that no browser runs.

    Everything that is not ASCII, or could end the element, is escaped.
    """
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>\n'.encode()


def _image_store(page: IO[bytes]) -> KeepImage:
    """A function that writes each image once, before a trajectory shows it."""
    numbers: dict[bytes, int] = {}

    def keep(image: str) -> int:
        digest = hashlib.sha256(image.encode()).digest()
        if digest not in numbers:
            numbers[digest] = len(numbers)
            page.write(_data(f"image-{numbers[digest]}", image))
        return numbers[digest]

    return keep
