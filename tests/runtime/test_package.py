"""Tests of packages for NeMo Helix: the rules, the dataset, and the environment."""

import json
import shutil
import tomllib

import pytest
import yaml
from env_runtime import package as contents
from env_runtime.errors import DeployError
from env_runtime.evaluation.rows import load_rows
from env_runtime.package import __main__ as command
from env_runtime.package import rules
from env_runtime.project import Project, here
from packaging.requirements import Requirement
from packaging.tags import Tag

from projects import ROOT

from .support import add_wheel, refusal, rows_file

AGENT = {"type": "responses_api_agents", "name": "one_agent"}
SERVER_FILE = "resources_servers/one/configs/one.yaml"
AGENT_FILE = "responses_api_agents/simple_agent/configs/one_agent.yaml"
WHEELS = ("nemo_gym-0.7.0", "ray-2.60.0", "openai-2.44.0", "pip-26.3", "httpx-0.28.1")
WHEELS += ("setuptools-82.0.0", "setuptools_scm-9.2.2")


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    path.write_text(text, encoding="utf-8")


def edit(path, change):
    content = yaml.safe_load(path.read_text())
    change(content)
    write(path, content)


def row(prompt, **more):
    params = {"input": [{"role": "user", "content": prompt}], "tools": []}
    return {"responses_create_params": params, "agent_ref": AGENT, **more}


def write_rows(path, *rows):
    write(path, "".join(f"{json.dumps(one)}\n" for one in rows))


def config(name, kind, implementation, **settings):
    return {name: {kind: {implementation: settings}}}


