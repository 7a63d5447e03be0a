"""What a framework's folder does: nemo_gym/, verifiers/, openenv/ and ors/.

nemo_gym                   the agent, which needs NeMo Gym
verifiers, openenv, ors    a module for each, which needs its framework's packages

The other modules need neither NeMo Gym nor requests nor a framework.

gates, rollouts     the commands gates.py and rollout.py
testing             the tests of a framework's folder
checks              the class, its episodes and its rewards, for gates
episodes            an episode behind a server on an event loop
tools               the tools that server.py serves, and `answer`
splits              rows of a split, tasks without answers, prompts
access              a server's process and its token
verifiers_process   the process that serves a rollout's tools to verifiers
verifiers_wheel     the hook that builds the wheel of verifiers/; it needs only hatchling
openenv_space       the folder that `openenv push` takes
"""
