"""The desktop of one episode, with one window that shows a form.

A class module imports from here. The backend was chosen when the project was generated.
Every backend has these two names:

Desktop      makes a desktop: click, scroll, type, key, wait, state, screenshot, close
missing()    what this machine lacks to run an episode, or None
"""

from .desktop import Desktop, missing

__all__ = ["Desktop", "missing"]
