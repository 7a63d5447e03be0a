"""The bodies of requests and answers, and the limits on a trajectory.

Validating 300,000 malformed items takes half a minute, in which nothing else runs. Lists
of numbers do not count: they are long, but cheap to validate.
"""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from string import whitespace
from types import NoneType
from typing import Annotated, Any, Self, get_args

import yarl
from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ..episode.answers import Answer
from ..episode.tasks import validation_problem
from ..episode.tools import few_problems
from ..episode.types import Task, is_native, last_message, task_of
from ..gym_series import (
    AggregateMetricsRequest,
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    ResourcesCloseSessionRequest,
    ResourcesCloseSessionResponse,
    ResourcesSeedSessionRequest,
    ResourcesSeedSessionResponse,
)
from ..settings import ShardSettings

_INPUT = NeMoGymResponseCreateParamsNonStreaming.model_fields["input"].annotation
_OUTPUT = NeMoGymResponse.model_fields["output"].annotation
[_INPUT_ITEMS] = [kind for kind in get_args(_INPUT) if kind is not str]
# The lists of a trajectory, with the type of their items
ITEMS: dict[tuple[str, str], TypeAdapter[Any]] = {
    ("responses_create_params", "input"): TypeAdapter(get_args(_INPUT_ITEMS)[0]),
    ("response", "output"): TypeAdapter(get_args(_OUTPUT)[0]),
}
MANY_ITEMS = 100

MAX_ITEMS = 10_000
MAX_LOGPROBS = 100_000
NUMBERS: dict[str, set[type]] = {
    "prompt_token_ids": {int},
    "generation_token_ids": {int},
    "generation_log_probs": {int, float, NoneType},  # null: 0.7 says where
    "bytes": {int},  # of a token, in logprobs
}

TOO_LONG = "trajectory_too_long"  # the type of the validation error


def reject_oversized(body: dict[str, Any]) -> None:
    """Raise PydanticCustomError of the type TOO_LONG if a trajectory is too long.

    Raises ValueError at the first malformed item of a long one: pydantic would describe
    every malformed item, while nothing else runs.
    """
    parts = [body.get("response"), body.get("responses_create_params")]
    logprobs: list[Any] = []
    items = _count(parts, MAX_ITEMS, logprobs)
    if items > MAX_ITEMS or _count(logprobs, MAX_LOGPROBS) > MAX_LOGPROBS:
        most = f"{MAX_ITEMS} items, or {MAX_LOGPROBS} in its logprobs"
        raise PydanticCustomError(
            TOO_LONG, "the trajectory has more than {most}", {"most": most}
        )
    for (part, key), item_type in ITEMS.items():
        found = body[part].get(key) if isinstance(body.get(part), dict) else None
        if not isinstance(found, list) or len(found) <= MANY_ITEMS:
            continue
        for number, item in enumerate(found):
            try:
                item_type.validate_python(item)
            except (ValidationError, TypeError) as error:
                problem = error
                if isinstance(error, ValidationError):
                    problem = validation_problem(error)
                raise ValueError(f"{part}.{key}.{number}: {problem}") from None


def _count(rest: list[Any], most: int, logprobs: list[Any] | None = None) -> int:
    """The number of list items in `rest`, counted up to `most`.

    The list `logprobs`, if there is one, gets what counts separately.
    """
    items = 0
    while rest and items <= most:
        value = rest.pop()
        if isinstance(value, dict):
            for key, child in value.items():
                if key == "logprobs" and logprobs is not None:
                    logprobs.append(child)
                elif not (isinstance(child, list) and key in NUMBERS) or not (
                    NUMBERS[key].issuperset(map(type, child))
                ):
                    rest.append(child)
        elif isinstance(value, list):
            items += len(value)
            rest += value[:most]
    return items


class SessionServerConfig(BaseResourcesServerConfig):
    """The settings of a server in configs/<env>.yaml.

    `<name>_model_server` says which of NeMo Gym's servers is the class's model <name>,
    `parameters` are values of the environment's parameters.
    """

    model_config = ConfigDict(extra="allow")

    # The number of processes that hold the sessions, see docs/scale.md. None: this one.
    shards: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def one_worker(self) -> Self:
        workers = self.num_workers or 1
        if workers > 1 and not (self.shards or ShardSettings.read().shards):
            raise ValueError(
                f"num_workers must be 1, got {workers}: an episode lives in the memory "
                "of one process, hidden from other workers; with SHARDS=N, N processes "
                "hold the episodes, and any number of workers may answer"
            )
        return self


class ToolResponse(BaseModel):
    """A tool's answer: the text that the policy reads, and further fields beside it."""

    model_config = ConfigDict(extra="allow")

    output: str


