"""NeMo Gym's simple_agent, with images and replies, and no call that ends a run."""

from env_runtime.frameworks.nemo_gym import EnvironmentAgent

if __name__ == "__main__":
    EnvironmentAgent.run_webserver()
