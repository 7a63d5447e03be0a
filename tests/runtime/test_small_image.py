"""What the image that only serves leaves out, and how a server answers without it."""

import contextlib
import importlib.metadata
import subprocess
import sys
from typing import Any

import pytest
from env_runtime import small_image
from env_runtime.errors import ShardsError
from env_runtime.scale import deployment
from starlette.testclient import TestClient

RUNTIME = "nemo-gym-env-runtime"
# Hides what the image leaves out from the interpreter that runs this first.
HIDE = """
import importlib.metadata, sys
from importlib.machinery import PathFinder
hidden = set(sys.argv.pop(1).split(","))
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


def without(script: str, *more: str) -> subprocess.CompletedProcess[str]:
    # pandas and SciPy need NumPy, which the image then lacks, too.
    hidden = modules([*small_image.LEFT_OUT, "numpy", "matplotlib"])
    names = ",".join([*sorted(hidden), *more])
    command = [sys.executable, "-c", HIDE + script, names]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_server_imports_none_of_it():
    """On both series. The image's build runs the same check."""
    assert modules(small_image.LEFT_OUT) >= {"ray", "pandas", "wandb", "mlflow"}
    script = "from env_runtime import small_image\nsys.exit(small_image.check())"
    process = without(script)
    assert process.returncode == 0, process.stderr
    process = without(script, "orjson")  # a package that a server needs
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
    left_out = small_image.left_out(lock(*dependencies))
    assert set(small_image.LEFT_OUT) - set(left_out) == kept


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
