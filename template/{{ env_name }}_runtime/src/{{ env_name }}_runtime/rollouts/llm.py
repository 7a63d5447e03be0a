"""A model as a policy: any endpoint that speaks an API of OpenAI's."""

import json
import os
from collections.abc import Callable
from typing import Any

from plumbing.policies import Turn
from plumbing.records import (
    Item,
    RolloutError,
    Row,
    Tools,
    function_call,
    one_line,
)


def sampled(
    rows: dict[int, Row], temperature: float | None, seed: int | None
) -> Callable[[int, int], Row]:
    """Gives the row that is played, by its number and that of its repeat, from 0.

    It has the temperature, if there is one, and the seed plus the repeat's number where
    NeMo Gym puts seeds: the Responses API has no field for them. Raises LookupError if
    there is no such row, and RolloutError if there is no place for a seed in it.
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
    """The model MODEL, over the API "responses" or "chat".

    Raises RolloutError if a setting is missing.
    """

    def __init__(self, api: str = "responses") -> None:
        wanted = ("MODEL", "OPENAI_API_KEY")
        if missing := [name for name in wanted if not os.environ.get(name)]:
            raise RolloutError(
                f"--policy llm needs {' and '.join(missing)} in the environment; "
                "--policy oracle plays without a model"
            )
        import openai  # takes a second, which the other policies need not wait

        self.name = os.environ["MODEL"]
        self._ask = self._chat if api == "chat" else self._responses
        url = os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        self._client = openai.OpenAI(base_url=url)
        # Beside the API's errors, what an answer of another shape leads to.
        shape = (ValueError, LookupError, TypeError, AttributeError)
        self._failures = (openai.OpenAIError, *shape)

    def turn(self, row: Row, tools: Tools, output: list[Item]) -> Turn:
        """Raises RolloutError if the endpoint fails, after the client's retries."""
        params = {
            name: value
            for name, value in row["responses_create_params"].items()
            if value is not None and name not in ("model", "stream", "tools")
        }
        start = params.pop("input")
        if isinstance(start, str):
            start = [{"type": "message", "role": "user", "content": start}]
        try:
            return self._ask([*start, *output], tools, params)
        except self._failures as error:
            hint = ""
            if self._ask == self._responses and getattr(error, "status_code", 0) == 404:
                hint = "; --api chat is for endpoints without the Responses API"
            text = one_line(f"{error} {error.__cause__ or ''}")
            reason = f"{type(error).__name__}: {text}{hint}"
            where = f"{self.name} at {self._client.base_url}"
            raise RolloutError(f"{where}: {reason}") from None

    def _responses(
        self, items: list[Item], tools: Tools, params: dict[str, Any]
    ) -> Turn:
        # Any: an answer of another shape is caught above.
        create: Any = self._client.responses.create
        answer = create(model=self.name, input=items, tools=tools, extra_body=params)
        plain = _plain_answer(answer, "output")
        for item in plain["output"]:
            if item["type"] == "function_call":
                name, arguments = item["name"], item.get("arguments", "")
                item.update(function_call(name, arguments, item.get("call_id")))
            elif item["type"] == "reasoning":
                item.pop("status", None)  # OpenAI's API sends it, and does not take it
        reason = plain.get("incomplete_details", {}).get("reason")
        tokens = _tokens(plain, "input_tokens", "output_tokens")
        return Turn(plain["output"], reason, *tokens)

    def _chat(self, items: list[Item], tools: Tools, params: dict[str, Any]) -> Turn:
        from nemo_gym.openai_utils import (  # takes seconds
            NeMoGymChatCompletion,
            NeMoGymResponseCreateParamsNonStreaming,
        )
        from nemo_gym.responses_converter import ResponsesConverter

        if instructions := params.pop("instructions", None):  # NeMo Gym 0.4 drops them
            items = [{"role": "system", "content": instructions}, *items]
        metadata = dict(params.pop("metadata", {}))  # as NeMo Gym's own models have it
        extra = json.loads(metadata.pop("extra_body", "{}"))
        if metadata:
            params["metadata"] = metadata
        converter = ResponsesConverter(return_token_id_information=False)
        request = converter.responses_to_chat_completion_create_params(
            NeMoGymResponseCreateParamsNonStreaming(input=items, tools=tools, **params)
        ).model_dump(exclude_none=True, exclude_unset=True)
        request.pop("model", None)
        if limit := request.pop("max_tokens", None):  # which newer models refuse
            request["max_completion_tokens"] = limit
        create: Any = self._client.chat.completions.create
        answer = create(
            model=self.name,
            messages=request.pop("messages"),
            tools=request.pop("tools"),
            extra_body=request | extra,
        )
        plain = _plain_answer(answer, "choices")
        choice = NeMoGymChatCompletion.model_validate(plain).choices[0]
        output = converter.postprocess_chat_response(choice)
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        reason = reasons.get(choice.finish_reason)
        tokens = _tokens(plain, "prompt_tokens", "completion_tokens")
        found = [item.model_dump(mode="json", exclude_none=True) for item in output]
        return Turn(found, reason, *tokens)


def _plain_answer(answer: Any, key: str) -> dict[str, Any]:
    """A model's answer as JSON that can be posted back.

    Raises LookupError if it has no `key`: an error, a web page.
    """
    plain = {}
    if hasattr(answer, "model_dump"):
        plain = answer.model_dump(mode="json", exclude_none=True, warnings=False)
    if key not in plain or plain.get("status") == "failed":
        raise LookupError(f"no {key}: {plain.get('error') or plain or answer}")
    return plain


def _tokens(answer: dict[str, Any], given: str, made: str) -> tuple[int, int]:
    usage = answer.get("usage") or {}
    return usage.get(given, 0), usage.get(made, 0)
