"""The page that view.py writes: page.html, with the rollouts in it.

The page holds data only as JSON in <script type="application/json">, which a browser
does not run. There is one for each trajectory, which the page reads once the episode is
opened, one for each different image, and one with all figures.
"""

import argparse
import base64
import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from plumbing.figures import (
    Episode,
    difference,
    figures,
    is_error,
    is_tool_output,
    items,
    measure,
)
from plumbing.records import RolloutError, one_line

TEMPLATE = Path(__file__).with_name("page.html")
IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")

Part = str | int  # of an entry: a text, or the number of an image
Keep = Callable[[str], int]  # stores an image, and gives its number


class Source(NamedTuple):
    """A file of rollouts, in numbers."""

    name: str
    models: set[str]  # that its responses name
    episodes: list[Episode]
    played: set[tuple[int, int]]  # their rows and repeats
    prompts: dict[int, bytes]  # a digest of each row's prompt
    left_out: list[str]  # why lines were left out, with file and line


def write_page(paths: list[Path], output: Path) -> list[str]:
    """Write the page of some files of rollouts, whole or not at all.

    Returns what the user should know, a line each. Raises RolloutError if a file cannot
    be read or holds no rollouts, and OSError if the page cannot be written.
    """
    for path in paths:
        if output.resolve() == path.resolve():
            raise RolloutError(f"{path} has the rollouts: name another --output")
    output.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as page:
            notices = _write(paths, page)
        os.chmod(beside, 0o644)
        os.replace(beside, output)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    return notices


