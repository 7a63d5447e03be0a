"""The parts of the NeMo Gym resources server that server.py composes.

http         the outermost layer: tokens, and limits on connections and bodies
cookies      the layer that gives each request its session
messages     the bodies of requests and answers, and limits on a trajectory
endpoints    tools, routes written by hand, /seed_session and /close_session
store        open and ended sessions, and the turns of calls
verdict      /verify, also without a session, by playing the trajectory's calls
metrics      GET /metrics
launch       configuration, log file, uvicorn
"""
