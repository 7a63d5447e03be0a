"""Desktops on virtual machines of E2B."""

from .desktop import Desktop, missing

__all__ = ["Desktop", "missing"]
