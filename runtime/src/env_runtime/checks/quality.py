"""The quality report of an environment: what its gates saw, as JSON and as a page."""

import hashlib
import importlib.metadata
import inspect
import json
import platform
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from ..command_line import counted
from ..episode.declaration import declared
from ..errors import GateError, RolloutError
from ..evaluation.rows import load_rows, prompt_text, row_key, shown
from ..files import write_atomically
from ..project import Project, of_class
from ..settings import ParameterSettings
from .attempts import FlawCheck
from .runner import Result
from .splits import COMPARED, LEVELS, splits_beside

FORMAT = 1
PACKAGES = ("nemo-gym-env-runtime", "nemo-gym")
# A mean or a share that changes by less is no news: some policies are drawn at random.
SLACK = 0.01

Report = dict[str, Any]


def report_on(domain_class: type, path: Path, results: list[Result]) -> Report:
    """The report on a class, on the file of its rows and those beside it, and on the gates.

    `results` are those of `gates.py --json`. Raises RolloutError if a file cannot be read.
    """
    own = of_class(domain_class)
    return {
        "format": FORMAT,
        "environment": own.called,
        "class": f"{own.module}.{own.class_name}",
        "hashes": {
            "class": _hash(inspect.getsourcefile(domain_class)),
            "rows": {str(shown(file)): _hash(file) for file in splits_beside(path)},
            "settings": _settings(own),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES},
        },
        "rows": {
            str(shown(file)): _rows(domain_class, file) for file in splits_beside(path)
        },
        "gates": results,
    }


def _hash(file: Path | str | None) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""


