"""Everything between a server and its process: configuration, log file, uvicorn."""

import logging
import logging.handlers
import os
import resource
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from ..episode.declaration import declared
from ..project import Project
from ..settings import ServerSettings, StandInSettings

log = logging.getLogger(__name__)

OLDER_LOGS = 3


configured = Project.server_block


def log_to_file(project: Project, suffix: str = "") -> None:
    """Log tracebacks to nemo_gym/session.log, or to SESSION_LOG, and to the console.

    At SESSION_LOG_BYTES it becomes session.log.1, and so on, up to OLDER_LOGS. Each
    shard has its own file: two processes cannot rotate the same one.
    """
    settings = ServerSettings.read()
    path = Path((settings.session_log or str(project.gym / "session.log")) + suffix)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return  # a read-only container, whose standard error is its log
    file = logging.handlers.RotatingFileHandler(
        path,
        maxBytes=settings.session_log_bytes,
        backupCount=OLDER_LOGS,
        encoding="utf-8",
        delay=True,
    )
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    runtime = logging.getLogger(__name__.partition(".")[0])
    runtime.addHandler(file)
    runtime.addHandler(logging.StreamHandler())
    # Of models.client: what a class's models are asked, and say, is in the file only.
    texts = logging.getLogger(f"{runtime.name}.models.client.texts")
    texts.addHandler(file)
    texts.setLevel(logging.INFO)
    texts.propagate = False


def run(app: FastAPI, worker: str) -> None:
    """Serve with uvicorn. `worker` names what makes the app of each of several workers."""
    server = app.state.server
    workers = server.config.num_workers or 1
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    server.set_ulimit(65535 if most == resource.RLIM_INFINITY else min(most, 65535))
    own, limits = declared(server.domain_class), server.limits
    notices = [own.notice(), own.missing_requirement()]
    if not StandInSettings.read().stand_in:
        notices += [
            f"{name.upper()}_MODEL is not set: samples that need the {name} are masked"
            for name in declared(server.domain_class).models_not_set
        ]
    for text in filter(None, notices):
        log.warning(text)
    from .connections import BoundedProtocol

    uvicorn.run(
        app if workers == 1 else worker,
        factory=workers > 1,
        workers=workers,
        host=server.config.host,
        port=server.config.port,
        access_log=False,
        http=BoundedProtocol,
        # Seconds that requests may take to end when the server stops
        timeout_graceful_shutdown=int(
            limits.close_seconds + 1 if server._shards else 1
        ),
        # The same as in NeMo Gym: longer than its client keeps a connection.
        timeout_keep_alive=30,
        # A worker does not answer its first ping before it has imported everything.
        timeout_worker_healthcheck=60,
    )
