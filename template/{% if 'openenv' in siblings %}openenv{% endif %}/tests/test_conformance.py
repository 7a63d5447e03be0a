"""The class in this framework: two gates, as tests."""

from env_runtime.frameworks.testing import *
