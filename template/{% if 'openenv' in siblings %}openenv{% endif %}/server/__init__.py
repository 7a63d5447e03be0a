"""The OpenEnv server."""
