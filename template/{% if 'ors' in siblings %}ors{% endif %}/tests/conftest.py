"""Collects no tests if pytest runs in the environment of the repository around this."""

from importlib.util import find_spec

if not find_spec("env_runtime"):
    collect_ignore_glob = ["*"]
