"""Long texts: a word of the prompts and the outputs again and again, up to the limit.

A regular expression that tries many ways to match a text keeps Python's lock meanwhile:
no other episode of the process goes on, and TOOL_SECONDS ends nothing.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator

from ..checks.attempts import SECONDS, FlawCheck, without_log
from ..episode.types import REPLY, Row
from ..evaluation.rows import prompt_text
from ..settings import Limits

MOST_SECONDS = 0.5  # of the processor, for a message

# Texts at which regular expressions often go wrong, beside the environment's own words
PIECES = ["a", "0", " ", "\n", "0,", "$1", "a ", "(", "{", "<", "- ", "**", '"', "a@"]
QUICK = 0.01  # after fewer seconds, the next text may be much longer
SMALL = 48  # up to here, each character may take twice as long

# The part of an answer that a class may cut out before it reads it
INNER = re.compile(r"(?<=\\boxed\{).*(?=\})|(?<=>)[^<>]+(?=</)", re.DOTALL)


def slow_message(domain_class: type, rows: list[Row]) -> str:
    """The first text that reply(), reward() or a tool reads for too long, and what to do.

    "" if none is found within SECONDS. The first of the rows is played.
    """
    check = FlawCheck(domain_class, rows)
    with without_log():
        return asyncio.run(_look(check))


async def _look(check: FlawCheck) -> str:
    own, [row, *_], ends = check.declared, check.rows, time.monotonic() + SECONDS
    methods = {"reply": own.replies, "reward": own.takes_answer}
    methods |= dict.fromkeys(tools_with_text(check), True)
    solution = check.oracle(row)
    said = [sent["answer"] for tool, sent in solution.calls if tool == REPLY]
    forms = [*dict.fromkeys(["", solution.answer, *said])]
    sources = [prompt_text(one) for one in check.rows]
    with contextlib.suppress(TimeoutError):
        sources += (await check.observed(row, solution.calls)).outputs
    for unit in _units(sources):
        for form in forms:
            for method in [name for name, reads in methods.items() if reads]:
                size, limit = 8, Limits.read().max_message_characters
                if form and method not in ("reply", "reward"):
                    continue  # the form of a message
                while size <= limit and (not form or INNER.search(form)):
                    if time.monotonic() > ends:
                        return ""
                    text = (unit * (size // len(unit) + 1))[: size - 1] + "!"
                    text = INNER.sub(lambda _, new=text: new, form) or text
                    seconds = await _seconds(check, row, method, text)
                    if seconds > MOST_SECONDS:  # the class may have imported something
                        again = await _seconds(check, row, method, text)
                        seconds = min(seconds, again)
                    if seconds > MOST_SECONDS:
                        kind = "message" if method in ("reply", "reward") else "text"
                        return (
                            f"{check.domain_class.__name__}.{method}() took {seconds:.1f} "
                            f"s for a {kind} of {len(text)} characters, {unit!r} again "
                            "and again. No other episode goes on meanwhile: see `Long "
                            "messages` in docs/your-own-class.md of the template"
                        )
                    if size == limit:
                        break
                    grows = 4 if seconds < QUICK else 2
                    size = min(limit, size + grows if size < SMALL else size * grows)
    return ""


def tools_with_text(check: FlawCheck) -> list[str]:
    """The tools that take a text, but for those of a class that runs commands."""
    own = check.declared
    if own.runs_commands or own.has_row_tools:
        return []
    return [name for name, _ in check.filled("x")]


async def _seconds(check: FlawCheck, row: Row, method: str, text: str) -> float:
    """The seconds of the processor that a method needs for a text, in a new episode."""
    calls = dict(check.filled(text))
    async with check.episode(row) as attempt:
        started = time.process_time()
        with contextlib.suppress(TimeoutError):  # it ended after all
            if method == "reply":
                await attempt.say(text)
            elif method == "reward":
                await attempt.reward(text)
            else:
                await attempt.call(method, calls[method])
        return time.process_time() - started


def _units(texts: list[str]) -> Iterator[str]:
    """The texts that are repeated, each once."""
    words = (word for text in texts for word in re.findall(r"\S+|\w+", text))
    yield from dict.fromkeys([*PIECES, *(f"{word[:100]} " for word in words)])
