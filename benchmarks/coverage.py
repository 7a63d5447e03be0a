"""Print what NeMo Gym's own servers need, and whether a class here can express it.

    python benchmarks/coverage.py             # each server
    python benchmarks/coverage.py --summary   # the tables of docs/internals/coverage.md

Reads app.py, the configurations and the example rows of each server in the installed
`nemo-gym` (0.7). A feature is a pattern in those files, so this is an estimate. BY_HAND
has the features that no pattern shows.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

SERVERS = Path(str(distribution("nemo-gym").locate_file("resources_servers")))

# Routes that belong to a harness, and are not tools.
NO_TOOLS = {"/verify", "/seed_session", "/end_session", "/close", "/status"}
# Agents with the same loop as a class here: tool calls until the policy stops, or, with
# max_turns=1, one answer of the model.
USUAL_AGENTS = {"simple_agent", "gymnasium_agent", "non_executing_simple_agent"}
USUAL_AGENTS |= {"tool_simulation_agent"}

# Reasons why a server cannot be a class that the patterns do not show.
BY_HAND = {
    "genrm_compare": "several rollouts are compared with each other",
    "lc_niah": "the policy's reasoning is graded",
    "nemo_user_sim": "the loop runs inside the server",
}
# Servers that grade calls of tools which their example rows leave out.
ROW_TOOLS = {"swe_pivot"}
# Servers whose own agent does nothing that a class cannot: what it sends the policy after a
# message is a reply, or it is the usual loop.
REPLIES = {
    "critpt": "asks to fill in a template after the solution",
    "finance_agent_v2": "asks to go on after a message without a call",
    "finance_sec_search": "asks to go on after a message without a call",
    "scicode": "asks for the next step",
}
USUAL_LOOP = {
    "cvdp": "of two loops, one is the usual one",
    "example_mcp_weather": "any agent can call the tool",
    "labbench2_vlm": "the agent reads the images that a row can hold",
}
OWN_AGENT = "an agent of its own runs the episode"
IN_SANDBOX = "an agent of its own runs inside the task's container"


@dataclass
class Server:
    """One server: its features, and why it cannot be expressed ("" if it can)."""

    name: str
    features: list[str]
    problem: str


def servers() -> Iterator[Server]:
    """Every resources server of the installed wheel, by name."""
    for app in sorted(SERVERS.glob("*/app.py")):
        yield read(app.parent)


def read(folder: Path) -> Server:
    """A server's features, by the patterns in its files."""
    source = (folder / "app.py").read_text()
    code = re.sub(r"^ *#.*", "", source, flags=re.MULTILINE)
    configurations = "".join(path.read_text() for path in folder.glob("configs/*.yaml"))
    comments = r"\s*\n(?:\s*#.*\n)*"
    agents = set(
        re.findall(rf"responses_api_agents:{comments}\s+(\w+):", configurations)
    )
    routes = set(re.findall(r'\.post\(\s*f?"(/[^"]*)"', code)) - NO_TOOLS
    files = [example_rows(path) for path in sorted(folder.glob("data/*example.jsonl"))]
    first = json.dumps(files[0][0]) if files else ""
    # A server of this base class sees each of the policy's messages, and may read calls.
    steps = "GymnasiumServer" in source
    talks = steps and "extract_text(" in source or folder.name in REPLIES
    patterns = {
        "last message": not routes and not steps and not talks,
        "tools": bool(routes) or steps and not talks,
        "tools of each row": folder.name in ROW_TOOLS
        or any(len(set(map(tool_names, rows))) > 1 for rows in files),
        "conversation": talks,
        "judge or user model": bool(re.search(r"\w*model_server\w*\s*:", source)),
        "images": "input_image" in first,
        "sandbox": bool(
            re.search(r"sandbox|docker|apptainer|subprocess", source, re.IGNORECASE)
        ),
        "own agent": folder.name not in REPLIES | USUAL_LOOP
        and (not agents & USUAL_AGENTS or any("sandboxed" in a for a in agents)),
    }
    features = [name for name, needed in patterns.items() if needed]
    problem = BY_HAND.get(folder.name, "")
    if not problem and "own agent" in features:
        problem = OWN_AGENT
        if any("sandboxed" in agent for agent in agents):
            problem = IN_SANDBOX
    return Server(folder.name, features, problem)


def example_rows(path: Path) -> list[dict[str, Any]]:
    """The `responses_create_params` of the rows of a file."""
    rows = map(json.loads, path.read_text().splitlines())
    return [row.get("responses_create_params") or {} for row in rows]


def tool_names(params: dict[str, Any]) -> tuple[str, ...]:
    """The names of a row's tools."""
    return tuple(tool["name"] for tool in params.get("tools") or [])


def summary(found: list[Server]) -> str:
    """The tables of docs/internals/coverage.md."""
    needs = Counter(feature for each in found for feature in each.features)
    able = [each for each in found if not each.problem]
    done = Counter(feature for each in able for feature in each.features)
    lines = [
        f"| needs | servers of {len(found)} | a class can |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {name} | {count} | {done[name]} |" for name, count in needs.items()]
    lines += [f"| **any** | **{len(found)}** | **{len(able)}** |"]
    lines += ["", "| cannot be expressed, because | servers |", "| --- | --- |"]
    reasons = Counter(each.problem for each in found if each.problem)
    for reason, _ in reasons.most_common():
        names = [f"`{each.name}`" for each in found if each.problem == reason]
        lines.append(f"| {reason} | {', '.join(names)} |")
    return "\n".join(lines)


def main() -> int:
    """Print the tables. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--summary", action="store_true")
    found = list(servers())
    if parser.parse_args().summary:
        print(summary(found))
        return 0
    for each in found:
        says = each.problem or "yes"
        print(f"{each.name:44} {', '.join(each.features):50} {says}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
