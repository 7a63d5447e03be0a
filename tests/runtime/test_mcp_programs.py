"""MCP servers as people have them: programs by their paths, in the sandbox and without it."""

import json
import os
import shutil
import site
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from env_runtime.episode.declaration import declared
from env_runtime.episode.schema import plain_schema
from env_runtime.facts import SECRETS
from env_runtime.mcp import McpEpisode
from env_runtime.mcp.programs import needs_of, program_of
from env_runtime.workspace.bubblewrap import secrets_in
from env_runtime.workspace.local import isolation

# As the quick start of the Python SDK has it, with a module beside it
WEATHER = """
import os
from pathlib import Path
from plain_mcp import Server
from stations import STATIONS

server = Server()

@server.tool()
def temperature(city: str) -> str:
    return str(STATIONS[city])

@server.tool()
def read(path: str) -> str:
    return Path(path).read_text()

@server.tool()
def variable(name: str) -> str:
    return os.environ.get(name, "not set")

server.run()
"""
WITH_SDK = WEATHER.replace(
    "plain_mcp import Server", "mcp.server.fastmcp import FastMCP"
)
WITH_SDK = WITH_SDK.replace("Server()", "FastMCP('weather', log_level='ERROR')")
# The protocol without its SDK, which is in no registry of the tests
NODE = """#!/usr/bin/env node
const { greet } = require("greeting");
const lines = require("readline").createInterface({ input: process.stdin });
const tool = { name: "greet", inputSchema: { type: "object", properties: {} } };
const info = { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "n", version: "1" } };
lines.on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const text = { type: "text", text: greet(process.env.WHO || "you") };
  const results = { initialize: info, "tools/list": { tools: [tool] }, "tools/call": { content: [text] } };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] || {} }));
});
"""
PLAIN = Path(__file__).parents[1] / "plain_mcp.py"


class Own(McpEpisode):
    start_seconds: ClassVar = 120
    call_seconds: ClassVar = 60


@pytest.fixture(params=["bubblewrap", "none"], autouse=True)
def isolated(request, monkeypatch) -> bool:
    """Whether the servers of a test run under bubblewrap."""
    if request.param == "bubblewrap" and isolation() != "bubblewrap":
        pytest.skip(isolation())
    monkeypatch.setenv("SANDBOX_ISOLATION", request.param)
    program_of.cache_clear()
    return request.param == "bubblewrap"


@pytest.fixture
def play():
    """Starts an episode over a command, which ends with the test."""
    episodes = []

    def play(command, task=None, **members):
        kind = type("Weather", (Own,), {"command": command, **members})
        episodes.append(kind(task or {}))
        return episodes[-1]

    yield play
    for episode in episodes:
        episode.close()


