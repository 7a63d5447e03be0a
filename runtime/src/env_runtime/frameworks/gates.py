"""The command of a framework's gates.py."""

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping

from ..checks import runner
from ..checks.runner import Gate
from ..checks.server import starting_server, url_of
from ..project import here
from .checks import check_episodes, check_rewards
from .rollouts import Start, adapter, play

__all__ = ["run_gates"]

NAMES = ("import", "server", "smoke", "rollout")


def run_gates(framework: str, description: str | None, *modules: str) -> int:
    """The command line of a framework's gates.py. Returns its exit status.

    The module of the framework here has gates(stack, *modules), which returns them by
    name. `stack` is closed after the last gate. A gate imports that module when it runs,
    so that it reports a missing package.
    """
    with contextlib.ExitStack() as stack:

        @functools.cache
        def gates() -> Mapping[str, Gate]:
            return adapter(framework).gates(stack, *modules)

        def gate(name: str) -> Gate:
            return lambda: gates()[name]()

        return runner.run_gates({name: gate(name) for name in NAMES}, description)


def server_gates(
    stack: contextlib.ExitStack,
    folder: str,
    command: list[str],
    import_gate: Gate,
    server_gate: Callable[[str], str],
    connect: Callable[[str], Start],
) -> dict[str, Gate]:
    """The gates of a framework that has a server: OpenEnv and ORS.

    Python runs `command` in the project's `folder` when a gate first needs the server.
    `server_gate` gets its URL, and `connect` makes episodes there.
    """

    @functools.cache
    def url() -> str:
        # OpenEnv's own checks, and this server's clients here, send no API_TOKEN.
        started = [sys.executable, *command]
        server = starting_server(started, here().root / folder, API_TOKEN="")
        return url_of(stack.enter_context(server))

    def rollout_gate() -> str:
        start = connect(url())
        return check_rewards(here().load_class(), functools.partial(play, start))

    return {
        "import": import_gate,
        "server": lambda: server_gate(url()),
        "smoke": lambda: check_episodes(here().load_class(), connect(url())),
        "rollout": rollout_gate,
    }
