"""Long work of make_rows.py: how far it is, and what is left of it after a signal."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Generator

from ..command_line import ENDINGS, handling, leave, meanwhile

# How often a line says how far it is.
PROGRESS_SECONDS = 20.0


@contextlib.contextmanager
def telling(progress: Callable[[], str]) -> Generator[None]:
    """Print a line on standard error every 20 seconds, until the with block ends."""

    def tell(ended: threading.Event) -> None:
        while not ended.wait(PROGRESS_SECONDS):
            print(f"make_rows.py: {progress()}", file=sys.stderr, flush=True)

    with meanwhile(tell):
        yield


@contextlib.contextmanager
def ending_whole() -> Generator[None]:
    """Have a signal that ends the process end with blocks, so no half of a file stays."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [number for number in ENDINGS if number is not signal.SIGINT]
    with handling(numbers if is_main else [], leave):
        yield
