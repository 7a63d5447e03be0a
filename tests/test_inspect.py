"""docs/frameworks.md, "From Inspect": the adapter's verdicts and prompts are Inspect's own."""

import json
import re

import pytest

from projects import QUICK, ROOT, UV, interpreter_for, run

PAGE = (ROOT / "docs/frameworks.md").read_text()
SECTION = PAGE.partition("\n## From Inspect\n")[2].partition("\n## ")[0]
[ADAPTER, ROWS] = re.findall(r"^```py\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
CASES = """
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import choice, f1, match
from inspect_ai.solver import generate, multiple_choice, system_message

CASES = {
    "match": Task(
        dataset=[Sample(input="2 + 3", target="5")],
        solver=[system_message("1 + 1\\n2"), generate()],
        scorer=match(numeric=True),
    ),
    "f1": Task(
        dataset=[Sample(input="Which river is in Paris?", target="the river Seine")],
        scorer=f1(),
    ),
    "choice": Task(
        dataset=[Sample(input="Which is a prime?", choices=["4", "7"], target="B")],
        solver=[multiple_choice()],
        scorer=choice(),
    ),
}
ANSWERS = {
    "match": ["5", "It is 5.", "6", ""],
    "f1": ["the river Seine", "The Seine", "Rhine", ""],
    "choice": ["ANSWER: B", "ANSWER: A", "B", "ANSWER: C"],
}
"""
# The names in make_rows.py
PRELUDE = """
from questions import *
Example = lambda *values: values
"""
SCRIPT = """
import asyncio, json
from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import value_to_float
from cases import ANSWERS, CASES
import questions

found = []
for name, task in CASES.items():
    TASK = questions.TASK = task
    for answer in ANSWERS[name]:
        output = ModelOutput.from_content("mockllm/model", answer)
        output.usage = ModelUsage()  # else Inspect downloads a tokenizer, to count
        model = get_model("mockllm/model", custom_outputs=[output])
        [log] = evaluate(task, model=model, display="none", log_dir="logs")
        [sample] = log.samples
        [score] = sample.scores.values()
        sent = [each.text for each in sample.messages if each.role != "assistant"]
        [(chat, row, _)] = tasks(None)
        assert [each["content"] for each in chat] == sent, (chat, sent)
        earned = questions.Questions(row).reward(answer)
        found.append([name, answer, earned, value_to_float()(score.value)])
print(json.dumps(found))
"""


@pytest.mark.nightly
def test_verdicts_and_prompts_are_those_of_inspect(tmp_path):
    (tmp_path / "questions.py").write_text(ADAPTER)
    (tmp_path / "cases.py").write_text(CASES)
    (tmp_path / "quiz.py").write_text(
        "from cases import CASES\n\n\ndef quiz():\n    return CASES['match']\n"
    )
    run([UV, "venv", "--quiet", "--python", interpreter_for(QUICK), "venv"], tmp_path)
    python = tmp_path / "venv/bin/python"
    run([UV, "pip", "install", "--quiet", "--python", python, "inspect_ai"], tmp_path)
    printed = run([python, "-c", PRELUDE + ROWS + SCRIPT], tmp_path).stdout
    verdicts = json.loads(printed.splitlines()[-1])
    assert len(verdicts) == 12
    assert [ours for *_, ours, _ in verdicts] == [theirs for *_, theirs in verdicts]
    earned = {(name, answer): reward for name, answer, reward, _ in verdicts}
    assert earned["match", "It is 5."] == earned["choice", "ANSWER: B"] == 1.0
    assert earned["match", "6"] == earned["choice", "B"] == earned["f1", "Rhine"] == 0.0
    assert 0 < earned["f1", "The Seine"] < 1
