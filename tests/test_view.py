"""view.py's page in real headless Chromium. Its content: tests/runtime/test_report.py."""

import json
import sys

import pytest

from projects import ROOT, UV, run

pytestmark = pytest.mark.slow

NASTY = (
    'I write <img src=x onerror="document.title=1"> and '
    "</script><script>document.title=2</script><!--"
)


# A PNG of 2 x 2 red pixels
PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4"
    "z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="
)


def rollout(task, repeat, reward):
    """A rollout. Every fifth calls a tool wrongly, and every sixth is cut off."""
    said = NASTY.removeprefix("I write ").partition(" and ")[2]
    failed = task % 5 == 2
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"role": "assistant", "content": f"{NASTY}. Épisode <{task}>."},
        {
            "type": "function_call",
            "name": "guess",
            "arguments": json.dumps({"word": "</script>"}),
            "call_id": "call_1",
        },
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": json.dumps(
                {
                    "output": f"error: {said}" if failed else "Fine.",
                    "image": PNG,
                    "other": "data:image/svg+xml;base64,PHN2Zy8+",
                }
            ),
        },
        {"role": "user", "content": [{"type": "input_image", "image_url": PNG}]},
    ]
    if task % 6:
        text = {"type": "output_text", "text": "x" * 10_000}
        output.append({"type": "message", "role": "assistant", "content": [text]})
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": repeat,
        "responses_create_params": {"input": [{"role": "user", "content": "Play."}]},
        "response": {"model": "</title>", "output": output},
        "reward": reward,
        "session_name": f"5e551{task:03}{repeat:04}",
    }


def test_the_page_in_chromium(render, chromium, tmp_path):
    project = render()
    folder = project / "nemo_gym"
    before = [rollout(task, 0, float(task % 3 == 0)) for task in range(30)]
    after = [rollout(task, one, float(one)) for task in range(30) for one in (0, 1)]
    for name, rollouts in (("before", before), ("after", after)):
        lines = "".join(json.dumps(one) + "\n" for one in rollouts)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    command = [sys.executable, "view.py", tmp_path / "before.jsonl"]
    single, compared = tmp_path / "before.html", tmp_path / "both.html"
    assert run(command, folder).stdout == f"{single}\n"
    command += [tmp_path / "after.jsonl", "--output", compared]
    run(command, folder)
    script = ROOT / "tests/view_in_chromium.py"
    browse = [UV, "run", "--quiet", "--no-project", "--with", "playwright>=1.50"]
    done = run([*browse, "python", script, chromium, single, compared], tmp_path)
    assert done.stdout == "all is well\n"
