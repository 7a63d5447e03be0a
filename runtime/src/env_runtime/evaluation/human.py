"""The policy "human": a person at a terminal, who fills in a form for each call."""

import functools
import json
from collections.abc import Iterable
from typing import Any

from .. import project
from ..episode.tasks import replies, takes_answer
from ..episode.types import Definitions, Row
from ..errors import RolloutError
from .conversation import conversation, entries_of
from .forms import LEFT_OUT, Field, forms_of, read_value, shown
from .policies import Turn
from .trajectory import Item, function_call, message

SAY, DONE = "say", "done"


class HumanPolicy:
    """A person with the name `name`.

    Raises RolloutError if prompt_toolkit is not installed.
    """

    def __init__(self, name: str) -> None:
        try:
            import prompt_toolkit  # optional
        except ImportError:
            raise RolloutError(
                "--policy human needs prompt_toolkit: `uv run --with prompt_toolkit "
                "python rollout.py --policy human`, or play on a page: `uv run python "
                "play.py`"
            ) from None
        self.name = name
        self._kit = prompt_toolkit
        self._seen = 0  # the items that were printed
        self._last = ""  # the last tool

    def turn(self, row: Row, definitions: Definitions, output: list[Item]) -> Turn:
        """Return the person's next turn: a call, a message, or nothing to end it."""
        if not output:
            self._seen = 0
            prompt = {"responses_create_params": row["responses_create_params"]}
            self._print(conversation(prompt, lambda image: 0))
        # The person knows what they typed.
        new = entries_of(output, lambda image: 0)[self._seen :]
        self._print(entry for entry in new if entry["who"] not in ("call", "assistant"))
        self._seen += len(new)
        try:
            return Turn(self._act(definitions))
        except EOFError:  # Ctrl-D
            return Turn([])

    def _act(self, definitions: Definitions) -> list[Item]:
        forms = {form["name"]: form for form in forms_of(definitions)}
        chosen = self._choose(list(forms))
        if chosen == SAY:
            return [message(self._ask("message", {"kind": "text"}))]
        if chosen == DONE:
            return []
        self._last = chosen
        sent = self._fill_in(forms[chosen]["fields"], f"{chosen}.")
        return [function_call(chosen, json.dumps(sent))]

    def _choose(self, tools: list[str]) -> str:
        """A tool, SAY or DONE."""
        domain_class = project.here().load_class()
        says = replies(domain_class) or takes_answer(domain_class) or not tools
        names = [*tools, *([SAY] if says else []), DONE]
        print(f"\n{', '.join(names)}")
        default = self._last if self._last in tools else ""
        while True:
            asked = f"next [{default}]" if default else "next"
            text = self._ask(asked, {"choices": names}) or default
            if text in names:
                return text
            print(f"there is no {text!r}")

    def _fill_in(self, fields: list[Field], place: str) -> dict[str, Any]:
        read = {
            each["name"]: self._value(each, place + each["name"]) for each in fields
        }
        return {name: value for name, value in read.items() if value is not LEFT_OUT}

    def _value(self, field: Field, place: str) -> Any:
        """A field's value, or LEFT_OUT. `place` is its path, such as book.guests.1."""
        optional = not field.get("required") and "default" not in field
        if field["kind"] == "object":
            read = self._fill_in(field["fields"], f"{place}.")
            return read if read or not optional else LEFT_OUT
        if field["kind"] == "list":
            values = []
            while True:  # an empty line ends the list
                item = {**field["item"], "required": False}
                item.setdefault("note", field["note"])
                value = self._value(item, f"{place}.{len(values) + 1}")
                if value is LEFT_OUT:
                    break
                values.append(value)
            if not values and "default" in field:
                return field["default"]
            return values if values or not optional else LEFT_OUT
        return read_value(field, self._ask(place, field))

    def _ask(self, place: str, field: Field) -> str:
        """Return what the person types. Raises EOFError for Ctrl-D."""
        from prompt_toolkit.completion import WordCompleter

        default = field.get("default")
        words = [shown(choice) for choice in field.get("choices", [])]
        return self._session(place).prompt(
            f"{place}: ",
            completer=WordCompleter(words, sentence=True) if words else None,
            complete_while_typing=True,
            default="" if default is None else shown(default),
            bottom_toolbar=field.get("note") or None,
        )

    @functools.cache  # noqa: B019 - one policy in a process
    def _session(self, place: str) -> Any:
        """The prompt of a field, with the field's own history."""
        return self._kit.PromptSession()

    def _print(self, entries: Iterable[dict[str, Any]]) -> None:
        for entry in entries:
            title = entry.get("name") or entry["who"]
            parts = [
                "(an image: play.py shows it)" if isinstance(part, int) else part
                for part in entry["parts"]
            ]
            text = [("bold", f"\n{title}\n"), ("", "\n".join(parts))]
            self._kit.print_formatted_text(self._kit.formatted_text.FormattedText(text))
