"""What the process imports that shards are forked off: see plumbing/homes.py."""

import gc

import session_server  # noqa: F401

# What is there now stays. Left alone, it stays in memory that all shards share.
gc.freeze()
