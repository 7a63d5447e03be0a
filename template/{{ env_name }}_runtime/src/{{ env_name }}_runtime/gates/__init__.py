"""The gates: is this environment fit for use?

`runner` runs the gates of every framework. `server`, `smoke`, `rollout` and
`class_checks` are those of NeMo Gym, over a client of the running server.
"""
