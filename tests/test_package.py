"""Packages for NeMo Helix, built by the command, checked by Helix and played as its host does."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from nights import ONE_SERIES
from projects import ROOT, UV, clean_environment, run

# Two rows of a project's dataset, of which the model solves the first.
PLAN = """
import json, sys
from env_runtime.evaluation.policies import solve
agent, dataset = sys.argv[1:]
rows = [row for row in map(json.loads, open(dataset)) if row["agent_ref"]["name"] == agent]
for number, row in enumerate(rows[:2]):
    tools = row["responses_create_params"]["tools"]
    print(json.dumps({"row": row, "plan": [] if number else solve(row, tools)}))
"""
# A read-only package and no network: $1 is the package, the rest is the command.
ISOLATED = """
mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 1
if touch "$1/file"; then exit 1; fi
shift; exec "$@"
"""
NAMESPACES = ["unshare", "-nmp", "--fork", "--mount-proc", "--kill-child"]


@ONE_SERIES
@pytest.mark.slow
def test_a_package_without_wheels_breaks_no_rule(generate, tmp_path):
    environment = generate(archetype="game")
    package = ("-m", "env_runtime.package", tmp_path / "out")
    printed = environment.run(*package, "--format", "native-v1", UV=UV)
    assert re.search(
        r"nemo-gym [\d.]+, ray [\d.]+, openai [\d.]+: they must be", printed
    )
    assert "no rule of NeMo Helix is broken" in environment.run(*package, "--check")
    folder = tmp_path / "out/environment/resources_servers/my_env"
    pins = (folder / "requirements.txt").read_text().splitlines()
    assert pins and all(
        re.fullmatch(r"[\w-]+(\[[\w,-]+])?==[\w.]+", pin) for pin in pins
    )
    assert not [pin for pin in pins if pin.startswith(("nemo-gym", "ray=", "openai="))]


# What Helix's host of Gym does with a package before it starts: the second part only
# for an evaluation.
HOSTS_CHECK = """
import sys
from sandboxed_gym import environment_package as host
package = host.load_environment_package(sys.argv[1])
print(package.manifest.format.value)
if sys.argv[2] == "evaluate":
    host.validate_environment_namespaces(host.inspect_environment_namespaces(package))
"""
# What a submission of a GRPO job does.
SUBMISSIONS_CHECK = """
import sys
from pathlib import Path
from nhx.rl.tasks.environment.validate import load_manifest, validate_package_layout
manifest = load_manifest(Path(sys.argv[1]))
validate_package_layout(Path(sys.argv[1]), manifest)
"""


@ONE_SERIES
@pytest.mark.nightly
def test_nemo_helix_takes_the_packages(generate, tmp_path):
    judged = generate(archetype="conversation", backend="model")
    helix = tmp_path / "helix"
    pip = [UV, "pip", "install", "--quiet", "--target", helix]
    pip += ["--python", judged.python]
    run([*pip, "nemo-sandboxed-gym==0.1.0", "pyyaml"], tmp_path)
    run([*pip, "--no-deps", "nemo-helix==0.8.1"], tmp_path)

    def check(script, package, *how, fails=False):
        command = [judged.python, "-c", script, package / "environment", *how]
        done = run(command, tmp_path, check=not fails, PYTHONPATH=str(helix))
        assert bool(done.returncode) == fails, done.stdout
        return done.stdout

    for form in ("native-v1", "wheels-v1"):
        options = ["--format", form]
        trained, evaluated = tmp_path / f"train-{form}", tmp_path / f"evaluate-{form}"
        judged.run("-m", "env_runtime.package", trained, *options, UV=UV)
        assert form in check(HOSTS_CHECK, trained, "train")
        check(SUBMISSIONS_CHECK, trained)
        refused = check(HOSTS_CHECK, trained, "evaluate", fails=True)
        assert "Customer-provided responses_api_models are not supported" in refused
        options += ["--without-model-server", "--nemo-gym", "0.5.0"]
        options += ["--ray", "2.58.0", "--openai", "2.7.2"]
        judged.run("-m", "env_runtime.package", evaluated, *options, UV=UV)
        check(HOSTS_CHECK, evaluated, "evaluate")


# Reads the jobs of docs/training.md as Helix does.
JOBS = """
import json, re, sys
from nemo_evals.jobs.agent_spec import GymRunnerTarget
from nemo_rl_plugin.schema import RlJobInput

