"""Desktops in headless Chromium."""

from .desktop import Desktop, missing

__all__ = ["Desktop", "missing"]
