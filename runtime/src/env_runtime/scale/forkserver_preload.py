"""Imported by the process that shards are forked off: see processes.py."""

import gc

from ..resources_server import endpoints, metrics, verdict  # noqa: F401
from . import shard  # noqa: F401

# These modules stay, in memory that all shards share.
gc.freeze()