class _Row(BaseModel):
    """A row with its task."""

    model_config = ConfigDict(extra="allow")

    ground_truth: Any = None

    @property
    def task(self) -> Task:
        """The row's task, {} if it has none."""
        keys = dict(self.model_extra or {})
        if "ground_truth" in self.model_fields_set:
            keys["ground_truth"] = self.ground_truth
        return task_of(keys)


class SeedSessionRequest(_Row):
    """A dataset row, as NeMo Gym's agents post it: only its task counts."""


class VerifyRequest(_Row, BaseVerifyRequest):
    """A finished trajectory, and the row with its task.

    The row has `ground_truth: [task]`. In NeMo Gym's native format, its own keys are
    the task.
    """

    model_config = ConfigDict(extra="allow")

    @property
    def native(self) -> bool:
        """Whether the row is in NeMo Gym's native format."""
        return is_native({"ground_truth": self.ground_truth})

    @property
    def answer(self) -> str:
        """The text of the policy's last message, "" if there is none."""
        return last_message(self.response.output)

    @model_validator(mode="wrap")
    @classmethod
    def of_bounded_length(cls, body: Any, validate: Any) -> Any:
        """Raise an error of the type TOO_LONG for a trajectory with too many items."""
        if isinstance(body, dict):
            reject_oversized(body)
        try:
            request = validate(body)
        except ValidationError as error:
            raise few_problems(error) from None
        except TypeError as error:  # NeMo Gym's validators raise it for `"role": {}`
            raise ValueError(f"the trajectory cannot be read: {error}") from error
        if not request.task and request.ground_truth in (None, []):
            raise ValueError(
                "the row has no task: it needs ground_truth, or keys of its own"
            )
        return request


class VerifyResponse(BaseVerifyResponse):
    """The grade, with the class's metrics beside it.

    NeMo Gym 0.7 leaves a sample with `mask_sample` out of its scores.
    """

    model_config = ConfigDict(extra="allow")

    mask_sample: bool = False
    failure_reason: str | None = None


LONGEST_URL = 65_536  # httpx refuses a longer one


def policy_seeds(body: BaseVerifyRequest) -> bool:
    """Whether the policy of a trajectory posted to /seed_session."""
    calls = [item for item in body.response.output if item.type == "function_call"]
    paths = [url_of(call.name).path for call in calls]
    return "seed_session" in [path.strip(f"/{whitespace}") for path in paths]


def url_of(tool: str) -> yarl.URL:
    """The URL to which an agent posts a call of `tool`, which may be any name.

    The root, which answers no call, if the name makes no URL that can be posted to.
    """
    root = yarl.URL("http://agent/")
    try:
        url = yarl.URL(f"{root}{tool}")
    except ValueError:  # not a URL
        return root
    return url if len(str(url)) <= LONGEST_URL else root


def user_message(reply: Answer) -> dict[str, Any]:
    """A reply of the class as a user's message of the Responses API."""
    content: Any = reply.output
    if image := reply.extra.get("image"):
        content = [{"type": "input_text", "text": reply.output}] if reply.output else []
        content.append({"type": "input_image", "image_url": image, "detail": "auto"})
    return {"type": "message", "role": "user", "content": content}


class AggregateRequest(AggregateMetricsRequest):
    """The verdicts of many episodes."""

    verify_responses: Annotated[list[dict[str, Any]], FailFast()]


class CloseSessionRequest(BaseModel):
    """Closes the session of the request's cookie."""


class SessionResponse(BaseModel):
    """The empty answer to seeding and closing: only the cookie counts."""


def _or_named(ours: type, named: Any) -> Any:
    """Our body or one of 0.7's environment servers, which name their sessions."""
    return ours if named is None else named | ours


SeedRequest: Any = _or_named(SeedSessionRequest, ResourcesSeedSessionRequest)
SeedResponse: Any = _or_named(SessionResponse, ResourcesSeedSessionResponse)
CloseRequest: Any = _or_named(CloseSessionRequest, ResourcesCloseSessionRequest)
CloseResponse: Any = _or_named(SessionResponse, ResourcesCloseSessionResponse)


@dataclass(frozen=True)
class TaskDigest:
    """The keys of a task, and a digest of their values: a row may be 30 MB long."""

    keys: tuple[str, ...]
    digest: bytes

    @classmethod
    def of(cls, task: Task) -> Self:
        text = json.dumps(task, sort_keys=True).encode()
        return cls(tuple(sorted(task)), hashlib.sha256(text).digest())

    def fits(self, body: VerifyRequest) -> bool:
        """Whether the row of /verify has this task."""
        task = compared_task(body, self.keys)
        return len(task) == len(self.keys) and TaskDigest.of(task) == self


def compared_task(body: VerifyRequest, keys: Collection[str]) -> Task:
    """The part of a row's task that is compared with a session's, which has `keys`.

    In a native row, these are only those keys: between /seed_session and /verify, NeMo
    Gym may add keys of its own.
    """
    if body.native and keys:
        return {key: body.task[key] for key in keys if key in body.task}
    return body.task
