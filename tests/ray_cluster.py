"""Play 60 episodes on shards of a Ray cluster of three nodes, one of which dies.

Prints RESULT and a JSON object with the episodes' outcomes. tests/test_shards.py runs
this in the folder of a generated game.
"""

import base64
import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import ray
import requests
from env_runtime.episode.types import as_response
from env_runtime.evaluation.policies import solve
from env_runtime.evaluation.rows import load_rows
from env_runtime.project import here
from ray.cluster_utils import Cluster
from ray.util.state import list_actors

EPISODES = 60
SETTINGS = {"SHARDS": "3", "SHARD_CPUS": "1", "SHARD_SECONDS": "5"}

rows = load_rows(here().rows)
tools = rows[0]["responses_create_params"]["tools"]
slowest = 0.0  # the time of the slowest request, in seconds


def start_proxy(cluster):
    """A server process, and its URL."""
    proxy = subprocess.Popen(
        [sys.executable, "server.py"],
        env={
            **os.environ,
            **SETTINGS,
            "RAY_ADDRESS": cluster.address,
            "PORT": "0",
            "SESSION_SECRET": "one",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in proxy.stderr:
        if found := re.search(r"running on (http://\S+)", line):
            threading.Thread(target=proxy.stderr.read, daemon=True).start()
            return proxy, found[1]
    raise RuntimeError("the server did not start")


def shards():
    """The place of each living shard, by its name."""
    return {one["name"]: one for one in list_actors() if one["state"] == "ALIVE"}


def shard_of(client):
    """The number of the shard that a client's cookie names."""
    [cookie] = client.cookies.values()
    held = json.loads(base64.urlsafe_b64decode(cookie.partition(".")[0] + "=="))
    return int(held["session_id"].partition("-")[0])


def post(url, client, path, body):
    global slowest
    started = time.monotonic()
    answer = client.post(f"{url}/{path}", json=body, timeout=120)
    slowest = max(slowest, time.monotonic() - started)
    return answer


def finish(url, client, row):
    """Play a seeded episode to its end. Returns its calls' answers and its verdict."""
    answers = [post(url, client, tool, given) for tool, given in solve(row, tools)]
    outputs = [(one.status_code, one.json().get("output", "")) for one in answers]
    body = {**row, "response": as_response("test", [], [])}
    verdict = post(url, client, "verify", body).json()
    return outputs, verdict["reward"], verdict["mask_sample"]


def main():
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    # The head must not die, so it gets no shard.
    nodes = [cluster.add_node(num_cpus=2) for _ in range(2)]
    proxy, url = start_proxy(cluster)
    ray.init(address=cluster.address)

    before = shards()
    homes = {one["node_id"] for one in before.values()}
    victim = next(node for node in nodes if node.node_id in homes)
    there = [one for one in before.values() if one["node_id"] == victim.node_id]
    processes = [psutil.Process(one["pid"]) for one in there]
    seeded, killed = threading.Semaphore(0), threading.Event()

    def play(number):
        row, client = rows[number % len(rows)], requests.Session()
        post(url, client, "seed_session", row).raise_for_status()
        seeded.release()
        killed.wait(120)
        return shard_of(client), *finish(url, client, row)

    with ThreadPoolExecutor(EPISODES) as pool:
        playing = [pool.submit(play, number) for number in range(EPISODES)]
        for _ in playing:
            seeded.acquire()
        died = time.monotonic()
        cluster.remove_node(victim, allow_graceful=False)
        # A node's processes may outlive it by seconds, and then answer as before.
        _, alive = psutil.wait_procs(processes, 30)
        assert not alive
        killed.set()
        seed = post(url, requests.Session(), "seed_session", rows[0]).status_code
        played = [one.result() for one in playing]
    while requests.get(f"{url}/health", timeout=60).json()["shards_up"] < len(before):
        assert time.monotonic() < died + 120
        time.sleep(0.2)
    back = time.monotonic() - died

    # The proxy dies; the next one finds the shards and their sessions again.
    late = requests.Session()
    post(url, late, "seed_session", rows[0]).raise_for_status()
    proxy.kill()
    proxy.wait()
    proxy, url = start_proxy(cluster)
    _, reward, _ = finish(url, late, rows[0])
    proxy.terminate()
    proxy.wait(60)
    result = {
        "played": played,
        "seed": seed,
        "slowest": slowest,
        "back": back,
        "gone": [int(one["name"].rpartition("-")[2]) for one in there],
        "nodes": len({one["node_id"] for one in before.values()}),
        "found again": reward,
        "left": list(shards()),
    }
    print("RESULT", json.dumps(result), flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
