"""Roll out task rows under NeMo Gym itself: its servers, agent and collector.

uv run python -m {package}.under_gym --model M --model-url http://localhost:8000/v1
uv run python -m {package}.under_gym --reverify results/rollouts.jsonl

Starts NeMo Gym's servers from this environment's own .venv, which takes half a
minute, collects one rollout per row, prints the rewards, and ends every process that it
started. NeMo Gym's own output is in results/gym.log.

--agent has another agent of NeMo Gym 0.7 play, whose program must be installed:

uv run python -m {package}.under_gym --agent claude_code --model M --model-url ...

--reverify, from NeMo Gym 0.7 on, grades the rollouts of an earlier run again, after a
change of reward() for instance: the class's episodes are played once more, call by call.
--judge-failed-only does so only for the rows that a model of the class could not grade.
"""

import argparse
import sys
from pathlib import Path

from .command_line import exit_status, new_parser, positive
from .evaluation.stats import TASK
from .gym import collect, log_file, results, reverify
from .gym_agents import AGENTS, without_calls
from .project import here
from .settings import ClientSettings


def main(arguments: list[str] | None = None) -> int:
    """Roll out rows, or grade rollouts again. Returns the exit status."""
    return exit_status("under_gym", lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = _parse(arguments)
    if options.reverify:
        only = options.judge_failed_only
        rollouts = reverify(options.reverify.resolve(), judge_failed_only=only)
    else:
        rollouts = collect(
            options.model,
            options.model_url,
            options.model_api_key or "none",
            rows=options.rows.resolve(),
            limit=options.limit,
            output=options.output,
            model_type=options.model_type,
            agent=options.agent,
        )
    for rollout in rollouts:
        print(f"row {rollout[TASK] + 1}: reward {rollout['reward']}")
    if uncalled := without_calls(rollouts):
        rows = ", ".join(str(rollouts[number][TASK] + 1) for number in uncalled)
        print(
            f"no call reached the environment in {len(uncalled)} of {len(rollouts)} "
            f"rollouts (rows {rows}): if the model did call, the agent had no tools or "
            f"cancelled the calls, and these rewards are not the policy's; see {log_file()}",
            file=sys.stderr,
        )
    rewards = [rollout["reward"] for rollout in rollouts]
    print(f"mean reward: {sum(rewards) / len(rewards) if rewards else 0.0}")
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    settings = ClientSettings.read()
    named = "openai_base_url" in settings.model_fields_set
    url = settings.openai_base_url if named else None
    key = settings.openai_api_key
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("--model", default=settings.model, help="its name (MODEL)")
    add("--model-url", default=url, help="(OPENAI_BASE_URL)")
    add("--model-api-key", default=key, help="(OPENAI_API_KEY)")
    add("--model-type", default="openai_model", help="vllm_model: no Responses API")
    add(
        "--rows",
        type=Path,
        default=here().rows,
        metavar="FILE",
        help="data/example.jsonl",
    )
    add("--limit", type=positive, metavar="N", help="roll out only the first N rows")
    add("--output", type=Path, default=results() / "rollouts.jsonl", metavar="FILE")
    text = "an agent of NeMo Gym; by default this environment's own"
    add("--agent", choices=AGENTS, default="", help=text)
    text = "grade an earlier run's rollouts again"
    add("--reverify", type=Path, metavar="FILE", help=text)
    text = "grade only the rows whose judge had failed"
    add("--judge-failed-only", action="store_true", help=text)
    options = parser.parse_args(arguments)
    if not options.reverify and not (options.model and options.model_url):
        parser.error("name the model with --model and --model-url")
    return options


if __name__ == "__main__":
    sys.exit(main())