@pytest.fixture
def package(tmp_path) -> Path:
    """A server in a package of its own: a venv, a module beside it, and a key."""
    folder = tmp_path / "weather"
    packages = folder / f".venv/lib/python3.{sys.version_info[1]}/site-packages"
    packages.mkdir(parents=True)
    # The packages of this interpreter, as an editable installation names a folder
    (packages / "editable.pth").write_text("\n".join(site.getsitepackages()))
    base = Path(sys._base_executable)  # ty: ignore[missing-attribute]
    (folder / ".venv/bin").mkdir()
    (folder / ".venv/bin/python").symlink_to(base)
    (folder / ".venv/pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (folder / "pyproject.toml").write_text("[project]\nname = 'weather'\n")
    (folder / "weather.py").write_text(WEATHER)
    (folder / "stations.py").write_text("STATIONS = {'Oslo': 3}\n")
    shutil.copy(PLAIN, folder)
    (folder / ".env").write_text("KEY=secret")
    return folder


@pytest.fixture
def scripts(tmp_path) -> Path:
    """A server of Node.js, whose packages are two folders up."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folder = tmp_path / "site"
    greeting = folder / "node_modules/greeting"
    greeting.mkdir(parents=True)
    (greeting / "index.js").write_text("exports.greet = (who) => `Hello, ${who}`;\n")
    (folder / "packages/server/build").mkdir(parents=True)
    (folder / "packages/server/package.json").write_text('{"name": "server"}')
    script = folder / "packages/server/build/index.js"
    script.write_text(NODE)
    script.chmod(0o755)
    (folder / "hook.mjs").write_text("globalThis.hooked = true;\n")
    # A build of the TypeScript SDK's quick start has no first line `#!`
    (folder / "plain.js").write_text(NODE.partition("\n")[2])
    (folder / "link").symlink_to("plain.js")
    (folder / "node_modules/.bin").mkdir()
    (folder / "node_modules/.bin/server").symlink_to(script)
    return folder


# ------------------------------------------------------------------ ways to a program


def test_a_venv_and_a_module_by_their_paths(play, package):
    (package / "weather.py").write_text(WITH_SDK)
    episode = play(f"{package}/.venv/bin/python {package}/weather.py")
    assert episode.ask("temperature", {"city": "Oslo"}) == 3


def test_the_projects_python_and_a_module_beside_others(play, package):
    assert (
        play(f"python {package}/weather.py").ask("temperature", {"city": "Oslo"}) == 3
    )


def test_an_installed_program_by_its_path(play, package):
    """Its first line names the venv's interpreter, and its package is editable."""
    [editable] = package.rglob("editable.pth")
    editable.write_text(f"{editable.read_text()}\n{package}\n")
    program = package / ".venv/bin/weather"
    program.write_text(f"#!{package}/.venv/bin/python\nimport weather\n")
    program.chmod(0o755)
    episode = play(f"{program} --stdio")
    assert episode.ask("temperature", {"city": "Oslo"}) == 3


@pytest.mark.parametrize(
    ("command", "who"),
    [
        ("node {0}/packages/server/build/index.js", "you"),
        ("{0}/packages/server/build/index.js --stdio", "you"),
        ("env WHO=Ada {0}/node_modules/.bin/server", "Ada"),
        ("node --import=file://{0}/hook.mjs {0}/packages/server/build/index.js", "you"),
        ("{0}/plain.js", "you"),
        ("{0}/link", "you"),
    ],
)
def test_scripts_of_node(play, scripts, command, who):
    episode = play(command.format(scripts))
    assert episode.ask("greet") == f"Hello, {who}"


@pytest.mark.parametrize("folder", ["bin", "libexec", "dist"])
def test_a_program_with_its_modules_beside_its_folder(play, scripts, tmp_path, folder):
    """Nothing says that they are one package."""
    app = tmp_path / "app"
    (app / folder).mkdir(parents=True)
    shutil.copytree(scripts / "node_modules/greeting", app / "lib/greeting")
    program = app / folder / "server"
    program.write_text(NODE.replace('"greeting"', '"../lib/greeting"'))
    program.chmod(0o755)
    (tmp_path / "links").mkdir()
    (tmp_path / "links/server").symlink_to(program)
    for command in (
        f"{program} --stdio",
        f"node {program}",
        f"{tmp_path}/links/server",
    ):
        assert play(command).ask("greet") == "Hello, you"


def test_a_python_program_with_its_modules_beside_bin(play, package, tmp_path):
    app = tmp_path / "app"
    (app / "bin").mkdir(parents=True)
    (app / "lib").mkdir()
    for module in (package / "stations.py", PLAIN):
        shutil.copy(module, app / "lib")
    (package / "stations.py").unlink()
    start = "import sys\nsys.path.insert(0, sys.path[0].removesuffix('bin') + 'lib')\n"
    program = app / "bin/weather"
    program.write_text(f"#!{package}/.venv/bin/python\n{start}{WEATHER}")
    program.chmod(0o755)
    assert play(str(program)).ask("temperature", {"city": "Oslo"}) == 3


@pytest.fixture
def installers(tmp_path, monkeypatch):
    """Puts programs on PATH in place of npx, npm, uvx and uv. Each is a shell script."""
    folder = tmp_path / "installers"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.delenv("UV", raising=False)

    def install(**scripts: str) -> None:
        for name, text in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)

    return install


@pytest.mark.parametrize(
    "command",
    [
        "uv --directory {0} run weather.py",
        "uv run --directory={0} --frozen weather",
        "uv --project {0} run python -m weather",
    ],
)
def test_uv_run_in_a_folder(play, package, installers, command):
    """uv is asked for the interpreter once, and the program starts without it."""
    program = package / ".venv/bin/weather"
    program.write_text(f"#!{package}/.venv/bin/python\nimport weather\n")
    program.chmod(0o755)
    [editable] = package.rglob("editable.pth")
    editable.write_text(f"{editable.read_text()}\n{package}\n")
    installers(uv=f"echo {package}/.venv/bin/python")
    episode = play(command.format(package))
    assert episode.ask("temperature", {"city": "Oslo"}) == 3


