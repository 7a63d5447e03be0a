"""What the image that only serves leaves out, and how a server answers without it."""

import contextlib
import importlib.metadata
import os
import subprocess
import sys
from typing import Any

import pytest
from env_runtime import project, slim_image
from env_runtime.errors import ShardsError
from env_runtime.scale import deployment
from starlette.testclient import TestClient

RUNTIME = "nemo-gym-env-runtime"
# Hides the modules of the variable HIDDEN from the interpreter that runs this first.
HIDE = """
import os, sys
from importlib.machinery import PathFinder
hidden = set(os.environ["HIDDEN"].split(","))
find = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in hidden else find(name, path, target)
PathFinder.find_spec = staticmethod(find_spec)
"""


def modules(packages: list[str]) -> set[str]:
    """The top-level modules of installed packages."""
    owners = importlib.metadata.packages_distributions()
    wanted = {name.replace("-", "_") for name in packages}
    return {
        module
        for module, names in owners.items()
        if wanted & {name.lower().replace("-", "_") for name in names}
    }


def hidden_modules() -> str:
    # pandas and SciPy need NumPy, which the image then lacks, too.
    return ",".join(sorted(modules([*slim_image.LEFT_OUT, "numpy", "matplotlib"])))


@pytest.fixture
def without(tmp_path):
    """Runs `python ARGUMENTS` where no process has the packages, nor `more` modules."""
    (tmp_path / "sitecustomize.py").write_text(HIDE)

    def run(*arguments: str, more: str = "") -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}"
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=project.here().gym,
            env={
                **os.environ,
                "PYTHONPATH": path,
                "HIDDEN": f"{hidden_modules()},{more}",
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_server_serves_without_it(without):
    """The image's build runs the same gates. The interpreter decides the series."""
    assert modules(slim_image.LEFT_OUT) >= {"ray", "pandas", "wandb", "mlflow"}
    process = without("gates.py", "server", "smoke", "--without-rows")
    assert process.returncode == 0, process.stdout + process.stderr
    assert "with an empty task" in process.stdout


@pytest.mark.slow
def test_a_server_imports_none_of_it(without):
    """The image's build runs the same check."""
    process = without("-m", "env_runtime.slim_image", "check")
    assert process.returncode == 0, process.stderr
    process = without("-m", "env_runtime.slim_image", "check", more="orjson")
    assert process.returncode == 1
    assert "cannot be imported: No module named 'orjson'" in process.stderr


def lock(*dependencies: str) -> dict:
    """A lock file of a project over these packages, and of NeMo Gym's."""
    needs: dict[str, Any] = {
        "my-env": [{"name": RUNTIME, "extra": ["nemo-gym"]}, *dependencies],
        RUNTIME: ["pydantic"],
        "nemo-gym": ["ray", "scipy", "datasets"],
        "datasets": ["pandas", "pyarrow"],
        **{name: [] for name in ("pydantic", "ray", "scipy", "pandas", "pyarrow")},
    }
    packages: dict[str, Any] = {}
    for name, wanted in needs.items():
        named = [one if isinstance(one, dict) else {"name": one} for one in wanted]
        packages[name] = {"name": name, "version": "1.2", "dependencies": named}
    packages["my-env"]["source"] = {"editable": "."}
    extras = {"nemo-gym": [{"name": "nemo-gym"}]}
    packages[RUNTIME]["optional-dependencies"] = extras
    return {"package": [*packages.values()]}


@pytest.mark.parametrize(
    ("dependencies", "kept"),
    [
        ([], set()),
        (["scipy"], {"scipy"}),
        (["datasets"], {"datasets", "pandas", "pyarrow"}),
        (["nemo-gym"], set()),
    ],
)
def test_what_the_class_needs_stays(dependencies, kept):
    left_out = slim_image.left_out(lock(*dependencies))
    assert set(slim_image.LEFT_OUT) - set(left_out) == kept


def test_what_openenvs_server_needs_stays():
    """Its packages are in a group: openai comes back with a model, `dev` counts nothing."""
    runtime = {
        "name": "nemo-gym-env-runtime",
        "optional-dependencies": {
            "openenv": [{"name": "openenv"}],
            "models": [{"name": "openai"}],
            "deploy": [{"name": "hf-xet"}],
        },
    }
    bare = [{"name": name} for name in ("openenv", "openai", "hf-xet", "gradio")]
    for extras, kept in [(["openenv"], set()), (["models", "openenv"], {"openai"})]:
        groups = {
            "dev": [{"name": "nemo-gym-env-runtime", "extra": ["deploy"]}],
            "server": [{"name": "nemo-gym-env-runtime", "extra": extras}],
        }
        mine = {"name": "mine", "source": {"editable": "."}, "dev-dependencies": groups}
        mine["dependencies"] = [{"name": "openenv"}]
        left_out = slim_image.left_out({"package": [mine, runtime, *bare]}, "openenv")
        assert set(slim_image.FRAMEWORKS["openenv"]) - set(left_out) == kept


def test_aggregation_names_the_image_that_can_do_it(serve, monkeypatch):
    client = TestClient(serve().setup_webserver(), raise_server_exceptions=False)
    monkeypatch.setitem(sys.modules, "pandas", None)
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0, "response": {}}
    body = {"verify_responses": [row]}
    answer = client.post("/aggregate_metrics", json=body)
    assert answer.status_code == 501
    assert "--target gym" in answer.json()["detail"]
    assert "pandas" in answer.json()["detail"]


def test_shards_on_ray_without_ray(monkeypatch, serve):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "env_runtime.scale.ray_actors", raising=False)
    monkeypatch.setenv("SHARDS", "2")
    with pytest.raises(ShardsError, match="SHARDS_ON=processes"):
        deployment.deploy(serve(), contextlib.ExitStack())
