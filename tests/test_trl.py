"""Tests that Transformers reads the tools' schemas from the adapter for TRL."""

import json
import sys

import pytest

from projects import UV, import_path, run

SCHEMAS = {
    "x: str": {"type": "string"},
    "x: int": {"type": "integer"},
    "x: float = 0.5": {"type": "number"},
    "x: bool = False": {"type": "boolean"},
    "x: list[str]": {"type": "array", "items": {"type": "string"}},
    "x: list[int] = []": {"type": "array", "items": {"type": "integer"}},
    'x: Literal["a", "b"]': {"type": "string", "enum": ["a", "b"]},
    'x: Literal["a"]': {"type": "string", "enum": ["a"]},
    "x: Literal[1, 2] = 2": {"type": "integer", "enum": [1, 2]},
    "x: int | None = None": {"type": "integer", "nullable": True},
    "x: str | None": {"type": "string", "nullable": True},
    "x: list[float] | None = None": {
        "type": "array",
        "items": {"type": "number"},
        "nullable": True,
    },
    'x: Literal["a", "b"] | None = "a"': {
        "type": "string",
        "enum": ["a", "b"],
        "nullable": True,
    },
}

# What a server.py of the user's may say, beyond what the template writes.
DESCRIPTIONS = [
    "",
    "Look:\n  twice.",
    "Args: a, b. Returns: c. Raises: d.",
    "One of these (choices: a, b)",
    'He said "x: y" and """z""" \\ %s {0}',
    "ünï — 猫",
]

SCRIPT = """
import inspect, json, pathlib, sys
from transformers.utils import get_json_schema
from env_runtime.evaluation.client import Client
from env_runtime.trainers import trl

tools = json.loads(pathlib.Path(sys.argv[1]).read_text())
Client.tools = lambda self: tools
Client.replies = Client.has_row_tools = lambda self: False
instance = trl.environment()()
schemas = [
    get_json_schema(getattr(instance, name))["function"]
    for name, _ in inspect.getmembers(type(instance), predicate=inspect.isfunction)
    if not name.startswith("_") and name not in ("reset", "get_reward")
]
pathlib.Path(sys.argv[2]).write_text(json.dumps(schemas))
"""


@pytest.fixture
def schemas(render, tmp_path):
    """Makes transformers' schemas of tool definitions, by name."""

    def of(definitions):
        given, made = tmp_path / "tools.json", tmp_path / "schemas.json"
        given.write_text(json.dumps(definitions))
        packages = ["--with=transformers", "--with=requests"]
        packages += ["--with=pydantic", "--with=pydantic-settings"]
        command = [UV, "run", "--no-project", "--python", sys.executable, *packages]
        run(
            [*command, "python", "-c", SCRIPT, given, made],
            tmp_path,
            PYTHONPATH=import_path(render()),
        )
        return {schema["name"]: schema for schema in json.loads(made.read_text())}

    return of


def definition(name, description, properties, *required):
    parameters = {"properties": properties, "required": list(required)}
    return {"name": name, "description": description, "parameters": parameters}


MOVES = {
    "type": "array",
    "items": {"type": "object", "properties": {"to": {"type": "string"}}},
}
DAY = {"type": "string", "format": "date"}
# A tool's parameters, and what a model sees of them
OTHERS = [
    ({}, {}),
    (
        {"moves": {**MOVES, "description": "Moves."}, "day": DAY},
        {
            "moves": {
                "type": "array",
                "items": {"type": "object"},
                "description": f"Moves. JSON Schema: {json.dumps(MOVES)}",
            },
            "day": {"type": "string", "description": f"JSON Schema: {json.dumps(DAY)}"},
        },
    ),
    (
        {
            "two": {"type": "object", "additionalProperties": {}},
            "three": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "four": {},
        },
        {
            "two": {"type": "object", "description": "two"},
            "three": {"type": ["integer", "string"], "description": "three"},
            "four": {"description": "four"},
        },
    ),
]


def test_models_see_the_servers_definitions(definitions, schemas):
    tools = [f"tool{i}({parameter})" for i, parameter in enumerate(SCHEMAS)]
    rendered = definitions("\n".join(tools))
    others = [
        definition(f"other{i}", "A tool.", given, *list(given)[:1])
        for i, (given, _) in enumerate(OTHERS)
    ]
    described = [
        definition(
            f"described{i}", text, {"x": {"type": "string", "description": text}}
        )
        for i, text in enumerate(DESCRIPTIONS)
    ]
    seen = schemas([*rendered, *others, *described])
    assert list(seen) == sorted(each["name"] for each in rendered + others + described)

    for given, schema in zip(rendered, SCHEMAS.values(), strict=True):
        function, parameters = seen[given["name"]], given["parameters"]
        # Without a description, get_json_schema takes no parameter.
        expected = {"x": {**schema, "description": "x"}}
        assert function["parameters"]["properties"] == expected
        assert function["parameters"].get("required", []) == parameters["required"]
        assert function["description"] == given["description"]
    for given, (_, expected) in zip(others, OTHERS, strict=True):
        parameters = seen[given["name"]]["parameters"]
        assert parameters["properties"] == expected
        assert parameters.get("required", []) == given["parameters"]["required"]
    for i, text in enumerate(DESCRIPTIONS):
        function = seen[f"described{i}"]
        x = function["parameters"]["properties"]["x"]
        for said, name in ((function, f"described{i}"), (x, "x")):
            kept = said["description"].replace(":", "")
            assert kept == (" ".join(text.split()).replace(":", "") or name)