def test_uv_run_of_a_script_with_dependencies_of_its_own(play, package, installers):
    (package / "weather.py").write_text(f"# /// script\n# ///\n{WEATHER}")
    here = f"{package}/.venv/bin/python"
    installers(
        uv=f'case "$*" in "python find --script"*) echo {here};; *) exit 0;; esac'
    )
    episode = play(f"uv run --directory {package} weather.py")
    assert episode.ask("temperature", {"city": "Oslo"}) == 3


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("uvx --python 3.13 -q shelf --all", "--python 3.13 -q --from shelf python"),
        ("uvx --from=shelf[cli] shelf --all", "--from=shelf[cli] python"),
        ("uv tool run --with ink shelf@1 --all", "--with ink --from shelf@1 python"),
    ],
)
def test_options_of_uvx(installers, tmp_path, command, asked):
    installers(uvx=f'echo "$*" > {tmp_path}/asked; echo /env; echo /base')
    assert program_of(command).words == ["/env/bin/shelf", "--all"]
    assert (tmp_path / "asked").read_text().startswith(asked)


def test_packages_of_uvx_are_compiled_once(package, installers):
    """No episode can: the sandbox shows them to be read."""
    packages = package / f".venv/lib/python3.{sys.version_info[1]}/site-packages"
    shutil.copy(PLAIN, packages)
    python = f"{package}/.venv/bin/python"
    installers(uvx=f'while [ "$1" != python ]; do shift; done; exec {python} "$2" "$3"')
    assert program_of("uvx weather").words == [f"{package}/.venv/bin/weather"]
    assert [*packages.glob("__pycache__/plain_mcp.*.pyc")]


def test_a_program_of_npm_that_is_no_script_of_node(play, scripts, installers):
    binaries = scripts / "node_modules/.bin"
    start = f'exec "{shutil.which("node")}" {scripts}/plain.js\n'
    (binaries / "native").write_text(f"#!/bin/sh\n{start}")
    installers(npx=f"echo {binaries}:$PATH")
    for command in ("npx -y shelf --stdio", "npx -y -p shelf native --stdio"):
        (scripts / "node_modules/shelf").mkdir(exist_ok=True)
        about = {"bin": {"native": "../.bin/native"}}
        (scripts / "node_modules/shelf/package.json").write_text(json.dumps(about))
        assert program_of(command).words[0] == "/bin/sh"
        assert play(command, readable=(str(scripts),)).ask("greet") == "Hello, you"


def test_the_reason_of_npm_and_the_commands_variables(installers):
    """npx says nothing if a script of the package fails, so npm is asked."""
    installers(
        npx="exit 1",
        npm='echo "npm error code 1\nnpm error Error: no Chrome; SKIP=$SKIP" >&2; exit 1',
        uvx='echo "Because shelf needs Python>=3.13\nit is unsatisfiable" >&2; exit 1',
    )
    with pytest.raises(ValueError, match="installed: Error: no Chrome; SKIP=1$"):
        program_of("env SKIP=1 npx -y shelf")
    with pytest.raises(ValueError, match="installed: Because shelf .* unsatisfiable$"):
        program_of("uvx shelf")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("/no/such/server --stdio", "the file /no/such/server does not exist"),
        ("python weather.py", "weather.py must be an absolute path"),
        ("./server", "./server must be an absolute path"),
        ("env TOKEN={env:NOT_SET} python -m notes", "NOT_SET is not set"),
        (
            "uv run --with mcp mcp run /abs/server.py",
            "write `uv run --directory FOLDER",
        ),
        ("uv run --directory weather server.py", "with an absolute path"),
        ("npx -y", "write `npx -y PACKAGE ARGUMENTS`"),
    ],
)
def test_what_is_not_there_is_named(command, problem):
    kind = type("Missing", (Own,), {"command": command})
    assert problem in str(declared(kind).missing_requirement())


# ------------------------------------------------------------------ what the sandbox shows


