"""Event loops in threads of their own, for code that many threads call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

_loops: dict[str, asyncio.AbstractEventLoop] = {}
_once = threading.Lock()


def wait(
    name: str, work: Coroutine[Any, Any, Any], seconds: float | None = None
) -> Any:
    """The result of `work`, which runs on this process's event loop called `name`.

    Raises TimeoutError after `seconds`, and RuntimeError if no thread can be started.
    """
    try:
        loop = loop_of(name)
    except RuntimeError:
        work.close()
        raise
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result(seconds)
    finally:
        future.cancel()


def loop_of(name: str) -> asyncio.AbstractEventLoop:
    """This process's event loop called `name`, in a thread of its own.

    Raises RuntimeError if no thread can be started.
    """
    with _once:
        if name in _loops:
            return _loops[name]
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            loop.close()  # it has open files
            raise
        _loops[name] = loop
        return loop
