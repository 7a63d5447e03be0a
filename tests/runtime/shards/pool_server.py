"""A server of a class that works in child processes, in the way that Python starts them."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from env_runtime.server import SessionServer, VerifyRequest, VerifyResponse
from fastapi import Request


def doubled(number: int) -> int:
    return 2 * number


class Pool:
    def __init__(self, task):
        pass

    def double(self, number: int) -> str:
        with ProcessPoolExecutor(1) as pool:
            return str(pool.submit(doubled, number).result(timeout=20))

    def method(self) -> str:
        return str(multiprocessing.get_start_method())

    def reward(self) -> float:
        return 1.0


class Server(SessionServer):
    domain_class = Pool

    def setup_webserver(self):
        app = super().setup_webserver()
        app.post("/double")(self.tool(Pool.double))
        app.post("/method")(self.tool(Pool.method))
        return app

    async def verify(self, request: Request, body: VerifyRequest) -> VerifyResponse:
        session = self.finished_session(request, body)
        reward = await session.reward() if session else 0.0
        return self.verify_response(request, body, reward)


if __name__ == "__main__":
    Server.main()