def test_keys_and_rows_are_not_shown(play, package, isolated, monkeypatch):
    """Though the whole package is, and the project may be in it."""
    rows = package / "my_env/nemo_gym/data/example.jsonl"
    rows.parent.mkdir(parents=True)
    rows.write_text("the answers")
    (package / "notes.txt").write_text("a note")
    (package / "deep/.aws").mkdir(parents=True)
    (package / "deep/.aws/credentials").write_text("secret")
    found = SimpleNamespace(root=package / "my_env")
    monkeypatch.setattr("env_runtime.workspace.bubblewrap.known", lambda: [found])
    secrets_in.cache_clear()
    episode = play(f"{package}/.venv/bin/python {package}/weather.py")
    assert episode.call_row_tool("read", {"path": f"{package}/notes.txt"}).output
    hidden = [package / ".env", package / "deep/.aws/credentials", rows]
    for path in hidden if isolated else []:
        try:
            assert episode.call_row_tool("read", {"path": str(path)}).output == ""
        except ValueError as error:
            assert "No such file" in str(error)


def test_what_no_image_gets_is_not_shown(tmp_path):
    """The list of deploy, package and .dockerignore is this one's, too."""
    for number, name in enumerate(SECRETS):
        key = tmp_path / str(number) / name.replace("*", "x")
        key.parent.mkdir(parents=True)
        key.write_text("-----BEGIN PRIVATE KEY-----")
        assert {key, *key.parents} & {*secrets_in(tmp_path / str(number))}, name


def test_files_that_a_program_needs_are_shown(tmp_path):
    """Certificates, a venv that is called .env, and names that only look like keys."""
    honest = ["certs/cacert.pem", ".env/pyvenv.cfg", "key.md", "secrets_game.py"]
    honest += ["environment.py", "keys/a.txt", "aws/credentials", "credentials.json"]
    for name in honest:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("-----BEGIN CERTIFICATE-----")
    assert secrets_in(tmp_path) == []


def test_a_server_in_the_home_is_shown_with_its_neighbors_only(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    for name in ("server.py", "stations.py", "diary.txt", "pyproject.toml"):
        (tmp_path / name).touch()
    assert needs_of(tmp_path / "server.py") == [
        tmp_path / "server.py",
        tmp_path / "stations.py",
    ]


def test_folders_with_more_than_programs_are_not_shown(tmp_path, monkeypatch):
    """A home, also if the command names it, ~/.config, and the home of another user."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / ".config").mkdir()
    for name in (".config/server.js", ".config/keys.json", "server.js"):
        (tmp_path / name).touch()
    assert needs_of(tmp_path) == []
    server = tmp_path / ".config/server.js"
    assert needs_of(server) == [server]
    for folder in ("bin", ".local/bin"):
        program = tmp_path / folder / "server"
        program.parent.mkdir(parents=True)
        assert needs_of(program) == [program.parent]
    assert needs_of(Path("/home/ada/server.js"))[:1] == [Path("/home/ada/server.js")]
    secrets_in.cache_clear()
    assert tmp_path / ".config" in secrets_in(tmp_path)


@pytest.fixture
def needy(package, tmp_path) -> str:
    """The command of a server that reads a file elsewhere when it starts."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/cities.txt").write_text("Oslo")
    path = tmp_path / "elsewhere/cities.txt"
    text = f"from pathlib import Path\nPath({str(path)!r}).read_text()\n{WEATHER}"
    (package / "weather.py").write_text(text)
    return f"{package}/.venv/bin/python {package}/weather.py"


def test_a_path_that_the_sandbox_does_not_show_is_named(needy, isolated, tmp_path):
    kind = type("Needy", (Own,), {"command": needy})
    path = tmp_path / "elsewhere/cities.txt"
    if not isolated:
        assert next(tool["name"] for tool in kind.row_tools()) == "temperature"
        return
    with pytest.raises(ValueError, match="No such file") as raised:
        kind.row_tools()
    cure = f'add it to the class, `readable = ("{path}",)`'
    assert f"The sandbox does not show {path} to the server: {cure}" in str(
        raised.value
    )
    cured = type("Cured", (kind,), {"readable": (str(path),)})
    assert next(tool["name"] for tool in cured.row_tools()) == "temperature"


def test_the_last_lines_of_a_server_that_does_not_start(play, package):
    (package / "weather.py").write_text("import sys\nsys.exit('one\\ntwo\\nthree')\n")
    kind = type("Broken", (Own,), {"command": f"python {package}/weather.py"})
    with pytest.raises(ValueError, match=r"has ended: one \| two \| three") as raised:
        kind.row_tools()
    if isolation() == "bubblewrap":
        assert "It does not start without the sandbox either" in str(raised.value)


