"""Statistics of rollouts: rewards, turns, errors, pass@k, differences."""

import itertools
import json
import math
import re
import statistics

import pytest
from env_runtime.episode.types import function_call, message
from env_runtime.evaluation.stats import (
    RolloutStats,
    differences,
    figures,
    is_error,
    mean_reward,
    measure,
    pass_at,
    table,
)


def call(call_id="c1"):
    return function_call("guess", "{}", call_id)


def answered(output, call_id="c1"):
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def episode(reward, task=0, repeat=0, **more):
    stats = RolloutStats(task, repeat, reward, 1, 1, 0, False, None, None, {}, {})
    return stats._replace(**more)


def test_a_rollout_in_numbers():
    usage = {"input_tokens": 30, "output_tokens": 4, "total_tokens": 34}
    output = [
        {"type": "reasoning", "summary": []},
        call(),
        call("c2"),
        answered('{"output": "Guess 1 of 6"}'),
        answered('{"output": "error: no"}', "c2"),
        {"role": "user", "content": [{"type": "input_text", "text": "The image:"}]},
        message("Once more."),
        call(),
        answered('{"detail": [{"loc": ["body", "word"], "msg": "missing"}]}'),
        message("I give up."),
    ]
    rollout = {
        "_ng_task_index": 3,
        "_ng_rollout_index": 2,
        "reward": 0.25,
        "response": {"output": output, "usage": usage},
        "out_of_turns": True,
        "steps": 3.0,
        "difficulty": 2,
        "oracle_reward": 0.7,
        "_ng_latency": 1.5,
        "solved": True,
    }
    assert measure(rollout) == RolloutStats(
        3, 2, 0.25, 3, 3, 2, True, 30, 4, {"steps": 3.0}, {}, 0.7
    )
    assert measure({**rollout, "mask_sample": True}).reward is None
    assert measure(json.loads(json.dumps(rollout))) == measure(rollout)


@pytest.mark.parametrize(
    ("output", "cut"),
    [
        ([call(), answered("{}")], True),
        ([call(), answered("{}"), {"role": "user", "content": "The image"}], True),
        ([call(), answered("{}"), message("Done.")], False),
        ([message("Done.")], False),
        ([call()], False),
        ([], False),
    ],
)
def test_nemo_gyms_files_do_not_say_who_ran_out_of_turns(output, cut):
    rollout = {"reward": 0.0, "response": {"output": output}}
    assert measure(rollout).out_of_turns == cut
    assert not measure({**rollout, "out_of_turns": False}).out_of_turns


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ('{"output": "error: no such word"}', True),
        ('{"output": "the error: none"}', False),
        ('{"detail": "Not Found"}', True),
        ('{"error": "Invalid tool call arguments"}', True),
        ('{"output": "fine", "error": null}', False),
        ("error: plain text", True),
        ("plain text", False),
        ("[" * 100_000, False),
        ([{"type": "input_text", "text": "error: in a part"}], True),
        ([{"type": "input_image"}, 3], False),
        (None, False),
        (3, False),
    ],
)
def test_errors_of_tools(output, error):
    assert is_error(output) == error


ODD = [
    {},
    {"response": None, "reward": "1"},
    {"response": [1], "reward": True},
    {"response": {"output": "text", "usage": 3}, "reward": math.nan},
    {"response": {"output": [None, 3, {}, {"type": 3, "role": 4}]}, "reward": math.inf},
    {"_ng_task_index": "x", "_ng_rollout_index": -1, "reward": 10**400},
    {"_ng_task_index": 10**400, "response": {"usage": {"input_tokens": "many"}}},
]


@pytest.mark.parametrize("rollout", ODD)
def test_odd_rollouts_have_figures_too(rollout):
    one = measure(rollout, task=5)
    assert (one.task, one.repeat, one.reward) == (5, 0, None)
    names = [name for name, _ in figures([one])]
    assert names[:2] == ["episodes", "without a reward"]


def test_the_standard_error_of_the_mean():
    rewards = [0.0, 1.0, 1.0, 0.5]
    mean, error = mean_reward([episode(one, row) for row, one in enumerate(rewards)])
    assert mean == statistics.fmean(rewards)
    assert error == pytest.approx(statistics.stdev(rewards) / 2)
    assert mean_reward([episode(0.5)]) == (0.5, None)


