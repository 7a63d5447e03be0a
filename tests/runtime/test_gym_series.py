"""Names of NeMo Gym, wherever a release has them."""

import shutil
import subprocess
import sys
from pathlib import Path

import nemo_gym
import pytest
from env_runtime import gym_series
from gym_layout import move_modules

from projects import import_path, run

from .rendered import PROJECT

SITE = Path(nemo_gym.__file__).parents[1]
newer_only = pytest.mark.skipif(
    not gym_series.HAS_MCP, reason="the layout is that of nemo-gym 0.7"
)


@pytest.mark.nightly
@newer_only
def test_gates_with_the_modules_of_the_main_branch(tmp_path):
    """No module of the runtime needs a place that NeMo Gym's main branch has left."""
    for package in ("nemo_gym", "responses_api_agents/simple_agent"):
        shutil.copytree(SITE / package, tmp_path / package)
    move_modules(tmp_path)
    path = f"{tmp_path}:{import_path(PROJECT)}"
    gym = PROJECT / "nemo_gym"
    old = "import nemo_gym.server_utils"
    done = run([sys.executable, "-c", old], gym, check=False, PYTHONPATH=path)
    assert "No module named 'nemo_gym.server_utils'" in done.stdout
    printed = run([sys.executable, "gates.py"], gym, PYTHONPATH=path).stdout
    assert "the oracle earns 1.0, noop and nonsense 0.0" in printed
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    printed = run(tests, gym, PYTHONPATH=path).stdout
    assert " passed" in printed
    agent = "from env_runtime.frameworks.nemo_gym import EnvironmentAgent as agent; "
    agent += "from env_runtime.gym_series import module_of as of; "
    agent += "print(agent.__mro__[1].__name__, of('TrajectoryRecord').__name__)"
    # Otherwise, NeMo Gym puts the folder behind the installed packages.
    printed = run(
        [sys.executable, "-c", agent],
        gym,
        PYTHONPATH=path,
        NEMO_GYM_EXTRA_ROOTS=str(tmp_path),
    ).stdout
    assert "SimpleAgent nemo_gym.trajectory.trajectory_record" in printed


def test_a_release_that_nobody_knows_is_refused():
    """The message has the release, the name and the modules that should have it."""
    script = """
from env_runtime.gym_series import SimpleResourcesServer
import nemo_gym.server_utils
del nemo_gym.server_utils.SESSION_ID_KEY
from env_runtime.gym_series import SESSION_ID_KEY
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: nemo-gym 0.")
    assert "has no SESSION_ID_KEY in nemo_gym.server_runtime" in last
    assert "or nemo_gym.server_utils. This environment knows nemo-gym 0.4 to" in last


@newer_only
def test_every_name_is_there():
    """Also those that a game does not take."""
    for name in gym_series._MODULES:
        assert getattr(gym_series, name) is not None


def test_an_unknown_name():
    with pytest.raises(ImportError, match="cannot import name 'ServerCleint'"):
        from env_runtime.gym_series import ServerCleint  # noqa: F401