PACKAGE = {
    SERVER_FILE: config(
        *("one_server", "resources_servers", "one"),
        entrypoint="server.py",
        domain="games",
    ),
    AGENT_FILE: config(
        *("one_agent", "responses_api_agents", "simple_agent"),
        entrypoint="app.py",
        resources_server={"type": "resources_servers", "name": "one_server"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    ),
    contents.POLICY_MODEL: config(
        *("policy_model", "responses_api_models", "vllm_model"), **contents.POLICY
    ),
    "nemo-environment.yaml": {
        "format": "wheels-v1",
        "config_paths": [contents.POLICY_MODEL, SERVER_FILE, AGENT_FILE],
        "metadata": {"name": "one", "description": "A game."},
    },
    "resources_servers/one/server.py": "",
    "resources_servers/one/requirements.txt": "httpx==0.28.1\n",
    **{f"wheels/{name}-py3-none-any.whl": "" for name in WHEELS},
}


@pytest.fixture
def out(tmp_path):
    """A package that breaks no rule, with empty wheels."""
    for path, content in PACKAGE.items():
        write(tmp_path / "environment" / path, content)
    write_rows(tmp_path / "dataset/training.jsonl", row("one"), row("two"))
    write_rows(tmp_path / "dataset/validation.jsonl", row("three"))
    return tmp_path


def check(*arguments):
    return command.main([*map(str, arguments), "--check"])


def refused(out, *options):
    return refusal(DeployError, check, out, *options)


def test_a_package_that_breaks_no_rule(out, capsys):
    assert check(out) == 0
    assert "no rule of NeMo Helix is broken" in capsys.readouterr().out


MANIFEST = "environment/nemo-environment.yaml"
IN_SERVER, IN_AGENT = f"environment/{SERVER_FILE}", f"environment/{AGENT_FILE}"
IN_POLICY = f"environment/{contents.POLICY_MODEL}"
TRAINING = "dataset/training.jsonl"


def set_in(file, *path):
    """Sets the last of `path` to True, below the others, in a YAML file of a package."""

    def change(out):
        def set_it(content):
            for key in path[:-2]:
                content = content[key]
            content[path[-2]] = path[-1]

        edit(out / file, set_it)

    return change


def add(file, content=""):
    return lambda out: write(out / f"environment/{file}", content)


def remove(file):
    return lambda out: (out / file).unlink()


def link(out):
    (out / "environment/link.txt").symlink_to("wheels")


def no_wheels(out):
    shutil.rmtree(out / "environment/wheels")


def train(*rows):
    return lambda out: write_rows(out / TRAINING, *rows)


def validate(*rows):
    return lambda out: write_rows(out / "dataset/validation.jsonl", *rows)


SERVER = ("one_server", "resources_servers", "one")
ONE_AGENT = ("one_agent", "responses_api_agents", "simple_agent")
POLICY = ("policy_model", "responses_api_models", "vllm_model")
PATHS = [SERVER_FILE, AGENT_FILE]
ONE = "resources_servers/one"
LINUX = "manylinux_2_28"
REFERENCE = (*ONE_AGENT, "resources_server", "name", "another")
NO_PARAMS = {"prompt": "x", "agent_ref": AGENT}
HEAVY = row("x", agent_ref={**AGENT, "weight": 1})
# For each rule: a place that is named, and the change that breaks the rule there
BREAKS = {
    "manifest": [
        (MANIFEST[12:], remove(MANIFEST)),
        ("author", set_in(MANIFEST, "author", "me")),
        ("url", set_in(MANIFEST, "metadata", {"name": "one", "url": "x"})),
        ("metadata.name", set_in(MANIFEST, "metadata", "name", "")),
        (
            "metadata.description",
            set_in(MANIFEST, "metadata", "description", "x" * 2049),
        ),
        ("format", set_in(MANIFEST, "format", "wheels-v2")),
        ("adapter", set_in(MANIFEST, "adapter", {"agent": "verifiers_agent"})),
        ("adapter.agent", set_in(MANIFEST, "format", "adapter-wheels-v1")),
        ("metadata.hub_id", set_in(MANIFEST, "metadata", "hub_id", "x" * 513)),
    ],
    "config-paths": [
        ("config_paths", set_in(MANIFEST, "config_paths", [])),
        ("../x", set_in(MANIFEST, "config_paths", [*PATHS, "../x.yaml"])),
        ("none.yaml", set_in(MANIFEST, "config_paths", ["none.yaml"])),
        (AGENT_FILE, set_in(MANIFEST, "config_paths", [*PATHS, AGENT_FILE])),
        ("one.yaml '", set_in(MANIFEST, "config_paths", [f"{SERVER_FILE} "])),
        (SERVER_FILE, set_in(MANIFEST, "format", "adapter-wheels-v1")),
    ],
    "files": [
        ("rows.jsonl", add(f"{ONE}/rows.jsonl")),
        ("link.txt", link),
        ("pyproject.toml", add("pyproject.toml")),
    ],
    "server-folder": [
        ("server.py", remove(f"environment/{ONE}/server.py")),
        ("one", add(f"{ONE}/pyproject.toml", "[project]")),
        (ONE, remove(f"environment/{ONE}/requirements.txt")),
        ("requirements.txt", add(f"{ONE}/requirements.txt")),
    ],
    "domain": [
        ("one_server", set_in(IN_SERVER, *SERVER, "domain", "wordle")),
        ("one_agent", set_in(IN_AGENT, *ONE_AGENT, "domain", "games")),
    ],
    "datasets": [("one_agent", set_in(IN_AGENT, *ONE_AGENT, "datasets", []))],
    "references": [("one_agent, resources_server", set_in(IN_AGENT, *REFERENCE))],
    "one-kind": [("simple_agent", add("resources_servers/simple_agent/app.py"))],
    "model-servers": [
        ("openai_model/app.py", add("responses_api_models/openai_model/app.py")),
    ],
    "policy-model": [
        ("policy_model", set_in(MANIFEST, "config_paths", PATHS)),
        ("policy_model", set_in(IN_POLICY, *POLICY, "model", "gpt-5")),
        (
            contents.POLICY_MODEL,
            set_in(MANIFEST, "config_paths", [*PATHS, contents.POLICY_MODEL]),
        ),
    ],
    "wheels-folder": [
        ("wheels/", no_wheels),
        ("wheels/more", add("wheels/more/x-1-py3-none-any.whl")),
        ("wheels/x-1.tar.gz", add("wheels/x-1.tar.gz")),
    ],
    "one-version": [("httpx", add("wheels/httpx-0.27.0-py3-none-any.whl"))],
    "wheel-tags": [
        ("x-1-cp312", add(f"wheels/x-1-cp312-cp312-{LINUX}_x86_64.whl")),
        ("x-1-cp313", add(f"wheels/x-1-cp313-cp313-{LINUX}_aarch64.whl")),
        ("x.whl", add("wheels/x.whl")),
    ],
    "complete": [
        ("pip", remove("environment/wheels/pip-26.3-py3-none-any.whl")),
        ("setuptools", remove(f"environment/wheels/{WHEELS[-2]}-py3-none-any.whl")),
        ("httpx==1.0", add(f"{ONE}/requirements.txt", "httpx==1.0\n")),
        ("-r more.txt", add(f"{ONE}/requirements.txt", "-r more.txt\n")),
    ],
    "rows": [
        ("training.jsonl", remove(TRAINING)),
        ("training.jsonl", train()),
        ("row 1, agent_ref", train(row("x", agent_ref={}))),
        ("row 1, agent_ref", train(HEAVY)),
        ("row 1, responses_create_params", train(NO_PARAMS)),
        ("validation.jsonl, row 1", validate(row("two"))),
    ],
}


@pytest.mark.parametrize(
    ("rule", "number"), [(rule, n) for rule in BREAKS for n in range(len(BREAKS[rule]))]
)
def test_a_broken_rule_is_named_with_its_place_and_a_cure(out, rule, number):
    place, change = BREAKS[rule][number]
    change(out)
    lines = refused(out).splitlines()[1:]
    named = [line.split(": ", 2) for line in lines]
    assert any(found == rule and place in where for found, where, _ in named), lines
    assert all(cure.strip() for _, _, cure in named)


def test_every_rule_has_a_package_that_breaks_it():
    assert set(BREAKS) == set(rules.RULES)


def test_native_v1_needs_no_wheels_and_configurations_in_servers_folders(out):
    no_wheels(out)
    set_in(MANIFEST, "format", "native-v1")(out)
    assert check(out) == 0
    write(out / "environment/configs/one.yaml", {})
    shutil.move(out / IN_SERVER, out / "environment/configs/one.yaml")
    paths = [contents.POLICY_MODEL, "configs/one.yaml", AGENT_FILE]
    set_in(MANIFEST, "config_paths", paths)(out)
    assert "config-paths: configs/one.yaml" in refused(out)


def test_a_host_may_bring_the_policys_model_server(out):
    assert "model-servers" in refused(out, "--without-model-server")
    set_in(MANIFEST, "config_paths", PATHS)(out)
    remove(IN_POLICY)(out)
    assert check(out, "--without-model-server") == 0
    set_in(MANIFEST, "format", "adapter-wheels-v1")(out)
    named = refused(out, "--without-model-server").splitlines()
    assert any(line.endswith("name one of native-v1, wheels-v1") for line in named)


def test_the_architecture_decides_which_wheels_fit(out):
    add("wheels/x-1-cp313-cp313-manylinux_2_17_aarch64.manylinux2014_aarch64.whl")(out)
    assert "wheel-tags" in refused(out)
    assert check(out, "--arch", "aarch64") == 0
    assert Tag("cp312", "abi3", "manylinux2014_aarch64") in contents.tags("aarch64")


# ---------------------------------------------------------------- the dataset


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of this process's project, with the runtime's wheel in vendor/."""
    root = tmp_path / "project"
    shutil.copytree(here().root, root, ignore=shutil.ignore_patterns(".venv*", ".git"))
    vendor = add_wheel(root)
    (vendor / "teamlib-1-py3-none-any.whl").touch()  # a library of the repository
    monkeypatch.setattr("env_runtime.shipped.refuse_keys", lambda *_: None)
    return Project.read(root)


def rows_in(folder, name):
    return load_rows(folder / f"{name}.jsonl")


def test_each_row_names_its_agent_in_exactly_two_keys(project, tmp_path):
    contents.write_dataset(tmp_path / "made", [project], None, None)
    made, own = rows_in(tmp_path / "made", "training"), load_rows(project.rows)
    agent = {**AGENT, "name": contents.agent_of(project)}
    assert made == [{**one, "agent_ref": agent} for one in own]
    assert not (tmp_path / "made/validation.jsonl").exists()


def test_no_row_is_in_both_splits(project, tmp_path):
    contents.write_dataset(tmp_path, [project], None, 0.25)
    train, held = (rows_in(tmp_path, name) for name in ("training", "validation"))
    whole = len(load_rows(project.rows))
    assert len(train) + len(held) == whole and len(held) == whole // 4
    assert not [one for one in held if one in train]


def test_what_make_rows_made_is_taken_first(project, tmp_path):
    [first, second, *_] = project.rows.read_text().splitlines(keepends=True)
    write(project.gym / "data/train.jsonl", first)
    write(project.gym / "data/validation.jsonl", second)
    contents.write_dataset(tmp_path, [project], None, None)
    splits = [rows_in(tmp_path, name) for name in ("training", "validation")]
    assert [len(split) for split in splits] == [1, 1]
    contents.write_dataset(tmp_path, [project], project.rows, None)
    assert len(rows_in(tmp_path, "training")) > 2


def test_a_row_without_the_servers_tools_is_refused(project, tmp_path):
    first = load_rows(project.rows)[0]
    first["responses_create_params"]["tools"] = []
    bare, made = rows_file(tmp_path, first), tmp_path / "made"
    with pytest.raises(DeployError, match=r"row 1 of .* lacks the tools .*--write-to"):
        contents.write_dataset(made, [project], bare, None)


# ---------------------------------------------------------------- the environment


def written(project, folder, form="native-v1", model_server=True):
    pins = {"pydantic": "==2.9", "httpx": "==1.0", "nemo-gym": "==0.7.0"}
    folder.mkdir()
    contents.write_environment(folder, [project], pins, form, "x86_64", model_server)
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in found}


def test_the_environment_has_the_server_its_runtime_and_the_class(project, tmp_path):
    files = written(project, tmp_path / "environment")
    server = f"resources_servers/{project.name}"
    own = f"{server}/env_runtime/_project"
    assert {
        f"{server}/server.py",
        f"{server}/env_runtime/__init__.py",
        f"{own}/{project.module}.py",
        f"{own}/nemo_gym/server.py",
        f"{own}/nemo_gym/pyproject.toml",
        # NeMo Gym gives each server and each agent a venv, in which no other is found.
        f"responses_api_agents/{project.name}_agent/app.py",
        f"responses_api_agents/{project.name}_agent/env_runtime/__init__.py",
    } <= files
    assert not [path for path in files if path.endswith((".jsonl", ".pyc"))]
    pins = (tmp_path / "environment" / server / "requirements.txt").read_text()
    assert pins == "httpx==1.0\npydantic==2.9\n"


def test_every_wheel_of_a_package_is_pinned(tmp_path):
    names = [
        "gymnasium-1.2.0-py3-none-any.whl",
        "nemo_gym_env_runtime-1-py3-none-any.whl",
    ]
    for name in names:
        (tmp_path / name).touch()
    pins = contents.pins_of(tmp_path)
    assert pins == {"gymnasium": "==1.2.0", "nemo-gym-env-runtime": "==1"}


def test_the_manifest_lists_the_policys_model_server_first(project, tmp_path):
    folder = tmp_path / "environment"
    written(project, folder)
    manifest = yaml.safe_load((folder / "nemo-environment.yaml").read_text())
    assert manifest["format"] == "native-v1"
    assert manifest["config_paths"][0] == contents.POLICY_MODEL
    assert manifest["metadata"]["name"] == project.name.replace("_", "-")
    contents.write_dataset(tmp_path / "dataset", [project], None, None)
    rules.check(rules.Package(tmp_path, "x86_64", True))


def test_data_files_are_named_in_the_projects_settings(project, tmp_path):
    settings = project.gym / "pyproject.toml"
    table = '[tool.environment]\ndata_files = ["words/*.txt"]\n'
    settings.write_text(settings.read_text().replace("[tool.environment]\n", table))
    with pytest.raises(DeployError, match=r"data_files .* 'words/\*.txt' matches no f"):
        written(project, tmp_path / "first")
    write(project.root / "words/short.txt", "apple\n")
    files = written(project, tmp_path / "second")
    assert [path for path in files if path.endswith("_project/words/short.txt")]


@pytest.mark.parametrize("model_server", [True, False])
def test_a_judges_model_server_stays_out_and_its_variables_remain(
    project, tmp_path, model_server
):
    """Helix: "Customer-provided responses_api_models are not supported"."""
    judge = {"responses_api_models": {"openai_model": {"entrypoint": "app.py"}}}
    reference = {"type": "responses_api_models", "name": "judge_model"}
    trained = {**reference, "name": "policy_model"}

    def name_models(content):
        server = content[f"{project.name}_resources_server"]
        [settings] = server["resources_servers"].values()
        settings |= {"judge_model_server": reference, "user_model_server": trained}
        content["judge_model"] = judge

    edit(project.gym / f"configs/{project.name}.yaml", name_models)
    write(project.gym / "responses_api_models/openai_model/app.py", "")
    files = written(project, tmp_path / "environment", model_server=model_server)
    models = [file for file in files if file.startswith("responses_api_models")]
    assert models == [contents.POLICY_MODEL] * model_server
    [settings] = contents.servers_of(project)[f"{project.name}_resources_server"][
        "resources_servers"
    ].values()
    assert "judge_model_server" not in settings
    assert settings["user_model_server"] == trained
    contents.write_dataset(tmp_path / "dataset", [project], None, None)
    rules.check(rules.Package(tmp_path, "x86_64", model_server))


# ---------------------------------------------------------------- the whole


@pytest.fixture
def resolved(monkeypatch):
    """The command without uv and pip: a resolution that a test made up."""
    packages = [{"name": name, "version": "1"} for name in (*contents.HOST, "httpx")]

    def resolve(projects, versions, arch, folder):
        return contents.Resolution(packages, folder, arch)

    monkeypatch.setattr(command, "resolve", resolve)
    return packages


def test_what_fails_leaves_nothing_and_what_was_there_stays(
    out, project, resolved, monkeypatch
):
    monkeypatch.setattr(command, "here", lambda: project)
    before = {path: path.read_bytes() for path in out.rglob("*.yaml")}
    write(project.gym / "data/train.jsonl", "no JSON")
    place = out / "environment" / "nemo-environment.yaml"
    assert place.is_file()
    with pytest.raises(Exception, match="not JSON"):
        command.main([str(out), "--format", "native-v1"])
    assert {path: path.read_bytes() for path in before} == before
    assert not list(out.parent.glob(f".{out.name}.*"))


def test_an_earlier_package_is_replaced_and_another_folder_is_not(
    project, resolved, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(command, "here", lambda: project)
    made = tmp_path / "made"
    for _ in range(2):
        assert command.main([str(made), "--format", "native-v1"]) == 0
        assert check(made) == 0
        write(made / "environment/left.txt", "")
    said = capsys.readouterr().out
    assert "nemo-gym 1, ray 1, openai 1: they must be the image's own" in said
    assert f"nemo files upload {made}/environment/ " in said
    assert "nemo customization rl --job-json job.json" in said
    assert "NHX_RL_SANDBOX_ALLOW_INTERNET" in said
    assert "NHX_RL_JOB_STORAGE_PVC_CLAIM" in said and "NMP_... for NHX_..." in said
    evaluation = ["--format", "native-v1", "--without-model-server"]
    assert command.main([str(made), *evaluation]) == 0
    said = capsys.readouterr().out
    assert "--nemo-gym 0.5.0 --ray 2.58.0" in said and "nemo evals agent-" in said
    assert "NHX_" not in said
    command.main([str(made), "--format", "native-v1"])
    assert not (made / "environment/left.txt").exists()
    with pytest.raises(DeployError, match="exists, and is not a package"):
        command.main([str(project.root), "--format", "native-v1"])
    assert project.rows.is_file()


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Downloads a package that pip builds here, as a wheel of this name."""

    def download(wheel, arch):
        def pip(action, *arguments):
            if action == "wheel":
                write(tmp_path / "wheels" / wheel, "")
            yield ""

        monkeypatch.setattr(contents, "_pip", pip)
        directory = {"path": "../mine"}
        package = {"name": "x", "version": "1", "directory": directory}
        resolution = contents.Resolution([package], tmp_path, arch)
        contents.download(resolution, tmp_path / "wheels")

    return download


@pytest.mark.parametrize("abi", ["cp313-cp313", "cp39-abi3", "py3-none"])
def test_a_wheel_compiled_on_such_a_machine_is_taken_with_a_note(
    built, tmp_path, capsys, abi
):
    name = f"x-1-{abi}-linux_x86_64.whl"
    built(name, "x86_64")
    assert f"note: {name} was compiled here" in capsys.readouterr().out
    package = rules.Package(tmp_path, "x86_64", True)
    write(tmp_path / "environment/wheels" / name, "")
    assert not [*rules.wheel_tags(package)]


@pytest.mark.parametrize(
    "name", ["x-1-py3-none-any.whl", "x-1-cp313-cp313-manylinux_2_28_x86_64.whl"]
)
def test_a_wheel_for_every_machine_needs_no_note(built, capsys, name):
    built(name, "x86_64")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("x-1-cp313-cp313-linux_x86_64.whl", "aarch64"),
        ("x-1-cp312-cp312-linux_x86_64.whl", "x86_64"),
        ("x-1-cp313-cp313-macosx_14_0_arm64.whl", "aarch64"),
    ],
)
def test_a_wheel_built_for_another_machine_is_named(built, name, arch):
    problem = rf"no wheel for {arch} .* of x \(built here: {name}\)"
    with pytest.raises(DeployError, match=problem):
        built(name, arch)


def test_the_packages_runtime_admits_the_hosts_nemo_gym():
    """The host has Python 3.13 and a nemo-gym of its own for evaluations."""
    settings = tomllib.loads((ROOT / "runtime/pyproject.toml").read_text())
    extras = settings["project"]["optional-dependencies"]
    needs = map(Requirement, extras["nemo-gym"] + extras["nemo-gym-git"])
    host = {"python_version": "3.13", "python_full_version": contents.PYTHON}
    bounds = [
        one.specifier
        for one in needs
        if one.name == "nemo-gym" and (not one.marker or one.marker.evaluate(host))
    ]
    for version in (command.EVALUATION_HOST["nemo-gym"], "0.6.0", "0.7.0"):
        assert all(bound.contains(version) for bound in bounds), version
    assert not all(bound.contains("0.4.0") for bound in bounds)
