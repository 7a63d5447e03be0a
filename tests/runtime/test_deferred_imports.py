"""Modules whose import takes seconds, and which most processes never use."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_statistics_are_the_same_with_quick_imports():
    """gym_series puts off pandas, SciPy and wandb until they are used."""
    script = """
import asyncio, json, sys
if sys.argv[1] == "quick":
    from env_runtime.gym_series import SimpleResourcesServer
    assert not {"pandas", "scipy"} & set(sys.modules)
from nemo_gym.config_types import AggregateMetricsRequest
from nemo_gym.reward_profile import compute_aggregate_metrics
answers = [
    {"_ng_task_index": n % 3, "_ng_rollout_index": n // 3, "reward": n % 2, "speed": n / 7,
     "agent_ref": {"name": "a"}, "response": {"usage": {"input_tokens": n}}}
    for n in range(12)
]
print(compute_aggregate_metrics(answers).model_dump_json())
"""
    quick, usual = (
        subprocess.run(
            [sys.executable, "-c", script, how],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for how in ("quick", "usual")
    )
    assert quick == usual
    assert json.loads(quick)["agent_metrics"]


@pytest.mark.parametrize(
    "module",
    [
        "checks.class_checks",
        pytest.param("resources_server.endpoints", marks=pytest.mark.slow),
        pytest.param("server", marks=pytest.mark.slow),
        pytest.param("prepare", marks=pytest.mark.slow),
    ],
)
def test_a_module_imports_no_statistics(module):
    """Whichever module of the runtime is imported first, NeMo Gym's import is quick."""
    script = f"""
import sys
import env_runtime.{module}
print(*sorted({{"pandas", "scipy"}} & set(sys.modules)))
"""
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout.split() == []
