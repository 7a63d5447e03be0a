"""The resources server as nemo_gym/server.py uses it: `SessionServer`, and its process."""

import gc

from fastapi import FastAPI
from nemo_gym.server_utils import is_nemo_gym_fastapi_worker

from . import gym_series
from .server import base, serve
from .server.messages import ToolResponse, VerifyRequest, VerifyResponse
from .settings import ServerSettings

__all__ = ["SessionServer", "ToolResponse", "VerifyRequest", "VerifyResponse"]


class SessionServer(base.SessionServer):
    """A resources server whose sessions are episodes of `domain_class`."""

    @classmethod
    def main(cls) -> FastAPI | None:
        """Serve on HOST and PORT, or as the NeMo Gym command line wants it.

        Returns the app in a worker process of NeMo Gym's, which serves it. Raises
        SystemExit with the reason if untrusted policies could do harm.
        """
        serve.refuse_to_serve(cls)
        serve.log_to_file()
        # The modules stay: garbage collection need not look through them, which takes
        # 0.1 s each time.
        gc.collect()
        gc.freeze()
        if is_nemo_gym_fastapi_worker():  # one of several, which NeMo Gym serves
            return cls.run_webserver()
        if ServerSettings.read().nemo_gym_config_path:
            cls.run_webserver()
        else:
            server = cls.build()
            app = server.setup_webserver()
            gym_series.expose_over_mcp(server, app)
            server.setup_liveness(app)
            serve.run(app, server)
        return None
