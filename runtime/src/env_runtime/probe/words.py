"""What was learned, in words."""

import re

from .choice import LISTED, NAMED, Choice, equals, noun
from .plan import Plan
from .tree import FEWEST

RULES = 3  # so many are told for a value
CLEAR = 2.0  # a rule is right so many times as often as any candidate


def rule_of(plan: Plan) -> str:
    """The rule of a plan: which calls, and how it guesses their values."""
    told = []
    for name, choice in plan.choices():
        if len(choice.constants) == 1 and not choice.choices:
            continue
        if text := _edits(choice) if choice.edits else _choice(choice):
            told.append(f"guesses {name or 'the answer'} by: {text}")
    for (_, last), choice in plan.nexts.items():
        if len(choice.choices) > 1 and (text := _choice(choice)):
            before = f"after {last}" if last else "first"
            told.append(f"goes on {before} by: {text}")
    return "; ".join(told)


def looks_up(rule: str) -> bool:
    """Whether each part of a rule takes what the prompt names.

    That may be what the task is, and no shortcut.
    """
    parts = re.split(r"(?<=\)), or |(?<=\)); ", rule)
    return bool(rule) and all(NAMED in part for part in parts)


def _choice(choice: Choice) -> str:
    """The likeliest rules of a choice; "" if there is none."""
    leaves = [
        (leaf, path)
        for leaf, path in choice.tree.leaves()
        if leaf.right >= FEWEST
        and path
        and leaf.share >= min(0.9, CLEAR * choice.tree.share)
    ]
    leaves.sort(key=lambda one: (-one[0].right * one[0].share, one[1]))
    texts = []
    for leaf, path in leaves[:RULES]:
        told = [one for one in path if LISTED not in one]
        said = [one for one in told if not one.startswith("not ")] or told
        if all(" at most " in one or "candidate" in one for one in said):
            continue
        text = _joined(said).replace("is 'stop'", "is to stop")
        texts.append(f"{text} (right in {leaf.right} of {leaf.count})")
    return ", or ".join(texts)


def _edits(choice: Choice) -> str:
    """The changes of seen texts, and the constants, that make most of the right values."""
    names = dict.fromkeys(f"{noun(name)} {edit}" for (_, name), edit, _ in choice.edits)
    names |= dict.fromkeys(map(equals, choice.constants))
    right = [own[place].true for own, places in choice.seen for place in places]
    count, texts = len(right), []
    while len(texts) < RULES and right:
        best = max(names, key=lambda name: sum(name in true for true in right))
        left = [true for true in right if best not in true]
        if len(right) - len(left) < FEWEST:
            break
        texts.append(f"{best} (right in {len(right) - len(left)} of {count})")
        right = left
    return ", or ".join(texts)


def _joined(said: list[str]) -> str:
    """Statements as a condition: those on the number of candidates come last."""
    about = [one for one in said if "candidate" in one or " at most " in one]
    main = [one for one in said if one not in about]
    return " and ".join(main) + (f" if {' and '.join(about)}" if about else "")
