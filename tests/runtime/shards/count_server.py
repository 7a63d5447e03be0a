"""A server of a class whose answers tell whose episode it is, and in which process."""

import ctypes
import os
import time
from typing import Any

from env_runtime.server import SessionServer, VerifyRequest, VerifyResponse
from fastapi import Request


class Count:
    blocking = not os.environ.get("ON_LOOP")

    def __init__(self, task):
        self.id, self.count = task.get("id"), 0

    def add(self) -> str:
        self.count += 1
        return f"{self.id} {self.count} {os.getpid()}"

    def sleep(self, seconds: float) -> str:
        with open(os.environ["NOTES"], "a") as notes:
            print("sleep", self.id, file=notes)
        time.sleep(seconds)
        return "slept"

    def hold(self, seconds: float) -> str:
        """Sleep, and never let Python's lock go."""
        with open(os.environ["NOTES"], "a") as notes:
            print("hold", self.id, file=notes)
        ctypes.PyDLL(None).poll(None, 0, int(1000 * seconds))
        return "held"

    if not os.environ.get("OVER_MCP"):

        def call_row_tool(self, name: str, arguments: dict[str, Any]) -> str:
            return f"{self.id} {name} {arguments}"

    def reward(self) -> float:
        return float(self.count == 3)

    def close(self):
        with open(os.environ["NOTES"], "a") as notes:
            print("close", self.id, file=notes)


class Server(SessionServer):
    domain_class = Count
    keeps_calls = False

    @classmethod
    def build(cls, **limits):
        server = super().build(**limits)
        if os.environ.get("OVER_MCP"):
            config: Any = server.config  # NeMo Gym 0.4 does not have the setting
            config.expose_tools_over_mcp = True
        return server

    def setup_webserver(self):
        app = super().setup_webserver()
        app.post("/add")(self.tool(Count.add))
        app.post("/sleep")(self.tool(Count.sleep))
        app.post("/hold")(self.tool(Count.hold))
        return app

    async def verify(self, request: Request, body: VerifyRequest) -> VerifyResponse:
        session = self.finished_session(request, body)
        reward = await session.reward() if session else 0.0
        return self.verify_response(request, body, reward)


if __name__ == "__main__":
    Server.main()