texts = re.findall(r"```json\\n(.*?)```", open(sys.argv[1]).read(), re.DOTALL)
train, evaluate = map(json.loads, texts)
print(RlJobInput.model_validate(train).training.type)
print(GymRunnerTarget.model_validate(evaluate["target"]).agent)
"""


@pytest.mark.nightly
def test_nemo_helix_takes_the_documented_jobs(tmp_path):
    helix = "nemo-helix[nemo-evals-plugin,nemo-rl-plugin]==0.8.1"
    command = [UV, "run", "--quiet", "--no-project", "--python", sys.executable]
    command += ["--with", helix, "python", "-c", JOBS, f"{ROOT}/docs/training.md"]
    assert run(command, tmp_path).stdout.split()[-2:] == ["grpo", "my_env_agent"]


def add_lock(project: Path, wheels: Path, python: str) -> Path:
    """Gives a rendered project what its tasks would make. Returns its folder."""
    folder = project / "nemo_gym"
    shutil.rmtree(folder / "vendor", ignore_errors=True)
    shutil.copytree(wheels, folder / "vendor")
    run([UV, "lock", "--quiet", "--python", python], folder)
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
def test_three_projects_play_from_one_package_without_a_network(
    generate, variant, interpreter, tmp_path
):
    done = run(
        [*NAMESPACES, "mount", "-t", "tmpfs", "x", "/mnt"], tmp_path, check=False
    )
    if done.returncode:
        pytest.skip(f"no namespaces for a machine without a network: {done.stdout}")
    game = generate(archetype="game")
    lake = variant(
        archetype="gymnasium",
        env_name="lake",
        dependencies="gymnasium[toy-text]>=1",
        packages=("gymnasium[toy-text]>=1",),
    )
    form = variant(archetype="vision", env_name="form", packages=("pillow",))
    others = [
        add_lock(each.project, game.folder / "vendor", interpreter)
        for each in (lake, form)
    ]
    package = tmp_path / "package"
    options = ["--validation", "0.2", "--with", *map(str, others)]
    game.run("-m", "env_runtime.package", package, *options, UV=UV)
    agents = {
        "my_env_simple_agent": game,
        "lake_simple_agent": lake,
        "form_agent": form,
    }
    plans = [
        each.run("-c", PLAN, agent, str(package / "dataset/training.jsonl"))
        for agent, each in agents.items()
    ]
    (tmp_path / "plan.jsonl").write_text("".join(plans))

    host = tmp_path / "host"
    host.mkdir()
    binaries = [
        Path(interpreter).parent,
        Path(UV).parent,
        "/usr/bin",
        "/bin",
        "/usr/sbin",
    ]
    variables = {
        "PATH": ":".join(map(str, binaries)),
        "UV_CACHE_DIR": str(host / "cache"),
        "UV_OFFLINE": "1",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }
    command = [game.python, ROOT / "tests/nemo_helix_host.py", package]
    isolated = [*NAMESPACES, "sh", "-c", ISOLATED, "sh", package, *command]
    log = host / "log"
    with (
        tempfile.TemporaryDirectory(dir="/tmp", prefix="ray-") as ray,
        log.open("wb") as to,
    ):
        subprocess.run(
            [*map(str, isolated), str(tmp_path / "plan.jsonl")],
            cwd=host,
            env=clean_environment(**variables, RAY_TMPDIR=ray),
            stdout=to,
            stderr=to,
            timeout=900,
            check=False,
        )
    said = log.read_text(errors="replace")[-5000:]
    assert (host / "found.json").is_file(), said
    found = json.loads((host / "found.json").read_text())
    assert found["run_examples"] == [1.0, 0.0] * 3
    assert found["eval"] == [1.0, 0.0] * 3
    assert found["changed"] == []
