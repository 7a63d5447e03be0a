"""The gates of a framework that has a server: OpenEnv and ORS."""

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path

from ..checks.runner import run_gates
from ..checks.starting import starting_server, url_of
from ..project import here
from .checks import check_episodes, check_rewards
from .rollouts import Start, play


def run_server_gates(
    import_gate: Callable[[], str],
    server_gate: Callable[[str], str],
    connect: Callable[[str], Start],
    *,
    command: list[str],
    folder: Path,
    description: str | None,
) -> int:
    """The command line of the framework's gates.py. Returns its exit status.

    `command`, in `folder`, starts the server when a gate first needs it. `server_gate`
    gets its URL, and `connect` makes episodes there.
    """
    with contextlib.ExitStack() as stack:

        @functools.cache
        def url() -> str:
            # OpenEnv's own checks, and this server's clients here, send no API_TOKEN.
            server = starting_server(command, folder, API_TOKEN="")
            return url_of(stack.enter_context(server))

        def smoke_gate() -> str:
            return check_episodes(here().load_class(), connect(url()))

        def rollout_gate() -> str:
            start = connect(url())
            return check_rewards(here().load_class(), functools.partial(play, start))

        gates = {
            "import": import_gate,
            "server": lambda: server_gate(url()),
            "smoke": smoke_gate,
            "rollout": rollout_gate,
        }
        return run_gates(gates, description)
