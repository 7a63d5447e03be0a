"""NeMo Gym 0.7 with its modules where the main branch has them."""

import re
from pathlib import Path

MOVED = {
    "base_environment_server": "server_runtime.base_environment_server",
    "base_resources_server": "server_runtime.base_resources_server",
    "config_types": "config.config_types",
    "global_config": "config.global_config",
    "mcp_auto_exposure": "server_runtime.mcp_auto_exposure",
    "openai_utils": "core.responses_api_types",
    "responses_converter": "models.chat_completions_converter",
    "reward_profile": "metrics.reward_profile",
    "rollout_observability": "trajectory.trajectory_record",
    "rollout_reverification": "rollouts.rollout_reverification",
    "server_utils": "server_runtime.base_server",
    "testing": "server_runtime.testing",
    "verifier_fixture": "verification.verifier_fixture",
}
# What the main branch has taken out of server_utils
SPLIT = {
    "client.http_client": "get_response_json, raise_for_status, request",
    "client.server_client": "ServerClient",
    "server_runtime.ray_support": "initialize_ray",
    "server_runtime.request_handling.session_id": "SESSION_ID_KEY",
    "utils.server_process": "is_nemo_gym_fastapi_worker",
}


def move_modules(site: Path) -> None:
    """Move the modules of the package in a folder, and correct all imports there.

    Files are replaced, not changed: they may be hard links.
    """
    gym = site / "nemo_gym"
    names = "|".join(MOVED)
    dotted = re.compile(rf"\bnemo_gym\.({names})\b")
    of_package = re.compile(rf"from nemo_gym import ({names})\b")
    exported = re.compile(rf'": "({names})"')  # in nemo_gym/__init__.py
    for path in [*site.rglob("*.py")]:
        if not path.is_relative_to(gym) and not re.search(
            r"^(environment_servers|resources_servers|responses_api_\w+)$",
            path.relative_to(site).parts[0],
        ):
            continue
        old = path.read_text(encoding="utf-8")
        new = dotted.sub(lambda found: f"nemo_gym.{MOVED[found[1]]}", old)
        new = of_package.sub(_import_moved, new)
        if path == gym / "__init__.py":
            new = exported.sub(lambda found: f'": "{MOVED[found[1]]}"', new)
        if new != old:
            path.unlink()
            path.write_text(new, encoding="utf-8")
    for before, after in MOVED.items():
        source = gym / before
        target = gym.joinpath(*after.split("."))
        _make_package(target.parent)
        if source.is_dir():
            source.rename(target)
        else:
            source.with_suffix(".py").rename(target.with_suffix(".py"))
    for module, taken in SPLIT.items():
        path = gym.joinpath(*module.split(".")).with_suffix(".py")
        _make_package(path.parent)
        path.write_text(f"from nemo_gym.server_runtime.base_server import {taken}\n")


def _make_package(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").touch()


def _import_moved(found: re.Match[str]) -> str:
    package, _, module = MOVED[found[1]].rpartition(".")
    return f"from nemo_gym.{package} import {module} as {found[1]}"