def _write(paths: list[Path], page: IO[str]) -> list[str]:
    template = TEMPLATE.read_text(encoding="utf-8")
    # The one script that may run, and so nothing that a policy wrote.
    [script] = re.findall(r"<script>(.*?)</script>", template, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    before, after = template.replace("SCRIPT_HASH", digest).split("<!-- DATA -->\n")
    page.write(before)
    keep = _image_store(page)
    sources = []
    for number, path in enumerate(paths):
        source = Source(str(path), set(), [], set(), {}, [])
        for rollout in _rollouts(path, source.left_out):
            _add(source, rollout)
            name = f"episode-{number}-{len(source.episodes) - 1}"
            page.write(_data(name, conversation(rollout, keep)))
        if not source.episodes:
            wrong = source.left_out[0] if source.left_out else f"{path} is empty"
            raise RolloutError(f"{wrong}: the file holds no rollouts")
        sources.append(source)
    notices = [notice for one in sources for notice in one.left_out]
    notices += _other_prompts(sources)
    page.write(_data("summary", _summary(sources, notices)))
    page.write(after)
    return notices


def _rollouts(path: Path, left_out: list[str]) -> Iterator[dict[str, Any]]:
    """The rollouts of a .jsonl file, one at a time: a file may be larger than memory.

    Notes in `left_out` the lines that hold none. Raises RolloutError.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                where = f"{path}, line {number}"
                try:
                    rollout = json.loads(line)
                except (ValueError, RecursionError) as error:
                    left_out.append(f"{where}: not JSON: {one_line(error)[:200]}")
                    continue
                if isinstance(rollout, dict) and {"response", "reward"} & set(rollout):
                    yield rollout
                else:
                    left_out.append(
                        f"{where}: a rollout has a response or a reward, got "
                        f"{one_line(repr(line[:80]))}"
                    )
    except OSError as error:
        raise RolloutError(f"{path}: {error.strerror or error}") from None


def _add(source: Source, rollout: dict[str, Any]) -> None:
    """Note a rollout's numbers; a second one of the same repeat is one more repeat."""
    # A file without NeMo Gym's keys has one rollout for each row.
    one = measure(rollout, task=len(source.episodes))
    while (one.task, one.repeat) in source.played:
        one = one._replace(repeat=one.repeat + 1)
    source.played.add((one.task, one.repeat))
    source.episodes.append(one)
    params = rollout.get("responses_create_params")
    prompt = params.get("input") if isinstance(params, dict) else None
    text = json.dumps(_entries(prompt, lambda image: 0)).encode()
    source.prompts.setdefault(one.task, hashlib.sha256(text).digest())
    response = rollout.get("response")
    model = response.get("model") if isinstance(response, dict) else None
    if isinstance(model, str):
        source.models.add(model)


def _other_prompts(sources: list[Source]) -> list[str]:
    """Whether rows of the same number are not the same row."""
    first, *others = sources
    found = []
    for other in others:
        common = first.prompts.keys() & other.prompts.keys()
        differ = sorted(n for n in common if first.prompts[n] != other.prompts[n])
        if differ:
            found.append(
                f"{first.name} and {other.name} have different prompts in "
                f"{len(differ)} of {len(common)} common rows, first in row "
                f"{differ[0] + 1}: are these rollouts of the same rows?"
            )
    return found


def _summary(sources: list[Source], notices: list[str]) -> dict[str, Any]:
    changes = [difference(sources[0].episodes, other.episodes) for other in sources[1:]]
    return {
        "files": [
            {
                "name": one.name,
                "models": sorted(one.models),
                "figures": [(each.name, each.text) for each in figures(one.episodes)],
                "episodes": [each._asdict() for each in one.episodes],
            }
            for one in sources
        ],
        # Of each file from the second on, by how much it is above the first.
        "differences": [each and (each.name, each.text) for each in changes],
        "notices": notices[:20],
    }


def _data(name: str, value: Any) -> str:
    """A value as an element of the page that no browser runs.

    All that is not ASCII is escaped, and so is what could end the element.
    """
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>\n'


def _image_store(page: IO[str]) -> Keep:
    """Writes each image once, before the first trajectory that shows it."""
    known: dict[bytes, int] = {}

    def keep(image: str) -> int:
        digest = hashlib.sha256(image.encode()).digest()
        if digest not in known:
            known[digest] = len(known)
            page.write(_data(f"image-{known[digest]}", image))
        return known[digest]

    return keep


# ---------------------------------------------------------------------- trajectories


def conversation(rollout: dict[str, Any], keep: Keep) -> list[dict[str, Any]]:
    """A rollout as entries: {"who": ..., "parts": [text or number of an image, ...]}.

    `who` is a role, "reasoning", "call" or "output", these two with the `name` of the
    tool, "data" for an item of no known kind, as JSON, or the title of what is not in
    the trajectory. An output that is an error has `error`.
    """
    params, response = rollout.get("responses_create_params"), rollout.get("response")
    found = []
    if isinstance(params, dict):
        if instructions := params.get("instructions"):
            found.append(_entry("system", _parts(instructions, keep)))
        found += _entries(params.get("input"), keep)
    elif params is not None:
        found.append(_entry("data", _json(params, keep)))
    if isinstance(response, dict):
        found += _entries(response.get("output"), keep)
        if reason := response.get("incomplete_details"):
            found.append(_entry("cut off", _json(reason, keep)))
    elif response is not None:
        found.append(_entry("data", _json(response, keep)))
    if (reason := rollout.get("failure_reason")) is not None:
        found.append(_entry("the environment failed", [str(reason)]))
    if (truth := rollout.get("ground_truth")) is not None:
        found.append(_entry("ground truth", _json(truth, keep)))
    # A rollout without a trajectory, as some agents of NeMo Gym write, is shown whole.
    return found or [_entry("rollout", _json(rollout, keep))]


def _entries(listed: Any, keep: Keep) -> list[dict[str, Any]]:
    if isinstance(listed, str):
        return [_entry("user", [listed])]
    if not isinstance(listed, list):
        return [] if listed is None else [_entry("data", _json(listed, keep))]
    names = {
        str(item.get("call_id")): str(item.get("name"))
        for item in items(listed)
        if item.get("type") == "function_call"
    }
    return [
        entry
        for item in listed
        if (entry := _shown(item, names, keep))["parts"] or "name" in entry
    ]


def _entry(who: str, parts: list[Part], **more: Any) -> dict[str, Any]:
    return {"who": who, "parts": parts, **more}


def _shown(item: Any, names: dict[str, str], keep: Keep) -> dict[str, Any]:
    """An item of a trajectory as an entry."""
    if not isinstance(item, dict):
        return _entry("data", _json(item, keep))
    kind = item.get("type", "message" if "role" in item else None)
    if kind == "message" and isinstance(item.get("role"), str):
        return _entry(item["role"], _parts(item.get("content"), keep))
    if kind == "reasoning":
        parts = _parts(item.get("summary"), keep) + _parts(item.get("content"), keep)
        return _entry("reasoning", parts)
    if kind == "function_call":
        return _entry("call", _arguments(item.get("arguments"), keep), name=_name(item))
    if is_tool_output(item):
        name = names.get(str(item.get("call_id")), "?")
        output = item.get("output")
        entry = _entry("output", _output(output, keep), name=name)
        return entry | ({"error": True} if is_error(output) else {})
    return _entry("data", _json(item, keep))


def _name(item: dict[str, Any]) -> str:
    return str(item.get("name", "?"))


def _parts(content: Any, keep: Keep) -> list[Part]:
    """The content of a message: text, or a list of parts."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content] if content else []
    if not isinstance(content, list):
        return _json(content, keep)
    found: list[Part] = []
    for part in content:
        image = part.get("image_url") if isinstance(part, dict) else None
        if isinstance(image, dict):  # as in Chat Completions
            image = image.get("url")
        if isinstance(image, str) and IMAGE.fullmatch(image):
            found.append(keep(image))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            found += [part["text"]] if part["text"] else []
        else:
            found += _json(part, keep)
    return found


def _arguments(arguments: Any, keep: Keep) -> list[Part]:
    """The arguments of a call as name=value, one a line if they are long."""
    given = arguments
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        given = json.loads(arguments)
    if not isinstance(given, dict):
        return [arguments] if isinstance(arguments, str) else _json(arguments, keep)
    texts = [f"{name}={_value(value)}" for name, value in given.items()]
    short = ", ".join(texts)
    if len(short) <= 80 and "\n" not in short:
        return [short]
    return ["\n".join(texts)]


def _value(value: Any) -> str:
    """JSON, but a text of several lines as it is."""
    if isinstance(value, str) and "\n" in value:
        return f"\n{value}"
    with contextlib.suppress(RecursionError):
        return json.dumps(value, ensure_ascii=False)
    return "(nested too deeply to be shown)"


def _output(output: Any, keep: Keep) -> list[Part]:
    """A tool's output. The server's and NeMo Gym's is JSON: {"output": text, ...}."""
    if not isinstance(output, str):
        return _parts(output, keep)
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        return _split(output, keep)
    if not isinstance(answer, dict) or not isinstance(answer.get("output"), str):
        return _split(output, keep)
    found = _split(answer.pop("output"), keep)
    if isinstance(answer.get("image"), str):
        found += _split(answer.pop("image"), keep)
    return found + (_json(answer, keep) if answer else [])


def _json(value: Any, keep: Keep) -> list[Part]:
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    except RecursionError:
        text = "(nested too deeply to be shown)"
    return _split(text, keep)


def _split(text: str, keep: Keep) -> list[Part]:
    """A text, and the images in it."""
    found: list[Part] = []
    end = 0
    for match in IMAGE.finditer(text):
        found += [text[end : match.start()], keep(match[0])]
        end = match.end()
    found.append(text[end:])
    return [part for part in found if part != ""]


# ---------------------------------------------------------------------- the command


def main(description: str | None, arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("files", nargs="+", type=Path, metavar="FILE", help="rollouts, as .jsonl")
    add("--output", type=Path, metavar="FILE", help="the page; else FILE.html")
    options = parser.parse_args(arguments)
    output = options.output or options.files[0].with_suffix(".html")
    try:
        notices = write_page(options.files, output)
    except (RolloutError, OSError) as error:
        print(f"view.py: {error}", file=sys.stderr)
        return 1
    for notice in notices:
        print(f"view.py: {notice}", file=sys.stderr)
    print(output)
    return 0
