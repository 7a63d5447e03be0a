"""A class in a package, with its parts in other files."""

from .env import Warehouse

__all__ = ["Warehouse"]
