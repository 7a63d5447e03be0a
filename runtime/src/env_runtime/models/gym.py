"""A model that NeMo Gym serves: `<name>_model_server` in configs/<env>.yaml names it."""

import asyncio
import json
from typing import Any

from ..errors import ModelError
from ..settings import ModelSettings
from .answers import PLAIN, bounded, check_encoding
from .endpoints import LimitedEndpoint


def gym_endpoint(server: Any, name: str) -> LimitedEndpoint | None:
    """The model's endpoint, asked by NeMo Gym's own client; None without NeMo Gym.

    That client repeats requests over broken connections, and the model's server repeats
    those that its endpoint refuses. Call it on the event loop that serves.
    """
    reference = (server.config.model_extra or {}).get(f"{name}_model_server") or {}
    model = reference.get("name")
    if model is None or model not in server.server_client.global_config_dict:
        return None
    settings = ModelSettings.read_model(name).model_copy(update={"api": "responses"})

    async def post(body: dict[str, Any], retry: bool) -> Any:
        async with await server.server_client.post(
            server_name=model,
            url_path="/v1/responses",
            json=body,
            headers={**PLAIN},  # NeMo Gym adds to it
            allow_redirects=False,
        ) as response:
            check_encoding(response.headers)
            parts = [part async for part in bounded(response.content.iter_any())]
        data = b"".join(parts)
        if response.status != 200:
            raise ModelError(
                f"{model} answered with status {response.status}",
                data[:500].decode(errors="replace"),
                response.status,
            )
        return json.loads(data)

    return LimitedEndpoint(settings, asyncio.get_running_loop(), post)
