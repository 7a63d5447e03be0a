"""Connections that stall a server: endless heads, half heads, answers that nobody reads."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from env_runtime.resources_server import connections
from nemo_gym import server_utils
from uvicorn.config import HTTP_PROTOCOLS

from .conftest import over_http
from .support import serving

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def port(serve, monkeypatch) -> Iterator[int]:
    """Serves the game with the protocol of `python server.py`. Patience is short."""
    for name in ("HEAD_SECONDS", "ANSWER_SECONDS", "REFUSAL_SECONDS"):
        monkeypatch.setattr(connections, name, 0.2)
    with over_http(serve(), http=connections.BoundedProtocol) as port:
        yield port


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


@pytest.mark.parametrize(
    "start",
    [
        b"GET /",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: ",
        b"POST /verify HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ",
    ],
)
def test_a_head_that_never_ends_is_refused(port, start):
    """Its cost grows with the square of its length, before any token is checked."""
    with connect(port) as client, contextlib.suppress(OSError):
        client.sendall(start)
        for _ in range(100 << 4):  # 100 MiB
            client.sendall(b"x" * 65536)
        raise AssertionError("the server read 100 MiB of a head")


def test_a_long_path_gets_an_answer(port):
    """A policy chooses the names of tools. An agent must not fail because of one."""
    with connect(port) as client:
        path = b"x" * (connections.MAX_HEAD_BYTES + 1)
        client.sendall(b"POST /" + path)
        assert client.recv(1000).startswith(b"HTTP/1.1 431 ")
        assert client.recv(1000) == b""


LONG = b"x" * (1 << 14)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n" % LONG,
        b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 600 + b"\r\n",
        b"GET /health HTTP/1.1\r\nCookie: %s\r\n\r\n" % (b"a;" * (1 << 13)),
        b"GET /%s HTTP/1.1\r\n\r\n" % LONG,
    ],
    ids=["long", "many", "cookies", "path"],
)
def test_a_complete_head_has_a_limit_too(port, head):
    """All of it may arrive at once, and the server works on each part of it."""
    with connect(port) as client:
        client.sendall(head)
        assert client.recv(1000).startswith(b"HTTP/1.1 431 ")
        assert client.recv(1000) == b""


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: ", b"\r\n"])
def test_half_a_head_does_not_stay(port, sent):
    with connect(port) as client:
        client.sendall(sent)
        assert client.recv(1000) == b""


def test_half_a_head_after_an_answer_does_not_stay(port):
    with connect(port) as client:
        client.sendall(REQUEST)
        answer = b""
        while not answer.endswith(b"}"):  # its head and its body may come apart
            answer += client.recv(1000)
        assert answer.startswith(b"HTTP/1.1 200 ")
        client.sendall(b"GET /health HT")
        assert client.recv(1000) == b""


def test_requests_whose_answers_nobody_reads_do_not_pile_up(port):
    with connect(port) as client, contextlib.suppress(OSError):
        for _ in range(10_000):
            client.sendall(REQUEST * 100)
        raise AssertionError("the server took a million requests, and none was read")


def test_an_answer_that_nobody_takes_does_not_stay(port):
    """Otherwise answers of up to 30 MiB would stay in memory."""
    with connect(port) as client:
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with contextlib.suppress(OSError):
            while True:
                client.sendall(request)
        with contextlib.suppress(OSError):
            while client.recv(1 << 20):
                pass


def test_some_requests_in_a_row_are_answered(port):
    with connect(port) as client:
        client.sendall(REQUEST * 3)
        got = b""
        while got.count(b"HTTP/1.1 200 ") < 3:
            got += client.recv(1000)


def test_a_long_body_is_not_taken_for_a_head(port, monkeypatch):
    """Sending it may take longer than a head may."""
    for name in ("ANSWER_SECONDS", "REFUSAL_SECONDS"):
        monkeypatch.setattr(connections, name, 20)
    with connect(port) as client:
        length = 8 << 20
        head = f"POST /seed_session HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}"
        client.sendall(head.encode() + b"\r\n\r\n" + b" " * length)
        assert client.recv(1000).startswith(b"HTTP/1.1 4")


@pytest.mark.slow
def test_server_py_has_these_limits():
    with serving("server.py") as (_, url):
        port = int(url.rpartition(":")[2])
        test_a_long_path_gets_an_answer(port)


def test_nemo_gym_serves_with_these_limits(monkeypatch):
    """run_webserver chooses uvicorn's protocol by itself."""
    monkeypatch.setattr(server_utils, "KeepaliveHttpToolsProtocol", None, raising=False)
    monkeypatch.setitem(HTTP_PROTOCOLS, "auto", "httptools")
    connections.bound_connections_of_gym()
    chosen: Any = getattr(server_utils, "KeepaliveHttpToolsProtocol")  # noqa: B009
    if chosen is None:  # 0.4: uvicorn's default
        config = uvicorn.Config(print)  # any app
        config.load()
        chosen = config.http_protocol_class
    assert issubclass(chosen, connections.BoundedProtocol)


def test_connections_leave_files_for_episodes(serve, monkeypatch):
    monkeypatch.setattr(connections, "most_connections", lambda: 2)
    monkeypatch.setattr(connections, "TURNED_AWAY", 1)
    with (
        over_http(serve(), http=connections.BoundedProtocol) as port,
        contextlib.ExitStack() as stack,
    ):
        first, second, third = (stack.enter_context(connect(port)) for _ in range(3))
        third.sendall(REQUEST)
        refused = third.recv(1000)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"all 2 connections are in use" in refused
        for client in (first, second):
            client.sendall(REQUEST)
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
