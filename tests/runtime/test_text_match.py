"""Classes without reward(), which are graded by the text that they print."""

import pytest
from env_runtime.episode.answers import Answer
from env_runtime.episode.episode import Episode, run_without_loop

WON = "You won!"
HONEST = {
    "its line": (WON, [({}, "Turn 3.\nYou won!\nBye.")]),
    "other line ends and padding": (WON, [({}, "Turn 3.\r\n  You   won!  \r\n")]),
    "several lines": ("a\nb", [({}, "x\na\nb")]),
    "after other words of the policy": (WON, [({"text": "I won"}, "Hm."), ({}, WON)]),
    "other numbers": ("12", [({"count": 3, "times": 4}, "12")]),
    "a minus sign": ("-4", [({}, "\u22124")]),
}
ECHOES = {
    "text": (WON, [({"text": WON}, WON)]),
    "text of an earlier call": (WON, [({"text": WON}, "Noted."), ({}, WON)]),
    "other case": (WON, [({"text": "yOU WON!"}, WON)]),
    "a number": ("4", [({"count": 4}, "4")]),
    "a number inside": ("4", [({}, "1/4")]),
    "a number in a line": ("4", [({}, "Guess 4 of 6")]),
    "two arguments": (WON, [({"a": "You w", "b": "on!"}, WON)]),
    "two arguments, last first": (WON, [({"a": "on!", "b": "You w"}, WON)]),
    "parts of two arguments": (WON, [({"a": "- You w", "b": "on! -"}, WON)]),
    "parts of two, last first": (WON, [({"a": "on! -", "b": "- You w"}, WON)]),
    "two calls": (WON, [({"a": "You "}, "Noted."), ({"a": "won!"}, WON)]),
    "two calls, last first": (WON, [({"a": "won!"}, "Noted."), ({"a": "You "}, WON)]),
    "two calls, others between": (
        WON,
        [({"a": "You "}, "Noted."), ({"a": "attic"}, "Hm."), ({"a": "won!"}, WON)],
    ),
    "two calls, with a name each": (
        WON,
        [({"to": "a", "text": "You "}, "Noted."), ({"to": "a", "text": "won!"}, WON)],
    ),
    "text that cannot be sent": (
        "Open? Yes.",
        [({"a": "Open\ud800 Yes."}, "Open? Yes.")],
    ),
    "a list": (WON, [({"parts": ["Yo", "u", " wo", "n!"]}, WON)]),
    "a key": (WON, [({"mapping": {WON: 1}}, WON)]),
    "another minus sign": ("-4", [({"a": "\u22124"}, "-4")]),
    "wide letters": ("4", [({"a": "\uff14"}, "4")]),
    "an error": (WON, [({}, "error: not\nYou won!")]),
    "a part of a line": (WON, [({}, "You won! Not.")]),
    "nothing": ("  ", [({}, "")]),
}


class Plain:
    def __init__(self, task):
        pass


def printed(text, calls):
    """Whether calls with these arguments and outputs earn the reward for `text`."""
    episode = Episode(Plain, {"expected_output": text})
    for arguments, output in calls:
        failed = "expected" if output.startswith("error") else ""
        episode.keep("say", arguments, Answer(output, error=failed))
    return run_without_loop(episode.reward()) == 1.0


@pytest.mark.parametrize("name", HONEST)
def test_text_that_only_the_environment_wrote_earns_the_reward(name):
    assert printed(*HONEST[name])


@pytest.mark.parametrize("name", ECHOES)
def test_text_that_the_policy_wrote_earns_nothing(name):
    assert not printed(*ECHOES[name])
