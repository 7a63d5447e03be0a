"""Rollouts: clients of a running server, policies, rows, results and figures.

Only `client`, and the modules that play with it, need the package requests.
"""
