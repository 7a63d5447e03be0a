"""The server gate: the server starts and answers /health."""

from .. import project
from ..errors import GateError
from ..rollouts.client import Client


def server_gate(client: Client) -> str:
    """Check that /health answers. Returns the gate's line. Raises GateError."""
    response = client.session().request("GET", "/health")
    if response.status_code != 200:
        raise GateError(
            f"GET /health answered {response.status_code}: {response.text[:300]}"
        )
    refuse = getattr(project.here().load_class(), "refuse_to_serve", lambda: None)
    reason = refuse()
    note = f"; for gates only: {reason}" if reason else ""
    return f"{client.url}/health answers{note}"
