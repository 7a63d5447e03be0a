"""Connections: limits on heads, on answers that nobody reads, and on their number."""

import asyncio
import functools
import json
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..gym_series import KeepaliveHttpToolsProtocol, use_protocol

MAX_HEAD_BYTES = 1 << 14  # limit on a request's line and headers, and on trailers
HEADER_BYTES = 32  # added to each header's own, as HTTP/2 does: each one costs time
MAX_PIPELINED = 2  # requests that wait for the answer to an earlier one
HEAD_SECONDS = 30.0  # limit from the first byte of a head to its last
ANSWER_SECONDS = 60.0  # limit for a client to take enough of an answer for more
REFUSAL_SECONDS = 5.0  # time for a client to take a refusal before the close

HEAD_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
HEAD_TOO_LONG += b"connection: close\r\ncontent-length: 0\r\n\r\n"
# Files that connections beyond the limit use, each until it has its refusal
TURNED_AWAY = 0.1


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose client sends an endless head, or reads no answers.

    A parser's work on a head grows with the square of its length, and nothing else runs
    meanwhile.
    """

    _timer: asyncio.TimerHandle | None = None  # runs until a head is complete
    _unread: asyncio.TimerHandle | None = None  # runs until an answer is taken
    _unparsed = 0  # bytes since a head ended, or since a part of a body
    _full = False  # whether there were too many connections when it began
    _head = 0  # bytes of the headers since a head was complete, and of its path

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()
        self._full = len(self.connections) > most_connections()
        if len(self.connections) > most_connections() * (1 + TURNED_AWAY):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._full:  # a refusal before the request could get lost
            self._refuse(no_room())
        if self._full or self._head > MAX_HEAD_BYTES:  # it was refused
            return
        self._unparsed += len(data)
        super().data_received(data)
        if self.transport.is_closing() or self._head > MAX_HEAD_BYTES:
            return
        if self._unparsed > MAX_HEAD_BYTES:
            self._refuse()
        elif self._timer is None and (not self.cycle or self.cycle.response_complete):
            self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a head, which may be complete before anything else counts its bytes."""
        self._head += len(name) + len(value) + HEADER_BYTES
        if self._head > MAX_HEAD_BYTES:
            raise ValueError("the head is too long")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unparsed = 0
        if self._timer is not None:  # most heads arrive at once
            self._head_is_there()
        self._head += len(self.url)
        if self._head > MAX_HEAD_BYTES:
            raise ValueError("the head is too long")
        self._head = 0
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests on one connection")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        super().on_body(body)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refuses, or what a method here raised ValueError for."""
        if self._head > MAX_HEAD_BYTES:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self, answer: bytes = HEAD_TOO_LONG) -> None:
        """Answer 431: a policy may have chosen the path, and its agent needs an answer.

        An immediate close, with unread bytes, would discard the answer.
        """
        self.transport.write(answer)
        self.transport.pause_reading()
        self._head_is_there()
        self._timer = self.loop.call_later(REFUSAL_SECONDS, self.transport.abort)

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _head_is_there(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def no_room() -> bytes:
    """The answer to a client that is one too many."""
    detail = f"all {most_connections()} connections are in use: half of ulimit -n"
    body = json.dumps({"detail": detail}).encode()
    return (
        b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 2\r\n"
        b"x-no-room: 1\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%s" % (len(body), body)
    )


@functools.cache
def most_connections() -> int:
    """Half of the files that this process may open: episodes need the other half."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


# 0.7's run_webserver has uvicorn speak HTTP with a class of its own.
_OfGym: Any = KeepaliveHttpToolsProtocol or HttpToolsProtocol


class BoundedProtocolOfGym(BoundedProtocol, _OfGym):
    """The same for NeMo Gym 0.7, whose own protocol keeps TCP connections alive."""


def bound_connections_of_gym() -> None:
    """Have NeMo Gym's `run_webserver` serve with these limits."""
    use_protocol(BoundedProtocolOfGym)
