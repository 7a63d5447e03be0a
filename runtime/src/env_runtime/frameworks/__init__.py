"""Everything that the folders verifiers/, openenv/ and ors/ use from the runtime.

tools         the tools that server.py serves, and `answer`
episodes      an episode behind a server on an event loop
rows          splits, tasks without answers, prompts
playing       clients of a server, and the command of rollout.py
models        the variables of the models that the class asks
checks        the class, its episodes and its rewards, for gates
server_gates  the gates of a framework that has a server
serving       who may play on a server

A tool server of verifiers first runs verifiers_imports, which saves it seconds.

This room needs neither NeMo Gym nor requests.
"""

from ..command_line import counted, exit_status, new_parser, positive
from ..episode.episode import Answer
from ..episode.tasks import (
    baseline_reward,
    oracle_reward,
    reward_range,
    takes_answer,
    task_of,
)
from ..episode.tools import Tool
from ..episode.types import Calls, Row, Solution
from ..gates.runner import run_gates
from ..rollouts.policies import PLANS
from ..rollouts.rows import row_name
from ..settings import ClientSettings
from ..testing.scripted_model import scripted_model
from ..trainers.signatures import described
from .checks import (
    calls_for,
    check_class,
    check_reward,
    check_rewards,
    check_tools,
)
from .episodes import AsyncEpisode, Refusal, bare_reward
from .models import model_variables
from .playing import Start, image_message, play, run_rollouts, summary
from .rows import (
    SPLIT_FILES,
    images_of,
    opened,
    prompt_of,
    public_task,
    public_tasks,
    read_rows,
    split_row,
    split_rows,
    with_first_observation,
)
from .server_gates import run_server_gates
from .serving import guarded, serve, serving_problem
from .tools import (
    ANSWER,
    calls_of,
    definitions_of,
    split_answer,
    tools_and_answer,
    tools_of,
)

__all__ = [
    "ANSWER",
    "PLANS",
    "SPLIT_FILES",
    "Answer",
    "AsyncEpisode",
    "Calls",
    "ClientSettings",
    "Refusal",
    "Row",
    "Solution",
    "Start",
    "Tool",
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
    "guarded",
    "image_message",
    "images_of",
    "model_variables",
    "new_parser",
    "opened",
    "oracle_reward",
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