def test_the_end_of_a_long_last_line_is_shown(package):
    """It may say what to do."""
    text = f"sys.exit('The interface has changed. ' + {'see there, ' * 60!r} + 'Pin notes below 2.')"
    (package / "weather.py").write_text(f"import sys\n{text}\n")
    kind = type("Broken", (Own,), {"command": f"python {package}/weather.py"})
    with pytest.raises(
        ValueError, match=r"The interface has .* \.\.\. .*Pin notes below 2\."
    ):
        kind.row_tools()


def test_a_trace_of_node_is_left_out_of_the_last_lines(package):
    trace = "Error: no ink\\n    at write (a.js:1:2) {\\n}\\n\\nNode.js v20.1.0"
    (package / "weather.py").write_text(f"import sys\nsys.exit('{trace}')\n")
    kind = type("Broken", (Own,), {"command": f"python {package}/weather.py"})
    with pytest.raises(ValueError, match=r"has ended: Error: no ink(\.|$)"):
        kind.row_tools()


# ------------------------------------------------------------------ keys


def test_a_key_is_read_when_the_server_starts_and_is_in_no_file(
    play, package, monkeypatch
):
    command = f"env TOKEN={{env:MY_TOKEN}} python {package}/weather.py"
    kind = type("Weather", (Own,), {"command": command})
    monkeypatch.delenv("MY_TOKEN", raising=False)
    assert "MY_TOKEN is not set" in str(declared(kind).missing_requirement())
    monkeypatch.setenv("MY_TOKEN", "secret")
    assert declared(kind).missing_requirement() is None
    assert "secret" not in json.dumps(program_of(command), default=str)
    assert play(command).ask("variable", {"name": "TOKEN"}) == "secret"
    other = play(f"python {package}/weather.py", env={"TOKEN": "{env:MY_TOKEN}"})
    assert other.ask("variable", {"name": "TOKEN"}) == "secret"
    assert other.ask("variable", {"name": "MY_TOKEN"}) == "not set"


# ------------------------------------------------------------------ schemas

POINT = {"type": "object", "properties": {"x": {"type": "number"}}}
TREE = {
    "type": "object",
    "properties": {"left": {"$ref": "#/$defs/Tree"}, "title": {"type": "string"}},
}


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        (  # zod 3, for a schema that is used twice
            {"properties": {"start": POINT, "end": {"$ref": "#/properties/start"}}},
            {"properties": {"start": POINT, "end": POINT}},
        ),
        (
            {
                "properties": {"a": {"$ref": "#/definitions/P"}},
                "definitions": {"P": POINT},
            },
            {"properties": {"a": POINT}},
        ),
        (
            {"items": {"anyOf": [{"$ref": "#/$defs/P"}]}, "$defs": {"P": POINT}},
            {"items": {"anyOf": [POINT]}},
        ),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/a~1b%20c"}},
                "$defs": {"a/b c": POINT},
            },
            {"properties": {"a": POINT}},
        ),
        (  # data, in which `title` is a key like any other
            {"title": "T", "default": {"title": "x"}, "enum": [{"title": "y"}]},
            {"default": {"title": "x"}, "enum": [{"title": "y"}]},
        ),
        ({"$ref": "#/nowhere"}, {}),
        ({"$ref": "https://example.com/schema"}, {}),
        ({"title": "T", "default": None, "type": "string"}, {"type": "string"}),
    ],
)
def test_references_of_a_schema(schema, plain):
    assert plain_schema(schema) == plain


