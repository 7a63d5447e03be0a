"""The desktop of one episode, with one window that shows a form.

Each backend is a package here, and has the same two names:

    from env_runtime.desktop.canvas import Desktop

Desktop      makes a desktop: click, scroll, type, key, wait, state, screenshot, close
missing()    what this machine lacks to run an episode, or None
"""
