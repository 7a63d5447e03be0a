"""The code of the frameworks' folders: nemo_gym/, verifiers/, openenv/ and ors/.

nemo_gym                   the agent, which needs NeMo Gym
verifiers, openenv, ors    a module for each, which needs its framework's packages
gates, rollouts, testing   the commands gates.py and rollout.py, and the folders' tests
episodes                   the tools, the rows and an episode that a framework serves
verifiers_wheel            the hook that builds the wheel of verifiers/, with hatchling only
openenv_space              the folder that `openenv push` takes

All but nemo_gym need neither NeMo Gym nor requests.
"""
