"""Models that a class asks beside the policy: a judge, a simulated user.

A class names them in its constructor, after the task: `def __init__(self, task, judge)`.
`Model` and `AsyncModel` are their types, for editors and type checkers: a class gets an
AsyncModel if it has async methods.
"""

from .protocol import AsyncModel, Model

__all__ = ["AsyncModel", "Model"]