def test_a_type_that_contains_itself_ends_in_its_type():
    plain = plain_schema(
        {"properties": {"tree": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": TREE}}
    )
    depth, node = 0, plain["properties"]["tree"]
    while "properties" in node:
        assert node["properties"]["title"] == {"type": "string"}
        depth, node = depth + 1, node["properties"]["left"]
    assert (depth, node) == (2, {"type": "object"})


def test_types_that_contain_each_other_stay_small():
    names = [f"T{n}" for n in range(30)]
    own = {
        n: {
            "type": "object",
            "properties": {m: {"$ref": f"#/$defs/{m}"} for m in names},
        }
        for n in names
    }
    plain = plain_schema({"$ref": "#/$defs/T0", "$defs": own})
    assert len(json.dumps(plain)) < 1_000_000


# ------------------------------------------------------------------ reset


def test_a_shared_server_is_reset_before_each_episode(package):
    state = "STATE = []\n@server.tool()\ndef add(x: str) -> list[str]:\n    STATE.append(x)\n    return STATE\n"
    state += "@server.tool()\ndef clear() -> str:\n    STATE.clear()\n    return 'clear'\nserver.run()"
    (package / "weather.py").write_text(WEATHER.replace("server.run()", state))
    members = {"command": f"python {package}/weather.py", "shared": True}
    kind = type("Shared", (Own,), members)
    task = {"reset": [["clear", {}]]}
    for _ in range(2):
        assert kind(task).ask("add", {"x": "a"}) == "a"
    assert kind({}).ask("add", {"x": "b"}) == "a\nb"
    lost = kind({"reset": [["no_such_tool", {}]]})
    with pytest.raises(RuntimeError, match="reset: no_such_tool failed"):
        lost.call_row_tool("clear", {})
    assert lost.infrastructure_failure
    with pytest.raises(ValueError, match="reset must be a list of calls"):
        kind({"reset": [["clear"]]})


# ------------------------------------------------------------------ files


@pytest.mark.parametrize(
    ("expected", "text", "holds"),
    [
        ({"text": "Oslo"}, "Oslo\n", True),
        ({"text": "Oslo"}, "Oslo, Lima", False),
        ({"contains": ["Oslo", "Lima"]}, "Lima and Oslo", True),
        ({"contains": "Oslo"}, "oslo", False),
        ({"json": {"a": [1, 2]}}, '{"a": [2, 1]}', True),
        ({"json": {"a": 1}}, '{"a": 1, "b": 2}', False),
        ({"table": [["city", "t"], ["Oslo", 3]]}, "city,t\nOslo,3.0\n", True),
        ({"table": [["city", "t"], ["Oslo", 3]]}, "city,t\nOslo,4\n", False),
        ({"table": [["a"]]}, "a\na\n", False),
        ({"text": "x"}, None, False),
    ],
)
def test_a_file_that_the_server_leaves(play, package, expected, text, holds):
    files = {} if text is None else {"out.txt": text}
    task = {"files": files, "expected_state": [{"file": "out.txt", **expected}]}
    episode = play(f"python {package}/weather.py", task)
    episode.ask("temperature", {"city": "Oslo"})
    assert episode.reward("") == float(holds)
    assert holds or "out.txt" in episode.unmet
    assert episode.infrastructure_failure is None


def test_a_database_that_the_server_leaves(play, package):
    text = WEATHER.replace(
        "server.run()",
        """
@server.tool()
def keep(city: str) -> str:
    import sqlite3
    with sqlite3.connect("/workspace/w.db" if os.path.isdir("/workspace") else os.environ["HOME"] + "/w.db") as db:
        db.execute("create table if not exists cities (name)")
        db.execute("insert into cities values (?)", [city])
    db.close()
    return "kept"

server.run()""",
    )
    (package / "weather.py").write_text(text)
    state = [{"file": "w.db", "query": "select name from cities", "table": [["Oslo"]]}]
    for city, reward in (("Oslo", 1.0), ("Lima", 0.0)):
        episode = play(f"python {package}/weather.py", {"expected_state": state})
        episode.call_row_tool("keep", {"city": city})
        assert episode.reward("") == reward


@pytest.mark.parametrize(
    "expected",
    [
        {"file": "a"},
        {"file": "a", "text": "x", "json": 1},
        {"file": "../a", "text": "x"},
        {"file": "a", "query": "select 1", "text": "x"},
        {"file": "a", "table": []},
        {"file": "a", "txt": "x"},
    ],
)
def test_a_file_that_cannot_be_expected(expected):
    with pytest.raises(ValueError):
        Own({"expected_state": [expected]})


def test_an_ordinary_user_may_ask_for_no_more(package):
    """What is shown is below the package, and the interpreter."""
    shown = program_of(f"{package}/.venv/bin/python {package}/weather.py").readable
    assert package in shown
    assert not {Path("/"), Path.home(), Path(os.path.sep, "tmp")} & {*shown}
