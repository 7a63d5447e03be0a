"""The runtime of one environment: it serves, plays and grades the class.

`copier update` replaces this package. The class and nemo_gym/ are yours.

    errors, settings, project, files     what every layer uses
    episode      tools, tasks and grades, derived from the class
    server       the NeMo Gym resources server; scale puts it behind several processes
    rollouts     clients and policies; rows, results and figures
    gates        the checks of gates.py
    gym          NeMo Gym's own command line
    frameworks   verifiers, OpenEnv and ORS
    trainers     TRL
    testing      the tests that every environment passes
"""
