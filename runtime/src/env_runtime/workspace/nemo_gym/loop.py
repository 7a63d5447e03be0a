"""One event loop for all episodes: providers share locks and clients between sandboxes."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Coroutine
from typing import Any

_once = threading.Lock()


def wait(work: Coroutine[Any, Any, Any], seconds: float | None = None) -> Any:
    """The result of work on the event loop. Raises TimeoutError after `seconds`."""
    with _once:
        loop = _running_loop()
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result(seconds)
    finally:
        future.cancel()


@functools.cache
def _running_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="sandboxes", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread can be started
        loop.close()  # it has open files
        raise
    return loop
