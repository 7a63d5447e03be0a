"""A server in shards that a test starts, its clients, and the fate of episodes."""

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import itsdangerous
import psutil
import requests
from env_runtime import project
from env_runtime.episode.types import as_response

from ..support import until

SECRET = "the tests' secret"
COUNT_SERVER = Path(__file__).with_name("count_server.py")


class Served:
    """A proxy process, its URL, and the notes that its episodes write."""

    def __init__(self, script, notes, **variables):
        self.notes = notes
        self.process = subprocess.Popen(
            [sys.executable, script],
            cwd=project.here().gym,
            env={
                **os.environ,
                "HOST": "127.0.0.1",
                "PORT": "0",
                "SHARDS": "2",
                "SHARDS_ON": "processes",
                "SHARD_SECONDS": "2",
                "SESSION_SECRET": SECRET,
                "SESSION_LOG": str(notes.with_name("session.log")),
                "NOTES": str(notes),
                "TRUSTED_POLICY": "1",
                **variables,
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        self.printed, self.url = "", ""
        for line in self.process.stderr:
            self.printed += line
            if found := re.search(r"running on (http://\S+)", line):
                self.url = found[1]
                break
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.printed += line

    def shards(self):
        """The shards' processes by number."""
        found = {}
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has just ended
                name = child.name()
                if name.startswith("shard-") and child.status() != "zombie":
                    found[int(name.removeprefix("shard-"))] = child
        return found

    def noted(self):
        return self.notes.read_text() if self.notes.exists() else ""

    def health(self):
        return requests.get(f"{self.url}/health", timeout=30).json()

    def session(self):
        return Client(self.url)

    def seeded(self, count):
        """Sessions of the tasks 0, 1, ..."""
        with ThreadPoolExecutor(16) as pool:
            return list(pool.map(lambda n: self.session().seed(n), range(count)))

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        self.reader.join(30)
        self.process.stderr.close()


class Client(requests.Session):
    def __init__(self, url):
        super().__init__()
        self.url, self.task = url, None

    def call(self, path, **body):
        started = time.monotonic()
        answer = self.post(f"{self.url}/{path}", json=body, timeout=60)
        self.seconds = time.monotonic() - started
        return answer

    def seed(self, number):
        self.task = {"id": number}
        answer = self.call("seed_session", ground_truth=[self.task])
        assert answer.status_code == 200, answer.text
        return self

    def output(self, path="add", **body):
        answer = self.call(path, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()["output"]

    def verdict(self):
        answer = self.call(
            "verify",
            responses_create_params={"input": "Go."},
            ground_truth=[self.task],
            response=as_response("test", [], []),
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    @property
    def id(self):
        [(name, value)] = self.cookies.items()
        signer = itsdangerous.URLSafeSerializer(SECRET, salt=name)
        return signer.loads(str(value))["session_id"]

    @property
    def shard(self):
        return int(self.id.partition("-")[0])


def both_up(served):
    until(lambda: served.health().get("shards_up") == 2, 30)


def is_lost(client):
    assert client.output().startswith("error: this episode was lost: ")
    assert client.seconds < 10
    verdict = client.verdict()
    assert (verdict["reward"], verdict["mask_sample"]) == (0.0, True)
    assert verdict["failure_reason"].startswith("the session was lost: ")
    assert client.call("seed_session", ground_truth=[{"id": 1}]).status_code == 409
    assert client.call("close_session").status_code == 200


def answered(clients, lost=None):
    """Each client calls at once: only those of the shard `lost` are told so."""
    with ThreadPoolExecutor(20) as pool:
        outputs = list(pool.map(lambda client: client.output(), clients))
    for client, output in zip(clients, outputs, strict=True):
        assert client.seconds < 10
        told = output.startswith("error: this episode was lost")
        assert told == (client.shard == lost)


def go_on(clients, lost, counted):
    """The episodes of the shard `lost` are masked; the others, too, can be won."""
    for client in clients:
        if client.shard == lost:
            is_lost(client)
        else:
            plays_on(client, counted)


def plays_on(client, counted):
    """Whether an episode that counted to `counted` earns after it counts to three."""
    for count in range(counted + 1, 4):
        assert client.output().split()[:2] == [str(client.task["id"]), str(count)]
        assert client.seconds < 10
    verdict = client.verdict()
    assert (verdict["reward"], verdict["mask_sample"]) == (1.0, False)
