"""The NeMo Gym resources server: a session with an episode behind every cookie.

base         InProcessServer, which composes the rest
messages     the bodies of requests and answers
store        open and ended sessions, and the turns of calls
seeding      /seed_session and /close_session
endpoints    tools, and routes written by hand
verdict      /verify
replay       /verify without a session, by playing the trajectory's calls
limits       how long a trajectory may be
cookies, guard, metrics    the layers around the app
bodies       large bodies, one after the other
connection   limits of a connection before it has a request
launch       configuration, log file, uvicorn
"""

from .. import deferred_imports  # noqa: F401 - before NeMo Gym, whatever imports it
