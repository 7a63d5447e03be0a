"""view.py: the page of rollouts, as a file. tests/test_view.py opens one in Chromium."""

import base64
import hashlib
import json
import re
import subprocess
import sys

import pytest
from env_runtime import project
from env_runtime.evaluation import report

PNG = "data:image/png;base64,iVBORw0KGgo="
SVG = "data:image/svg+xml;base64,PHN2Zy8+"
NASTY = "</script><img src=x onerror=alert(1)><!--<script>\u2028\ud800 é"


def rollout(*output, reward=1.0, **more):
    start = {"input": [{"role": "user", "content": "Go."}]}
    response = {"model": "scripted", "output": list(output)}
    known = {"responses_create_params": start, "response": response}
    return {"reward": reward, **known, **more}


def answered(output):
    return {"type": "function_call_output", "call_id": "c1", "output": output}


def write(path, *rollouts):
    lines = [line if isinstance(line, str) else json.dumps(line) for line in rollouts]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def blocks(html):
    """The page's data, by id."""
    elements = re.findall(
        r'<script type="application/json" id="(.*?)">(.*?)</script>', html
    )
    return {name: json.loads(text) for name, text in elements}


@pytest.fixture
def view(tmp_path, capsys):
    """The data of the page of one file with these rollouts."""

    def build(*rollouts):
        path = write(tmp_path / "llm.jsonl", *rollouts)
        assert report.main(None, [str(path)]) == 0
        assert capsys.readouterr().out == f"{path.with_suffix('.html')}\n"
        return blocks(path.with_suffix(".html").read_text())

    return build


def parts(view, *output):
    """The parts that the page shows for these items."""
    shown = view(rollout(*output))["episode-0-0"]
    assert shown[0] == {"who": "user", "parts": ["Go."]}
    return [entry["parts"] for entry in shown[1:]]


def test_the_command(tmp_path):
    first = write(tmp_path / "first.jsonl", rollout(), rollout(reward=0.0))
    second = write(tmp_path / "second.jsonl", rollout())
    output = tmp_path / "new folder" / "page.html"
    command = [sys.executable, project.here().gym / "view.py", first, second]
    done = subprocess.run(
        [*command, "--output", output], capture_output=True, check=False, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{output}\n", "")
    summary = blocks(output.read_text())["summary"]
    assert [(file["name"], len(file["episodes"])) for file in summary["files"]] == [
        (str(first), 2),
        (str(second), 1),
    ]
    figures = [dict(file["figures"]) for file in summary["files"]]
    assert [each["reward"] for each in figures] == ["0.500 ± 0.500", "1.000"]
    assert summary["differences"] == [[["reward on 1 common row", "+0.000"]]]
    assert sorted(path.name for path in output.parent.iterdir()) == ["page.html"]


def test_a_conversation(view):
    arguments = json.dumps({"word": "crane", "n": 1})
    call = {"type": "function_call", "name": "guess", "arguments": arguments}
    text = [{"type": "output_text", "text": "I try."}]
    data = view(
        rollout(
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"type": "reasoning", "summary": [], "encrypted_content": "x"},
            {"type": "message", "role": "assistant", "content": text},
            {**call, "call_id": "c1"},
            answered('{"output": "error: no"}'),
            ground_truth=[{"target": "crane"}],
        )
    )
    assert data["episode-0-0"] == [
        {"who": "user", "parts": ["Go."]},
        {"who": "reasoning", "parts": ["Hm."]},
        {"who": "assistant", "parts": ["I try."]},
        {"who": "call", "name": "guess", "parts": ['word="crane", n=1']},
        {"who": "output", "name": "guess", "parts": ["error: no"], "error": True},
        {"who": "ground truth", "parts": ['[\n  {\n    "target": "crane"\n  }\n]']},
    ]


def test_a_conversation_tells_the_speakers_apart(view):
    """The prompt, the policy, the environment, and the user's own calls, with their results."""
    asked = [{"role": "user", "content": "You owe $3."}]
    pays = {"name": "pay", "arguments": '{"dollars": 3}', "output": "paid"}
    call = {"model": "user", "messages": asked, "said": "Done.", "tool_calls": [pays]}
    shown = view(
        rollout(
            {"role": "assistant", "content": "You owe $3."},
            {"role": "user", "content": "Done."},
            ground_truth=[{}],
            model_calls=[call],
        )
    )
    *entries, _ = shown["episode-0-0"]
    assert [(entry["who"], "".join(entry["parts"])) for entry in entries] == [
        ("user", "Go."),
        ("assistant", "You owe $3."),
        ("environment", "Done."),
        ("asked user", "[user]\nYou owe $3."),
        ("user said", "Done."),
        ("user called pay", "dollars=3"),
        ("user got", "paid"),
    ]


