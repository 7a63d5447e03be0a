"""NeMo Gym's simple_agent, except that the environment can show images, and reply."""

from env_runtime.frameworks.nemo_gym import EnvironmentAgent

if __name__ == "__main__":
    EnvironmentAgent.run_webserver()
