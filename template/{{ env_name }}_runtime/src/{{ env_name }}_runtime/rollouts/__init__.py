"""Rollouts: clients of a running server, policies, rows, results and figures.

Only `client`, and what plays over it, needs the package requests.
"""
