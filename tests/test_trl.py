"""Tests that Transformers reads the tools' schemas from the adapter for TRL."""

import json
import sys

import pytest

from conftest import UV, import_path, run

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


def rendered_tools(render, parameters):
    tools = "\n".join(f"tool{i}({text})" for i, text in enumerate(parameters))
    project = render(tools=tools)
    code = (
        "import json; from my_env import MyEnv; "
        "from env_runtime.episode.tools import tools_of; "
        "print(json.dumps([t.definition() for n, t in tools_of(MyEnv).items() if n != 'guess']))"
    )
    done = run([sys.executable, "-c", code], project, PYTHONPATH=import_path(project))
    return json.loads(done.stdout)


def test_models_see_the_servers_definitions(render, schemas):
    definitions = rendered_tools(render, SCHEMAS)
    described = [
        {
            "name": f"described{i}",
            "description": text,
            "parameters": {
                "properties": {
                    "one": {"type": "string", "description": text},
                    "two": {"type": "object", "additionalProperties": {}},
                    "three": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    "four": {},
                },
                "required": ["two"],
            },
        }
        for i, text in enumerate(DESCRIPTIONS)
    ]
    bare = {
        "name": "bare",
        "description": "No argument.",
        "parameters": {"properties": {}, "required": []},
    }
    moves = {
        "type": "array",
        "items": {"type": "object", "properties": {"to": {"type": "string"}}},
    }
    day = {"type": "string", "format": "date"}
    typed = {
        "name": "typed",
        "description": "Objects and dates.",
        "parameters": {
            "properties": {"moves": {**moves, "description": "Moves."}, "day": day},
            "required": ["moves", "day"],
        },
    }
    seen = schemas([*definitions, *described, bare, typed])

    for definition, schema in zip(definitions, SCHEMAS.values(), strict=True):
        function = seen.pop(definition["name"])
        assert function["description"] == definition["description"]
        parameters = definition["parameters"]
        said = parameters["properties"]["x"]["description"]
        assert function["parameters"]["properties"] == {
            "x": {**schema, "description": said}
        }
        assert function["parameters"].get("required", []) == parameters["required"]

    assert seen.pop("bare") == {
        "name": "bare",
        "description": "No argument.",
        "parameters": {"type": "object", "properties": {}},
    }
    assert seen.pop("typed")["parameters"]["properties"] == {
        "moves": {
            "type": "array",
            "items": {"type": "object"},
            "description": f"Moves. JSON Schema: {json.dumps(moves)}",
        },
        "day": {"type": "string", "description": f"JSON Schema: {json.dumps(day)}"},
    }
    for i, text in enumerate(DESCRIPTIONS):
        function = seen.pop(f"described{i}")
        one, two, three, four = function["parameters"]["properties"].values()
        for said, name in ((function, f"described{i}"), (one, "one")):
            kept = said["description"].replace(":", "")
            assert kept == (" ".join(text.split()).replace(":", "") or name)
        assert one["type"] == "string"
        assert two == {"type": "object", "description": "two"}
        assert three == {"type": ["integer", "string"], "description": "three"}
        assert four == {"description": "four"}
        assert function["parameters"]["required"] == ["two"]
    assert not seen
