"""A model that NeMo Gym serves: `<name>_model_server` in configs/<env>.yaml names it."""

import asyncio
from typing import Any

from ..errors import ModelError
from ..settings import ModelSettings
from .endpoints import Bounded


def gym_endpoint(server: Any, name: str) -> Bounded | None:
    """The model's endpoint, asked by NeMo Gym's own client; None without NeMo Gym.

    That client repeats requests over broken connections, and the model's server repeats
    those that its endpoint refuses. Call it on the event loop that serves.
    """
    reference = (server.config.model_extra or {}).get(f"{name}_model_server") or {}
    model = reference.get("name")
    if model is None or model not in server.server_client.global_config_dict:
        return None
    settings = ModelSettings.read_model(name).model_copy(update={"api": "responses"})

    async def post(body: dict[str, Any]) -> dict[str, Any]:
        response = await server.server_client.post(
            server_name=model, url_path="/v1/responses", json=body
        )
        if response.status != 200:
            text = (await response.text())[:300]
            raise ModelError(f"{model} answered {response.status}: {text}")
        return await response.json()

    return Bounded(settings, asyncio.get_running_loop(), post)