def test_the_task_of_a_native_row(view):
    said = {"role": "assistant", "content": "Rome."}
    shown = view(rollout(said, expected_answer="Paris", _ng_task_index=3))
    task = {"who": "other keys", "parts": ['{\n  "expected_answer": "Paris"\n}']}
    assert shown["episode-0-0"][-1] == task


def test_images_wherever_they_are(view):
    images = [
        {"type": "input_image", "image_url": PNG, "detail": "auto"},
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "input_image", "image_url": "https://example.com/x.png"},
    ]
    shown = view(
        rollout(
            answered(json.dumps({"output": "A click.", "image": PNG})),
            answered(json.dumps({"output": "x", "image": SVG})),
            answered([{"type": "input_image", "image_url": PNG}]),
            answered(f"See {PNG}, twice {PNG}"),
            answered(json.dumps({"screens": [PNG]})),
            {"role": "assistant", "content": f"I write {PNG}"},
            {"role": "user", "content": images},
        )
    )
    *contents, (first, second, url) = [each["parts"] for each in shown["episode-0-0"]]
    assert contents[1:] == [
        ["A click.", 0],
        ["x", SVG],
        [0],
        ["See ", 0, ", twice ", 0],
        ['{"screens": ["', 0, '"]}'],
        [f"I write {PNG}"],
    ]
    assert first == second == 0 and "https://example.com/x.png" in url
    assert [name for name in shown if name.startswith("image-")] == ["image-0"]
    assert shown["image-0"] == PNG


def test_an_episode_has_the_name_that_is_in_the_log(view):
    """A file without a session's name, of an earlier release, has none."""
    ids = {"_ng_task_index": 286, "_ng_rollout_index": 1, "id": "a"}
    named = rollout(session_name="5f0c9e61a2d4", **ids)
    [file] = view(named, rollout(**ids), rollout(session_name=[1]))["summary"]["files"]
    assert [each["name"] for each in file["episodes"]] == [
        "_ng_task_index 286, _ng_rollout_index 1, session 5f0c9e61a2d4",
        "",
        "",
    ]