def test_repeats_of_a_row_are_no_more_evidence_than_the_row():
    once = [episode(reward, row) for row, reward in enumerate([0.0, 1.0, 1.0])]
    thrice = [
        one._replace(repeat=repeat) for one in once for repeat in range(3)
    ]  # each repeat as the first
    assert mean_reward(thrice) == pytest.approx(mean_reward(once))
    # With only one row, the error is computed from its repeats.
    of_one = [episode(reward, 0, n) for n, reward in enumerate([0.0, 1.0, 1.0])]
    assert mean_reward(of_one) == pytest.approx(mean_reward(once))


def test_pass_at_k_is_what_all_subsets_say():
    passes = {0: [1, 0, 0, 0, 1], 1: [0, 0, 0, 0, 0], 2: [1, 1, 1, 1, 0]}
    episodes = [
        episode(1.0 if one else 0.9, row, number)
        for row, attempts in passes.items()
        for number, one in enumerate(attempts)
    ]
    found = pass_at(episodes)
    assert [list(means) for means in found] == [[1, 2, 4, 5], [2, 4, 5]]
    for passed, means in zip((any, all), found, strict=True):
        for k, value in means.items():
            of_rows = [
                statistics.fmean(
                    passed(some) for some in itertools.combinations(row, k)
                )
                for row in passes.values()
            ]
            assert value == pytest.approx(statistics.fmean(of_rows))


def test_pass_at_k_needs_k_attempts_of_every_row():
    assert pass_at([episode(1.0, 0), episode(0.0, 1)]) == ({}, {})
    two, one = [episode(1.0, 0, n) for n in range(2)], [episode(0.0, 1)]
    assert pass_at(two) == ({1: 1.0, 2: 1.0}, {2: 1.0})
    assert pass_at(two + one) == ({}, {})
    assert pass_at([]) == ({}, {})
    assert figures([]) == [("episodes", "0")]


def test_figures_of_repeated_rows():
    episodes = [
        episode(1.0, 0, 0, input_tokens=1000, output_tokens=9, metrics={"steps": 1.0}),
        episode(0.0, 0, 1, errors=1, out_of_turns=True, metrics={"steps": 2.0}),
        episode(None, 1, 0),
        episode(1.0, 1, 1),
        episode(1.0, 1, 2),
    ]
    assert table(figures(episodes)).splitlines() == [
        "  episodes          5",
        "  rows              2",
        "  without a reward  1",
        "  reward            0.750 ± 0.250",
        "  pass@1            0.750",
        "  pass@2            1.000",
        "  pass^2            0.500",
        "  with signal       1 of 2 rows (50%)",
        "  turns             1.00",
        "  tool calls        1.00",
        "  tool errors       0.20",
        "  out of turns      1 (20%)",
        "  input tokens      1,000",
        "  output tokens     9",
        "  steps             1.500",
    ]


def test_the_difference_is_of_common_rows():
    before = [episode(0.0, 0), episode(0.5, 1), episode(1.0, 2), episode(None, 4)]
    after = [episode(1.0, 0), episode(0.5, 1), episode(1.0, 3), episode(1.0, 4)]
    found = differences(before, after)
    assert found[0] == ("reward on 2 common rows", "+0.500 ± 0.500")
    assert differences(before, [episode(1.0, 9)]) == differences([], after) == []
    single = differences(before[:1], after)
    assert single[0] == ("reward on 1 common row", "+1.000")


def test_the_interval_is_of_students_t():
    before = [episode(0.0, row) for row in range(4)]
    after = [episode(reward, row) for row, reward in enumerate([0.0, 0.5, 0.5, 1.0])]
    [(_, text), *_] = differences(before, after)
    assert text.startswith("+0.500 ± 0.204 (95 %: ")
    # 3.182 is the quantile for three degrees of freedom.
    low, high = map(float, re.findall(r"[+-]\d\.\d+", text)[1:])
    assert 0.5 - low == pytest.approx(high - 0.5)
    assert high - 0.5 == pytest.approx(3.182 * 0.2041, rel=0.01)


def test_rows_that_turned_and_each_difficulty():
    levels = ["easy", "easy", "hard", "hard"]
    before, after = (
        [
            episode(reward, row)._replace(difficulty=levels[row])
            for row, reward in enumerate(rewards)
        ]
        for rewards in ([1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0])
    )
    _, easy, hard, *turned = differences(before, after)
    assert easy == ("  easy: 2", "-0.500 ± 0.500")
    assert hard == ("  hard: 2", "+1.000 ± 0.000")
    assert turned == [("rows that pass now", "3, 4"), ("rows that fail now", "2")]
    # Most attempts decide.
    twice = [*after, episode(1.0, 1)._replace(repeat=1, difficulty="easy")]
    assert ("rows that fail now", "2") not in differences(before, twice)
