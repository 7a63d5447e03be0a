"""The doubts about a data set, by what they are about.

Each module adds its own to the table of `asking`. Those of a stage are asked in the order of
the modules here: what golds are before whether a prompt asks for them.
"""

from . import files, expected, prompts, golds, unasked  # isort: skip

__all__ = ["expected", "files", "golds", "prompts", "unasked"]
