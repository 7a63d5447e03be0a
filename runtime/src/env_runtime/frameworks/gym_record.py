"""NeMo Gym 0.7's record of an episode, which its agent keeps if somebody observes."""

import time
from typing import Any

from ..gym_series import module_of

TRAJECTORY = "_ng_trajectory"  # the key of the record in the agent's response
UNSCOPED = "unscoped"  # NeMo Gym's own word for an unknown task


class Record:
    """The turns and calls of an episode. Keeps nothing if nobody observes the episode.

    It says the same as simple_agent's own: see NeMo Gym's TrajectoryRecord.
    """

    def __init__(self, agent: Any, request: Any, session: Any) -> None:
        self.agent, self.session = agent, session
        self.invocation = "root"
        if session is not None:
            session.activations += 1
            if session.activations > 1:
                self.invocation = f"activation-{session.activations}"
        self.rollout = (getattr(request, "path_params", None) or {}).get("rollout_id")
        observed = getattr(agent, "_model_call_capture_enabled", lambda: False)()
        self.types = (
            module_of("TrajectoryRecord") if observed and self.rollout else None
        )
        self.turns: list[Any] = []
        self.calls: list[Any] = []
        self.gaps: list[Any] = []
        self.asked: tuple[float, list[Any]] = (0.0, [])

    def turn(self, asked: list[Any]) -> None:
        """Note that the model is asked."""
        self.asked = (time.time(), asked)

    def answer(self, answer: Any) -> None:
        """Note the model's answer."""
        if self.types is None:
            return
        began, question = self.asked
        number, models = len(self.turns) + 1, []
        if answer.id:
            server = self.agent.config.model_server
            models = [self.types.ModelCallRef(model_ref=server, response_id=answer.id)]
        else:
            code, detail = "model_call_reference_unavailable", f"turn:{number}"
            gap = {"invocation_id": self.invocation, "code": code, "detail": detail}
            self.gaps.append(self.types.ObservationGap(**gap))
        thoughts = [item for item in answer.output if item.type == "reasoning"]
        self.turns.append(
            self.types.TrajectoryTurn(
                invocation_id=self.invocation,
                task_id=UNSCOPED,
                rollout_id=self.rollout,
                turn_no=number,
                timestamp=began,
                question=question,
                answer=[item for item in answer.output if item.type != "reasoning"],
                reasoning_content=[each.model_dump(mode="json") for each in thoughts]
                or None,
                step_count=len(self.calls),
                model_calls=models,
            )
        )

    def call(self, call: Any, output: str, began: float, status: int | None) -> None:
        """Note a call that has ended. `status` is None if it was not posted."""
        if self.types is None:
            return
        ended = max(began, time.time())
        done = status is not None and 200 <= status < 400
        failure = "not_posted" if status is None else f"http_{status}"
        self.calls.append(
            self.types.TrajectoryToolCall(
                invocation_id=self.invocation,
                tool_call_id=call.call_id,
                tool_name=call.name,
                started_at=began,
                completed_at=ended,
                duration_ms=(ended - began) * 1000,
                timing_source="executor",
                status="completed" if done else "failed",
                error_type=None if done else failure,
                output=output,
            )
        )
        self.turns[-1].step_count = len(self.calls)

    def finish(
        self, prompt: list[Any], output: list[Any], *, complete: bool
    ) -> dict[str, Any]:
        """Return the record for the agent's response. The session keeps a part, too."""
        if self.types is None:
            return {}
        invocation = self.types.AgentInvocation(
            invocation_id=self.invocation,
            status="completed" if complete else "incomplete",
            model_calls=[call for turn in self.turns for call in turn.model_calls],
            conversation=[*prompt, *output],
        )
        record = self.types.TrajectoryRecord(
            task_id=UNSCOPED,
            rollout_id=self.rollout,
            invocations=[invocation],
            turns=self.turns,
            tool_calls=self.calls,
            gaps=self.gaps,
        )
        if self.session is not None:
            before = self.session.observations
            self.session.observations = self.types.AgentObservationBundle(
                source="simple_agent",
                records=[*(before.records if before else []), invocation],
                gaps=[*(before.gaps if before else []), *self.gaps],
            )
        return {TRAJECTORY: record.model_dump(mode="json")}
