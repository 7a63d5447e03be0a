"""Limits on an endpoint's answer: its size, and that the endpoint itself gives it.

The endpoint may be a third party's. It gets what the class asks, and no more.
"""

from collections.abc import AsyncIterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from .question import bounded, check_encoding


def client_options() -> dict[str, Any]:
    """The options of an httpx.AsyncClient that asks models.

    It follows no redirect, which would take the question elsewhere, and keeps no
    cookie. Proxies of the environment work: a transport of our own would drop them.
    """
    return {
        "follow_redirects": False,
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        "event_hooks": {"response": [_limit]},
    }


async def _limit(response: httpx.Response) -> None:
    """Limit a response whose head has arrived. Raises ModelError."""
    check_encoding(response.headers)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _LimitedStream(response.stream)
    # Python decodes some charsets, such as punycode, in quadratic time.
    response.encoding = "utf-8"


class _LimitedStream(httpx.AsyncByteStream):
    """A stream that ends with a ModelError if it is too long."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        return bounded(self._stream)

    async def aclose(self) -> None:
        await self._stream.aclose()
