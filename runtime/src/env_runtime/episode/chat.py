"""Chat Completions and the Responses API: messages and tools of one as the other has them.

Rows hold the input of the Responses API. Prompts of datasets are mostly chats.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from .types import Definitions, Item, function_call

# ShareGPT's names of roles, and those of older Chat Completions
ROLES = {"human": "user", "gpt": "assistant", "observation": "tool", "function": "tool"}
MAGIC = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}


def responses_input(prompt: str | Iterable[Mapping[str, Any]]) -> list[Item]:
    """A prompt as the input of the Responses API: `responses_create_params.input`.

    `prompt` is text, or messages as Chat Completions, ShareGPT (`from`, `value`) or the
    Responses API have them: of system, developer and user, with images, and earlier
    turns of the assistant with its tool calls and their results. An image is a URL, a
    data: URL, bytes, or an object with `bytes`, as datasets have it.

    Raises ValueError that names the message, if one cannot be converted, or if the last
    one is the assistant's.
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    items: list[Item] = []
    for number, message in enumerate(prompt, start=1):
        try:
            items += items_of(message, items)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            problem = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(f"message {number} of the prompt: {problem}") from None
    last = items[-1] if items else {}
    if not items or last.get("role") == "assistant" or _is(last, "function_call"):
        raise ValueError(
            "a prompt ends with what the policy answers: a message of the user or the "
            f"result of a call, got {last or 'no message'!s:.80}: leave the answer out"
        )
    return items


def _is(item: Mapping[str, Any], kind: str) -> bool:
    return item.get("type") == kind


def items_of(message: Mapping[str, Any], earlier: list[Item]) -> list[Item]:
    """A message as items; `earlier` are those of the messages before it.

    Raises ValueError, TypeError, KeyError and AttributeError.
    """
    message = {key: value for key, value in message.items() if value is not None}
    if "role" not in message and message.get("type", "message") != "message":
        return [message]  # an item of the Responses API
    role = message.get("role") or message.get("from")
    role = ROLES.get(role, role)
    content = message.get("content", message.get("value", ""))
    if role == "tool":
        call_id = message.get("tool_call_id") or _open_call(earlier)
        output = message_text(content)
        return [{"type": "function_call_output", "call_id": call_id, "output": output}]
    if role == "function_call":  # of ShareGPT: the call is text
        role, content = "assistant", ""
        message["function_call"] = json.loads(message.get("value", ""))
    if role == "assistant":
        calls = message.get("tool_calls") or [
            {"function": each} for each in (message.get("function_call"),) if each
        ]
        said = [{"role": role, "content": message_text(content)}] if content else []
        return [*said, *(_call(call, len(earlier) + n) for n, call in enumerate(calls))]
    if role not in {"system", "developer", "user"}:
        raise ValueError(f"the role is {role!r}, which is none of a prompt: rename it")
    if not isinstance(content, str):
        content = [_part(part) for part in content]
    return [{"role": role, "content": content}]


def _call(call: Item, number: int) -> Item:
    """A call of Chat Completions; `number` makes an id for one that has none."""
    function = call.get("function") or call
    call_id = call.get("id") or f"call_{number}"
    return function_call(function["name"], function.get("arguments"), call_id)


def _open_call(earlier: list[Item]) -> str:
    """The id of the first call that has no result yet."""
    done = {item["call_id"] for item in earlier if _is(item, "function_call_output")}
    calls = [item["call_id"] for item in earlier if _is(item, "function_call")]
    if not (waiting := [each for each in calls if each not in done]):
        raise ValueError("it is the result of a tool, but no call is before it")
    return waiting[0]


def message_text(content: Any) -> str:
    """The text of a message that holds text only; the result of a tool may be JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [_text(part) for part in content]
        if None not in texts:
            return "".join(map(str, texts))
    return json.dumps(content, ensure_ascii=False)


def _text(part: Mapping[str, Any]) -> Any:
    """The text of a part of a message, which LLaMA Factory calls `value`; None without one."""
    is_text = part.get("type", "text") in {"text", "input_text", "output_text"}
    return part.get("text", part.get("value") if is_text else None)


def _part(part: Any) -> Item:
    """A part of a message's content, text or an image, of either API."""
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    part = {key: value for key, value in part.items() if value is not None}
    kind = part.get("type")
    if kind in {"text", "input_text"}:
        if (text := _text(part)) is None:
            raise KeyError("text")
        return {"type": "input_text", "text": text}
    if kind in {"image_url", "input_image", "image"}:
        image = part["image"] if kind == "image" else part["image_url"]
        detail = part.get("detail", "auto")
        if isinstance(image, Mapping) and "url" in image:
            detail, image = image.get("detail") or detail, image["url"]
        return {"type": "input_image", "image_url": image_url(image), "detail": detail}
    raise ValueError(f"its content has a part of type {kind!r}, not text or an image")


def image_url(image: Any) -> str:
    """An image as a URL: of a URL, of bytes, or of a dataset's object with `bytes`."""
    if isinstance(image, Mapping):
        image = image.get("bytes") or image.get("path")
    if isinstance(image, str) and image.startswith(("data:", "http://", "https://")):
        return image
    if isinstance(image, bytes):
        kind = next((MAGIC[each] for each in MAGIC if image.startswith(each)), None)
        if kind:
            return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
    raise ValueError(
        f"an image is a URL or the bytes of a PNG, JPEG, GIF or WebP, got {image!r:.60}: "
        'read the file, Path("FILE").read_bytes()'
    )


def responses_tools(tools: Iterable[Mapping[str, Any]]) -> Definitions:
    """Definitions of tools in the Responses API, from those or Chat Completions'.

    Raises ValueError if one has no name.
    """
    definitions = []
    for tool in tools:
        function = tool.get("function") or tool
        if not function.get("name"):
            raise ValueError(f"a tool has no name: {tool!r:.80}")
        definitions.append(
            {
                "type": "function",
                "name": function["name"],
                "description": function.get("description") or "",
                "parameters": _schema(function.get("parameters") or {}),
                "strict": bool(function.get("strict")),
            }
        )
    return definitions


def chat_tools(definitions: Definitions) -> list[dict[str, Any]]:
    """Tools of the Responses API as Chat Completions takes them."""
    names = ("name", "description", "parameters")
    return [
        {"type": "function", "function": {name: one[name] for name in names}}
        for one in definitions
    ]


# Python's names of types, as xLAM and others have them, and JSON's
TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
TYPES |= {"list": "array", "tuple": "array", "set": "array", "dict": "object"}


def _schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a tool as a JSON schema.

    They may be an object of parameters, each with a `type` of Python, such as
    `List[int], optional`.
    """
    if (
        not parameters
        or "properties" in parameters
        or parameters.get("type") == "object"
    ):
        return {"type": "object", "properties": {}, **parameters}
    properties, required = {}, []
    for name, about in parameters.items():
        if not isinstance(about, Mapping):
            problem = f"the parameter {name} of a tool is {about!r:.80}"
            raise ValueError(problem)  # noqa: TRY004
        kind, _, rest = str(about.get("type", "")).partition(",")
        kind = kind.partition("[")[0].strip().lower()
        schema = {key: value for key, value in about.items() if key != "type"}
        if kind := TYPES.get(kind, kind if kind in TYPES.values() else ""):
            schema["type"] = kind
        properties[name] = schema
        if "optional" not in rest and "default" not in about:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}