def test_an_image_is_stored_once_for_all_episodes(tmp_path):
    rollouts = [rollout(answered(json.dumps({"output": "x", "image": PNG})))] * 50
    path = write(tmp_path / "a.jsonl", *rollouts)
    other = write(tmp_path / "b.jsonl", *rollouts)
    report.write_page([path, other], tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count(PNG) == 1


DEEP: list = []
for _ in range(400):
    DEEP = [DEEP]
ODD_ITEMS = [
    {"type": "x", "deep": DEEP},
    None,
    3,
    "text",
    [],
    {},
    {"type": None},
    {"type": "web_search_call", "status": "completed"},
    {"type": "message", "role": 3, "content": []},
    {"role": "user", "content": {"a": 1}},
    {"role": "assistant", "content": [None, {"type": "refusal", "refusal": "No."}]},
    {"type": "function_call", "name": 3, "arguments": {"a": 1}},
    {"type": "function_call", "arguments": "{"},
    {"type": "function_call", "name": "f", "arguments": None},
    {"type": "function_call_output", "output": {"a": 1}},
    {"type": "function_call_output", "call_id": [], "output": None},
    {"type": "function_call_output", "output": '{"output": 3}'},
    {"type": "function_call_output", "output": "[" * 100_000},
    {"type": "reasoning", "summary": "plain", "content": {}},
]


@pytest.mark.parametrize("item", ODD_ITEMS, ids=lambda item: str(item)[:50])
def test_odd_items_are_shown(view, item):
    [shown] = parts(view, item)
    assert all(isinstance(part, str) for part in shown)


@pytest.mark.parametrize(
    "odd",
    [
        {"response": None},
        {"response": [1]},
        {"response": {}},
        {"response": {"output": "text"}},
        {"responses_create_params": None},
        {"responses_create_params": 3},
        {"responses_create_params": {"input": "Go.", "instructions": ["x"]}},
        {"reward": "high"},
        {"reward": None, "failure_reason": "the desktop failed", "mask_sample": True},
    ],
)
def test_odd_rollouts_are_shown(view, odd):
    data = view({**rollout(), **odd})
    assert len(data["summary"]["files"][0]["episodes"]) == 1


def test_a_rollout_without_a_trajectory_is_shown_whole(view):
    data = view({"reward": 0.5, "judgment": "Fine.", "response": {"output": []}})
    [entry] = data["episode-0-0"]
    assert entry["who"] == "rollout"
    assert json.loads(entry["parts"][0])["judgment"] == "Fine."


def test_long_arguments_are_shown_one_a_line(view):
    arguments = {"path": "a.py", "content": "def f():\n    pass\n"}
    call = {"type": "function_call", "name": "f", "arguments": json.dumps(arguments)}
    assert parts(view, call) == [['path="a.py"\ncontent=\ndef f():\n    pass\n']]


def test_text_of_a_policy_is_never_markup(tmp_path):
    nasty = rollout(
        {"role": NASTY, "content": NASTY},
        {"type": "function_call", "name": NASTY, "arguments": NASTY},
        {"type": "function_call_output", "call_id": NASTY, "output": NASTY},
        {"type": NASTY, NASTY: NASTY},
        **{NASTY: 1.0},
    )
    nasty["response"]["model"] = NASTY
    path = write(tmp_path / "x.jsonl", nasty)
    report.write_page([path], tmp_path / "x.html")
    html = (tmp_path / "x.html").read_text(encoding="ascii", errors="surrogateescape")
    template = report.TEMPLATE.read_text()
    assert html.count("</script") == template.count("</script") + 2
    assert html.count("<!--") == template.count("<!--") - 1
    assert "<img" not in html
    entries = blocks(html)["episode-0-0"]
    assert {"who": NASTY, "parts": [NASTY]} in entries


def test_only_the_pages_own_script_may_run(tmp_path):
    report.write_page([write(tmp_path / "x.jsonl", rollout())], tmp_path / "x.html")
    html = (tmp_path / "x.html").read_text()
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', html)
    [script] = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    for sink in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
        assert sink not in script
    assert "http" not in html.replace("http-equiv", "")


def test_lines_that_are_no_rollouts_are_named(tmp_path, capsys):
    half = json.dumps(rollout())[:30]
    lines = ["[1]", '{"a": 1}', "", "NaN", "[" * 100_000, rollout(reward=0.0), half]
    path = write(tmp_path / "x.jsonl", rollout(), *lines)
    path.write_bytes(path.read_bytes() + b"\xff\xfe\n")
    assert report.main(None, [str(path)]) == 1
    errors = capsys.readouterr().err.splitlines()
    numbers = [int(re.findall(r"line (\d+)", line)[0]) for line in errors]
    assert numbers == [2, 3, 5, 6, 8, 9]
    assert all(line.startswith(f"view.py: {path}, line ") for line in errors)
    summary = blocks(path.with_suffix(".html").read_text())["summary"]
    assert errors[1].endswith('a rollout has a response or a reward, got {"a": 1}')
    assert summary["notices"] == [line.removeprefix("view.py: ") for line in errors]
    assert len(summary["files"][0]["episodes"]) == 2


@pytest.mark.parametrize("content", [None, "", "\n\n", "notes\n", '{"a": 1}\n'])
def test_a_file_without_rollouts_is_one_line(tmp_path, capsys, content):
    good = write(tmp_path / "good.jsonl", rollout())
    path = tmp_path / "x.jsonl"
    if content is not None:
        path.write_text(content)
    assert report.main(None, [str(good), str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"view.py: {path}")
    assert printed.err.count("\n") == 1
    assert not list(tmp_path.glob("*.html")) + list(tmp_path.glob(".*"))


def test_a_folder_and_the_input_are_refused(tmp_path, capsys):
    path = write(tmp_path / "x.jsonl", rollout())
    before = path.read_bytes()
    assert report.main(None, [str(tmp_path)]) == 1
    assert report.main(None, [str(path), "--output", str(path)]) == 1
    taken = f"{path} is an input: name another file with --output"
    assert taken in capsys.readouterr().err
    with pytest.raises(SystemExit):
        report.main("", [str(path), "--output", str(tmp_path)])
    folder = f"--output names a file; {tmp_path} is a folder"
    assert folder in capsys.readouterr().err
    assert path.read_bytes() == before


def test_repeats_without_a_number_are_told_apart(view):
    files = view(
        *(rollout(_ng_task_index=0, _ng_rollout_index=0) for _ in range(2)),
        rollout(_ng_task_index=0, _ng_rollout_index=1),
    )["summary"]["files"]
    assert [each["repeat"] for each in files[0]["episodes"]] == [0, 1, 2]
    files = view(rollout(), rollout())["summary"]["files"]
    assert [each["task"] for each in files[0]["episodes"]] == [0, 1]


def test_rollouts_of_other_rows_bring_a_notice(tmp_path, capsys):
    first = write(tmp_path / "a.jsonl", rollout())
    different = "have different prompts in 1 of 1 common rows"
    # The second is the same prompt, as a text.
    for prompt, notice in (("Something else.", different), ("Go.", "")):
        other = rollout(responses_create_params={"input": prompt})
        second = write(tmp_path / "b.jsonl", other)
        assert report.main(None, [str(first), str(second)]) == 0
        printed = capsys.readouterr().err
        assert notice in printed and bool(printed) == bool(notice)