def _settings(own: Project) -> str:
    """A hash of [tool.environment], of the parameters, and of the server's configuration."""
    given = ParameterSettings.read().env_parameters or {}
    text = own.table().model_dump_json() + json.dumps(given, sort_keys=True)
    for file in sorted((own.gym / "configs").glob(f"{own.called}*.yaml")):
        text += file.read_text(encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # it runs from its source
        return ""


def _rows(domain_class: type, file: Path) -> dict[str, Any]:
    """The numbers of a file's rows: of all, by difficulty, of copies and contradictions.

    Contradictions are rows with one prompt and several solutions, in a class without tools
    and observation: there the prompt is all that the policy sees.
    """
    rows = [*islice(load_rows(file), COMPARED)]
    keys = Counter(row_key(domain_class, row) for row in rows)
    found: dict[str, Any] = {
        "rows": len(rows),
        "difficulty": dict(
            sorted(Counter(str(row.get("difficulty", "")) for row in rows).items())
        ),
        "duplicates": len(rows) - len(keys),
    }
    check, own = FlawCheck(domain_class, rows), declared(domain_class)
    if check.tools or own.has_row_tools or own.has_observation or own.replies:
        return found
    answers: dict[str, set[str]] = {}
    try:
        for row in rows:
            if (value := check.value(row)) is not None:
                answers.setdefault(prompt_text(row), set()).add(value)
    except (RolloutError, ValueError):  # the rollout gate says why
        return found
    found["contradictions"] = sum(len(values) > 1 for values in answers.values())
    return found


def read(path: Path) -> Report:
    """The report in a file. Raises GateError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] == FORMAT:
            return found
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GateError(f"{path} is no report of gates.py --report: {error}") from None
    raise GateError(
        f"{path} has the format {found['format']!r}, and this release reads {FORMAT}: "
        "write it anew"
    )


def write(report: Report, path: Path) -> Path:
    """Write a report, and its page beside it. Returns the page's path."""
    page = path.with_suffix(".md")
    for file, text in ((path, json.dumps(report, indent=2)), (page, as_page(report))):
        with write_atomically(file) as opened:
            opened.write(f"{text.rstrip()}\n".encode())
    return page


def _figures(report: Report) -> dict[str, Any]:
    """The figures of the rollout gate; those of a gate that failed are {}."""
    return next((one for one in report["gates"] if one["gate"] == "rollout"), {})


def floor_of(report: Report) -> tuple[float, str] | None:
    """The most that a policy without a solution earned on average, and its name."""
    earned = _figures(report).get("earned")
    if not earned:
        return None
    best = max(earned, key=lambda who: earned[who])
    return earned[best], best


def _share(counts: dict[str, int]) -> float:
    """The share of the rows in which a near miss earned less."""
    played = counts["falls"] + counts["same"]
    return counts["falls"] / played if played else 1.0


def worse(before: Report, now: Report) -> list[str]:
    """What became worse, a sentence each. Seconds differ between machines: they do not count."""
    said = []
    gates = {one["gate"]: one for one in now["gates"]}
    for old in before["gates"]:
        new = gates.get(old["gate"])
        states = [_state(old), _state(new) if new else "not run"]
        order = ["PASS", "WEAK", "FAIL", "not run"]
        if order.index(states[1]) > order.index(states[0]):
            said.append(f"the {old['gate']} gate was {states[0]}, and is {states[1]}")
    for file, old in before["rows"].items():
        new = now["rows"].get(file)
        if new is None:
            said.append(f"{file} is not there")
            continue
        if new["rows"] < old["rows"]:
            said.append(f"{file} has {new['rows']} rows, and had {old['rows']}")
        for name in ("duplicates", "contradictions"):
            if new.get(name, 0) > old.get(name, 0):
                said.append(
                    f"{file} has {new[name]} {name}, and had {old.get(name, 0)}"
                )
    if _figures(now).get("passed"):  # else there are no figures
        said += _worse_figures(before, now)
    return said


def _worse_figures(before: Report, now: Report) -> list[str]:
    said, old, new = [], _figures(before), _figures(now)
    floors = floor_of(before), floor_of(now)
    if floors[0] and floors[1] and floors[1][0] > floors[0][0] + SLACK:
        said.append(
            f"a policy without a solution ({floors[1][1]}) earns {floors[1][0]:.3g} on "
            f"average; the most was {floors[0][0]:.3g}"
        )
    learned, now_learned = old.get("learned"), new.get("learned")
    if learned and now_learned and now_learned["interval"][0] > learned["interval"][1]:
        said.append(
            f"the learned player earns {now_learned['mean']:.3g}, and earned "
            f"{learned['mean']:.3g}"
        )
    if old.get("repeats") and not new.get("repeats"):
        said.append("the class is not deterministic any more")
    if "flaws" in old and "flaws" in new:
        lost = [
            each
            for each in old["flaws"]["looked"]
            if each not in new["flaws"]["looked"]
        ]
        if lost:
            said.append(f"not looked for any more: {', '.join(lost)}")
    for place, counts in old.get("near_misses", {}).items():
        other = new.get("near_misses", {}).get(place)
        if other and _share(other) < _share(counts) - SLACK:
            said.append(
                f"a change of {place} lowers the reward in {_share(other):.0%} of the rows, "
                f"and did in {_share(counts):.0%}"
            )
    for dress, counts in new.get("false_fails", {}).items():
        before_less = old.get("false_fails", {}).get(dress, {}).get("less", 0)
        if counts["less"] > before_less:
            said.append(
                f"the oracle's answer with {dress} earns less in "
                f"{counted(counts['less'], 'row')}, and did in {before_less}"
            )
    return said


def _state(gate: Any) -> str:
    return "WEAK" if gate["weak"] else "PASS" if gate["passed"] else "FAIL"


def as_page(report: Report) -> str:
    """A report as Markdown."""
    figures, hashes = _figures(report), report["hashes"]
    lines = [f"# Quality of {report['environment']}", ""]
    lines += [
        f"The class is `{report['class']}`. `gates.py --report` wrote this page.",
        "",
    ]
    lines += _table(
        ["gate", "", "seconds", ""],
        [
            [one["gate"], _state(one), f"{one['seconds']:.1f}", one["detail"]]
            for one in report["gates"]
        ],
    )
    found = {each for rows in report["rows"].values() for each in rows["difficulty"]}
    levels = [*LEVELS, *sorted(found - {*LEVELS})]
    levels = [level for level in levels if level in found]
    named = [level or "no difficulty" for level in levels]
    lines += ["## Rows", ""]
    lines += _table(
        ["file", "rows", *named, "duplicates", "contradictions"],
        [
            [
                file,
                rows["rows"],
                *(rows["difficulty"].get(level, 0) for level in levels),
            ]
            + [rows["duplicates"], rows.get("contradictions", "-")]
            for file, rows in report["rows"].items()
        ],
    )
    lines += ["## Grade", ""]
    facts = []
    if "repeats" in figures:
        same = (
            "the same calls have the same results"
            if figures["repeats"]
            else "not claimed"
        )
        facts.append(["determinism", same])
    if floor := floor_of(report):
        facts.append(
            ["floor: the most without a solution", f"{floor[0]:.3g} ({floor[1]})"]
        )
    if learned := figures.get("learned"):
        low, high = learned["interval"]
        text = f"{learned['mean']:.3g} ({low:g} to {high:g}, {learned['rows']} rows)"
        facts.append(["learned player", text])
    if flaws := figures.get("flaws"):
        facts.append(["flaws looked for", ", ".join(flaws["looked"]) or "none"])
        facts += [
            [f"not looked for: {why}", ", ".join(n)] for why, n in flaws["not"].items()
        ]
        facts += [["meant", ", ".join(flaws["meant"])]] if flaws["meant"] else []
    for place, counts in figures.get("near_misses", {}).items():
        played = counts["falls"] + counts["same"]
        text = f"lowers the reward in {counts['falls']} of {counted(played, 'row')}"
        facts.append([f"a change of {place}", text])
    for dress, counts in figures.get("false_fails", {}).items():
        text = f"earns less in {counts['less']} of {counted(counts['rows'], 'row')}"
        facts.append([f"the right answer with {dress}", text])
    unknown = [
        ["no figures", "the rollout gate failed, did not run, or ran under NeMo Gym"]
    ]
    lines += _table(["", ""], facts or unknown)
    lines += ["## Versions and hashes (SHA-256)", ""]
    told = [[name, version] for name, version in report["versions"].items()]
    told += [["class", hashes["class"]], ["settings", hashes["settings"]]]
    told += [[file, value] for file, value in hashes["rows"].items()]
    return "\n".join([*lines, *_table(["", ""], told)])


def _table(names: list[str], lines: list[list[Any]]) -> list[str]:
    """A table of Markdown, and an empty line."""
    cells = [
        [str(cell).replace("|", "\\|").replace("\n", " ") for cell in line]
        for line in lines
    ]
    rows = [names, ["---"] * len(names), *cells]
    return [*(f"| {' | '.join(row)} |" for row in rows), ""]
