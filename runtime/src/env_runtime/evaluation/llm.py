"""A model as a policy: any endpoint with one of OpenAI's APIs."""

import json
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from ..episode.tasks import validation_problem
from ..episode.tools import arguments_text
from ..episode.types import Definitions, Row
from ..errors import RolloutError, one_line
from ..settings import ClientSettings
from .policies import Turn, complete_call
from .trajectory import Item


def sampled(
    rows: dict[int, Row], temperature: float | None, seed: int | None
) -> Callable[[int, int], Row]:
    """A function that returns the row to play, by its task and its repeat, from 0.

    The row gets the temperature, if there is one, and the seed plus the repeat. NeMo
    Gym puts seeds into the metadata: the Responses API has no field for them.
    The function raises LookupError if the row does not exist, and RolloutError if its
    metadata cannot hold a seed.
    """

    def row_of(task: int, repeat: int) -> Row:
        row = rows[task]
        if temperature is None and seed is None:
            return row
        params = dict(row.get("responses_create_params") or {})
        if temperature is not None:
            params["temperature"] = temperature
        if seed is not None:
            metadata = params.get("metadata") or {}
            try:
                extra = json.loads(metadata.get("extra_body") or "{}")
                extra["seed"] = seed + repeat
            except (ValueError, TypeError, AttributeError):
                raise RolloutError(
                    f"row {task + 1}: metadata.extra_body must be a JSON object for "
                    f"--seed, got {one_line(metadata)}"
                ) from None
            params["metadata"] = {**metadata, "extra_body": json.dumps(extra)}
        return {**row, "responses_create_params": params}

    return row_of


class LLMPolicy:
    """The model MODEL at OPENAI_BASE_URL, over the API "responses" or "chat".

    Raises RolloutError if MODEL or OPENAI_API_KEY is missing.
    """

    def __init__(self, api: str = "responses") -> None:
        settings = ClientSettings.read()
        needed = {"MODEL": settings.model, "OPENAI_API_KEY": settings.openai_api_key}
        if missing := [name for name, value in needed.items() if not value]:
            raise RolloutError(
                f"--policy llm needs {' and '.join(missing)} in the environment; "
                "--policy oracle plays without a model"
            )
        import openai  # optional, and other policies need not wait a second for it

        self.name = settings.model or ""
        self._ask = self._chat if api == "chat" else self._responses
        self._client = openai.OpenAI(
            base_url=settings.openai_base_url, api_key=settings.openai_api_key
        )
        # The API's errors, and the errors that an answer of another shape causes.
        shape = (ValueError, LookupError, TypeError, AttributeError)
        self._failures = (openai.OpenAIError, *shape)

    def turn(self, row: Row, definitions: Definitions, output: list[Item]) -> Turn:
        """The model's next turn.

        Raises RolloutError if the endpoint still fails after the client's retries.
        """
        params = {
            name: value
            for name, value in row["responses_create_params"].items()
            if value is not None and name not in ("model", "stream", "tools")
        }
        start = params.pop("input")
        if isinstance(start, str):
            start = [{"type": "message", "role": "user", "content": start}]
        try:
            return self._ask([*start, *output], definitions, params)
        except self._failures as error:
            hint = ""
            if self._ask == self._responses and getattr(error, "status_code", 0) == 404:
                hint = "; --api chat is for endpoints without the Responses API"
            text = one_line(f"{error} {error.__cause__ or ''}")
            if isinstance(error, ValidationError):  # its text repeats the answer
                text = validation_problem(error)
            reason = f"{type(error).__name__}: {text}{hint}"
            where = f"{self.name} at {self._client.base_url}"
            raise RolloutError(f"{where}: {reason}") from None

    def _responses(
        self, items: list[Item], definitions: Definitions, params: dict[str, Any]
    ) -> Turn:
        # Any: turn() catches the errors of an answer of another shape.
        create: Any = self._client.responses.create
        answer = create(
            model=self.name, input=items, tools=definitions, extra_body=params
        )
        plain = _plain_answer(answer, "output")
        for item in plain["output"]:
            if item["type"] == "function_call":
                item.update(complete_call(item))
            elif item["type"] == "reasoning":
                item.pop("status", None)  # OpenAI's API sends it, but rejects it
        reason = plain.get("incomplete_details", {}).get("reason")
        tokens = _tokens(plain, "input_tokens", "output_tokens")
        return Turn(plain["output"], reason, *tokens)

    def _chat(
        self, items: list[Item], definitions: Definitions, params: dict[str, Any]
    ) -> Turn:
        # NeMo Gym takes seconds to import, and only this API needs it.
        from nemo_gym.openai_utils import (
            NeMoGymChatCompletion,
            NeMoGymResponseCreateParamsNonStreaming,
        )
        from nemo_gym.responses_converter import ResponsesConverter

        if instructions := params.pop("instructions", None):  # NeMo Gym 0.4 drops them
            items = [{"role": "system", "content": instructions}, *items]
        metadata = dict(params.pop("metadata", {}))  # read as NeMo Gym's models read it
        extra = json.loads(metadata.pop("extra_body", "{}"))
        if metadata:
            params["metadata"] = metadata
        converter = ResponsesConverter(return_token_id_information=False)
        request = converter.responses_to_chat_completion_create_params(
            NeMoGymResponseCreateParamsNonStreaming(
                input=items, tools=definitions, **params
            )
        ).model_dump(exclude_none=True, exclude_unset=True)
        request.pop("model", None)
        if limit := request.pop("max_tokens", None):  # newer models reject it
            request["max_completion_tokens"] = limit
        create: Any = self._client.chat.completions.create
        answer = create(
            model=self.name,
            messages=request.pop("messages"),
            tools=request.pop("tools"),
            extra_body=request | extra,
        )
        plain = _plain_answer(answer, "choices")
        for call in plain["choices"][0]["message"].get("tool_calls") or []:
            function = call["function"]
            function["arguments"] = arguments_text(function.get("arguments"))
        choice = NeMoGymChatCompletion.model_validate(plain).choices[0]
        output = converter.postprocess_chat_response(choice)
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        reason = reasons.get(choice.finish_reason)
        tokens = _tokens(plain, "prompt_tokens", "completion_tokens")
        items = [item.model_dump(mode="json", exclude_none=True) for item in output]
        return Turn(items, reason, *tokens)


def _plain_answer(answer: Any, key: str) -> dict[str, Any]:
    """A model's answer as JSON that can be posted back.

    Raises LookupError if the answer has no `key`, such as an error or a web page.
    """
    plain = {}
    if hasattr(answer, "model_dump"):
        plain = answer.model_dump(mode="json", exclude_none=True, warnings=False)
    if key not in plain or plain.get("status") == "failed":
        raise LookupError(f"no {key}: {plain.get('error') or plain or answer}")
    return plain


def _tokens(answer: dict[str, Any], read: str, written: str) -> tuple[int, int]:
    """The tokens that the model read and wrote, under the API's names for them."""
    usage = answer.get("usage") or {}
    return usage.get(read, 0), usage.get(written, 0)
