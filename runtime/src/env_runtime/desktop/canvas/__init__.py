"""Desktops drawn with Pillow."""

from .desktop import Desktop, missing

__all__ = ["Desktop", "missing"]
