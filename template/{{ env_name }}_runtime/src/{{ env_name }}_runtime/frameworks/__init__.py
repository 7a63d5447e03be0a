"""What the folders verifiers/, openenv/ and ors/ use of the runtime, under one name.

episodes      an episode behind a server on an event loop
rows          splits, tasks without answers, prompts
playing       clients of a server, and the command of rollout.py
checks        the class, its episodes and its rewards, for gates
server_gates  the gates of a framework that has a server
serving       who may play on a server

Needs neither NeMo Gym nor requests.
"""

from ..command_line import exit_status, new_parser, positive
from ..episode.episode import Answer
from ..episode.tasks import oracle_calls, oracle_reward
from ..episode.tools import Tool, tools_of
from ..episode.types import Calls, Row
from ..gates.runner import run_gates
from ..rollouts.policies import PLANS
from ..rollouts.rows import row_name
from ..settings import ClientSettings
from ..testing.scripted_model import scripted_model
from .checks import check_class, check_reward, check_rewards, check_tools, counted
from .episodes import AsyncEpisode, bare_reward
from .playing import Start, definitions_of, play, run_rollouts
from .rows import (
    SPLIT_FILES,
    prompt_of,
    public_task,
    public_tasks,
    read_rows,
    split_row,
    split_rows,
)
from .server_gates import run_server_gates
from .serving import guarded, serve, serving_problem

__all__ = [
    "PLANS",
    "SPLIT_FILES",
    "Answer",
    "AsyncEpisode",
    "Calls",
    "ClientSettings",
    "Row",
    "Start",
    "Tool",
    "bare_reward",
    "check_class",
    "check_reward",
    "check_rewards",
    "check_tools",
    "counted",
    "definitions_of",
    "exit_status",
    "guarded",
    "new_parser",
    "oracle_calls",
    "oracle_reward",
    "play",
    "positive",
    "prompt_of",
    "public_task",
    "public_tasks",
    "read_rows",
    "row_name",
    "run_gates",
    "run_rollouts",
    "run_server_gates",
    "scripted_model",
    "serve",
    "serving_problem",
    "split_row",
    "split_rows",
    "tools_of",
]
