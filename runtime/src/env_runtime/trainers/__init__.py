"""Adapters for trainers that need more than NeMo Gym's formats: TRL.

This module has what trl and frameworks.openenv share. It needs no package.
"""

import base64
import functools
import inspect
import io
import json
import operator
import re
from collections.abc import Callable
from typing import Any, Literal

from ..errors import RolloutError


class Rollouts:
    """One rollout after the other. TRL calls the methods that do not begin with `_`.

    TRL shows the model an exception of a tool, and goes on. If the server failed, the
    model would be trained on that failure, so that sample has no reward: `_failure`. A
    subclass has reset(), which sets `_episode`, get_reward(), and `_call_tool`.
    """

    def __init__(self) -> None:
        self._episode: Any = None  # None if there is nothing to play or to grade
        self._failure: str | None = None

    def _call(self, name: str, arguments: dict[str, Any]) -> str | list[dict[str, Any]]:
        """The result of a call that the model sees. Raises what _call_tool raises."""
        if self._episode is None:
            raise RolloutError(f"{name} has no session: call reset(row) first")
        try:
            return tool_result(*self._call_tool(name, arguments))
        except Exception as error:
            self._failure = f"{name}: {error}"
            raise

    def _call_tool(
        self, name: str, arguments: dict[str, Any]
    ) -> tuple[str, str | None]:
        """The text that answers a call, and its image as a data: URL."""
        raise NotImplementedError

    def _close(self) -> None:
        """Close the episode, if there is one, before another one starts."""
        episode, self._episode, self._failure = self._episode, None, None
        if episode is not None:
            episode.close()


def tool_method(tool: dict[str, Any]) -> Callable[..., Any]:
    """A method for a tool definition, which calls `_call(name, arguments)` of its object.

    Transformers' get_json_schema makes the definition from the method again. It reads
    plain types only, so these are the types of the JSON, and not those of the class. The
    method accepts any arguments: the environment names wrong ones, and its answer is part
    of the trajectory.
    """
    name = tool["name"]

    def method(self: Any, /, **arguments: Any) -> Any:
        return self._call(name, arguments)

    required = tool["parameters"]["required"]
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    lines = []
    for parameter, schema in tool["parameters"]["properties"].items():
        default = inspect.Parameter.empty if parameter in required else None
        parameters.append(
            inspect.Parameter(
                parameter,
                inspect.Parameter.KEYWORD_ONLY,
                default=schema.get("default", default),
                annotation=_type(schema),
            )
        )
        lines.append(f"    {parameter}: {_description(schema) or parameter}")
    method.__name__ = name
    method.__qualname__ = f"Environment.{name}"
    setattr(method, "__signature__", inspect.Signature(parameters))  # noqa: B010
    method.__annotations__ = {each.name: each.annotation for each in parameters[1:]}
    arguments = ["", "Args:", *lines] if lines else []
    description = _prose(tool["description"]) or tool["name"]
    method.__doc__ = "\n".join([description, *arguments])
    return method


def tool_result(text: str, image: str | None) -> str | list[dict[str, Any]]:
    """A tool's answer as TRL takes it: a text, or blocks if there is an image.

    `image` is a data: URL. A vision model sees both blocks if its chat template shows
    images in tool messages, as Qwen3-VL's does. Raises RolloutError if the image cannot
    be read.
    """
    if not image:
        return text
    try:
        from PIL import Image  # a vision model's processor needs it, too

        data = io.BytesIO(base64.b64decode(image.partition(",")[2]))
        shown = Image.open(data).convert("RGB")
    except (ImportError, OSError, ValueError) as error:
        raise RolloutError(f"its image cannot be read: {error}") from error
    return [{"type": "image", "image": shown}, {"type": "text", "text": text}]


def _description(schema: dict[str, Any]) -> str:
    """The description of a parameter, with its JSON Schema if its type says less."""
    description = schema.get("description", "")
    rest = {key: value for key, value in schema.items() if key != "description"}
    text = json.dumps(_without_mapping(rest), ensure_ascii=False)
    if re.search(r'"(properties|format)": ', text):
        description += f" JSON Schema: {text}"
    return _prose(description)


def _without_mapping(schema: Any) -> Any:
    """The schema without the mapping of a discriminator, which refers to no part of it.

    The `const` of each part says the same.
    """
    if isinstance(schema, list):
        return [_without_mapping(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _without_mapping(item) for key, item in schema.items()}
    named = found.get("discriminator")
    if isinstance(named, dict) and "propertyName" in named:
        found["discriminator"] = {"propertyName": named["propertyName"]}
    return found


def _prose(text: str) -> str:
    """`text` on one line, without words that get_json_schema reads as a section."""
    line = " ".join(text.split())
    return re.sub(r"\b(args|returns|raises|choices):", r"\1", line, flags=re.IGNORECASE)


def _type(schema: dict[str, Any]) -> Any:
    """The annotation for a parameter's JSON Schema."""
    # Any: these types exist at run time only, which type checkers do not follow.
    literal: Any = Literal
    array: Any = list
    several: Any = tuple
    if choices := schema.get("enum"):
        return literal[tuple(choices)]
    if "const" in schema:
        return literal[schema["const"]]
    if kinds := schema.get("anyOf") or schema.get("oneOf"):
        return functools.reduce(operator.or_, map(_type, kinds))
    if items := schema.get("prefixItems"):
        # get_json_schema takes no tuple of one
        kinds = tuple(map(_type, items))
        return array[kinds[0]] if len(kinds) == 1 else several[kinds]
    if schema.get("type") == "array":
        return array[_type(schema.get("items", {}))]
    plain = {"string": str, "integer": int, "number": float, "boolean": bool}
    return {**plain, "object": dict, "null": None}.get(schema.get("type"), Any)
