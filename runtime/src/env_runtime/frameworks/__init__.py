"""Everything that the folders verifiers/, openenv/ and ors/ use from the runtime.

tools         the tools that server.py serves, and `answer`
episodes      an episode behind a server on an event loop
splits        rows of a split, tasks without answers, prompts
rollouts      clients of a server, and the command of rollout.py
models        the variables of the models that the class asks
checks        the class, its episodes and its rewards, for gates
server_gates  the gates of a framework that has a server
access        a server's process and its token
verifiers_imports    saves verifiers' tool servers seconds

This room needs neither NeMo Gym nor requests.
"""

from ..checks.runner import run_gates
from ..command_line import counted, exit_status, new_parser, positive
from ..episode.answers import Answer
from ..episode.tasks import (
    baseline_reward,
    missing_requirement,
    oracle_reward,
    reward_range,
    task_of,
)
from ..episode.tools import Tool, longest_call
from ..episode.types import Calls, Row, Solution
from ..errors import GateError, NoOracleError, ToolError
from ..evaluation.policies import PLANS
from ..evaluation.rows import read_rows, row_name
from ..evaluation.scripted_model import scripted_model
from ..origins import serving_problem
from ..project import find as find_project
from ..settings import ClientSettings
from ..trainers.signatures import described
from .access import guarded, serve
from .checks import (
    calls_for,
    check_class,
    check_reward,
    check_rewards,
    check_tools,
)
from .episodes import AsyncEpisode, Refusal, bare_reward
from .models import model_variables
from .rollouts import Start, image_message, play, run_rollouts, summary
from .server_gates import run_server_gates
from .splits import (
    SPLIT_FILES,
    images_of,
    opened,
    prompt_of,
    public_task,
    public_tasks,
    split_row,
    split_rows,
    with_first_observation,
)
from .tools import (
    ANSWER,
    calls_of,
    definitions_of,
    plan_for,
    split_answer,
    takes_answer,
    tools_and_answer,
    tools_of,
)
from .verifiers_imports import import_verifiers_quickly

__all__ = [
    "ANSWER",
    "PLANS",
    "SPLIT_FILES",
    "Answer",
    "AsyncEpisode",
    "Calls",
    "ClientSettings",
    "GateError",
    "NoOracleError",
    "Refusal",
    "Row",
    "Solution",
    "Start",
    "Tool",
    "ToolError",
    "bare_reward",
    "baseline_reward",
    "calls_for",
    "calls_of",
    "check_class",
    "check_reward",
    "check_rewards",
    "check_tools",
    "counted",
    "definitions_of",
    "described",
    "exit_status",
    "find_project",
    "guarded",
    "image_message",
    "images_of",
    "import_verifiers_quickly",
    "longest_call",
    "missing_requirement",
    "model_variables",
    "new_parser",
    "opened",
    "oracle_reward",
    "plan_for",
    "play",
    "positive",
    "prompt_of",
    "public_task",
    "public_tasks",
    "read_rows",
    "reward_range",
    "row_name",
    "run_gates",
    "run_rollouts",
    "run_server_gates",
    "scripted_model",
    "serve",
    "serving_problem",
    "split_answer",
    "split_row",
    "split_rows",
    "summary",
    "takes_answer",
    "task_of",
    "tools_and_answer",
    "tools_of",
    "with_first_observation",
]
