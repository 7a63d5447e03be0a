"""The gates: is this environment fit for use?

`runner` runs the gates of every framework. `class_checks`,
`server`, `smoke` and `rollout` are NeMo Gym's gates; the last three are clients of the
running server.
"""
