"""The server gate: the server starts and answers /health."""

import importlib.metadata

from .. import project
from ..episode.declaration import declared
from ..errors import GateError
from ..evaluation.client import Client
from ..imports import lacking, packages_from_paths


def check_paths() -> None:
    """Raise GateError if a package is missing that is installed from a path.

    An image lacks such a package, and Gymnasium may not import it before an episode.
    """
    for name, path in packages_from_paths(project.here().gym).items():
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            problem = f"{name} is not installed here. {lacking(name, path, project.here().root)}"
            raise GateError(problem) from None


def server_gate(client: Client) -> str:
    """Check that /health answers. Returns the gate's line. Raises GateError."""
    response = client.session().request("GET", "/health")
    if response.status_code != 200:
        raise GateError(
            f"GET /health answered {response.status_code}: {response.text[:300]}"
        )
    reason = declared(project.here().load_class()).refuse_to_serve()
    note = f"; for gates only: {reason}" if reason else ""
    return f"{client.url}/health answers{note}"
