"""The game under Prime Intellect's verifiers, as configs/my_env_eval.toml configures it."""

import json
import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from conftest import ONE_SERIES, UVX, run

KEY = "a-key"
ROWS = 4

# The calls that solve each row.
ORACLE = """
import json
from env_runtime.evaluation.policies import solve
from env_runtime.evaluation.rows import load_rows
rows = load_rows()
print(json.dumps([solve(row, row["responses_create_params"]["tools"]) for row in rows]))
"""


class Model(ThreadingHTTPServer):
    """`plans` has the calls for each row, and the answer that claims success."""

    plans: list[tuple[list, str]]


class Handler(BaseHTTPRequestHandler):
    """Chat Completions, streamed: plays the server's plan for the row that a prompt
    names, one call per answer, and then claims to have solved it."""

    server: Model  # type: ignore

    def do_POST(self):
        assert self.headers["authorization"] == f"Bearer {KEY}"
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt, *messages = body["messages"]
        calls, claim = self.server.plans[int(re.search(r"row (\d+)", str(prompt))[1])]
        made = sum(message["role"] == "assistant" for message in messages)
        delta: dict[str, Any] = {"role": "assistant"}
        if made < len(calls):
            tool, arguments = calls[made]
            function = {"name": tool, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": f"call_{made}", "type": "function"}
            delta["tool_calls"] = [{**call, "function": function}]
        else:
            delta["content"] = claim
        reason = "tool_calls" if "tool_calls" in delta else "stop"
        chunk = {
            "id": "chatcmpl",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    def log_message(self, format, *args):
        """Log nothing."""


@pytest.fixture
def scripted_model():
    with Model(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.slow
@ONE_SERIES
def test_verifiers_pays_what_each_row_deserves(generate, scripted_model, tmp_path):
    """The folder has the same file, and rows that the model can tell apart."""
    environment = generate(archetype="game")
    oracle = json.loads(environment.run("-c", ORACLE))
    text = (environment.folder / "data/example.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()[:ROWS]]
    scripted_model.plans = []
    for number, row in enumerate(rows):
        row["responses_create_params"]["input"][-1]["content"] += (
            f" This is row {number}."
        )
        calls = oracle[number] if number % 2 == 0 else []
        scripted_model.plans.append((calls, row["ground_truth"][0]["target"]))
    (tmp_path / "data").mkdir()
    numbered = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "data/example.jsonl").write_text(numbered)
    shutil.copy(environment.folder / "configs/my_env_eval.toml", tmp_path)

    command = [*UVX, "--from", "verifiers==0.4.0", "vf-eval", "@", "my_env_eval.toml"]
    model_url = f"http://127.0.0.1:{scripted_model.server_port}/v1"
    with environment.serving() as url:
        urls = ["--client.base-url", model_url, "--env.taskset.task.resources-url", url]
        printed = run([*command, *urls], tmp_path, OPENAI_API_KEY=KEY).stdout

    [traces] = tmp_path.glob("results/verifiers/*/traces.jsonl")
    rewards = {}
    for line in traces.read_text().splitlines():
        episode = json.loads(line)
        [trace] = episode["traces"]
        assert not trace["errors"], printed
        rewards[episode["task"]["data"]["idx"]] = trace["rewards"]["nemo_gym"]["score"]
    assert rewards == {0: 1.0, 1: 0.0, 2: 1.0, 3: 0.0}
