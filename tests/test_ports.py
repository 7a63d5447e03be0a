"""examples/nemo_gym: NeMo Gym's own servers as classes, and their recorded rewards.

NeMo Gym's wheel has five recorded rollouts for each. A class plays each of them through
the server: its row as it is, the recorded calls, and the recorded response. Some
recordings are adapted first: see ADAPTED.
"""

import asyncio
import contextlib
import inspect
import json
import re
from collections.abc import Callable, Iterator
from importlib.metadata import distribution, version
from itertools import permutations, product, zip_longest
from pathlib import Path
from typing import Any

import runtime.rendered  # noqa: F401  # makes env_runtime importable

# isort: split
import pytest
from env_runtime.episode.declaration import declared
from env_runtime.episode.samples import sample_of
from env_runtime.episode.tasks import (
    is_native,
    oracle_reward,
    read_task,
    solution_of,
)
from env_runtime.episode.tools import tools_of
from env_runtime.episode.types import as_response, function_call
from env_runtime.evaluation.rows import check_row
from fastapi.testclient import TestClient
from runtime.support import server_class
from scripted_judge import Judge, serving

from projects import ROOT, load_module

CLASSES = ROOT / "examples/nemo_gym"
SERVERS = Path(str(distribution("nemo-gym").locate_file("resources_servers")))

Json = dict[str, Any]


def read_lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def offices_tools() -> list[str]:
    [row, *_] = read_lines(SERVERS / "workplace_assistant/data/example.jsonl")
    return [tool["name"] for tool in row["responses_create_params"]["tools"]]


# Each server's class, and the tools that server.py serves.
PORTS: dict[str, tuple[str, list[str]]] = {
    "string_match": ("StringMatch", []),
    "gui_coordinate": ("GuiCoordinate", []),
    "mrcr": ("Mrcr", []),
    "example_session_state_mgmt": (
        "Counter",
        ["increment_counter", "get_counter_value"],
    ),
    "wordle": ("Wordle", ["submit_guess", "check_word_validity", "get_game_state"]),
    "mcqa": ("Mcqa", []),
    "example_multi_step": (
        "MultiStep",
        ["get_synonym_value", "extract_synonym_values"],
    ),
    "circle_click": ("CircleClick", ["click"]),
    "circle_count": ("CircleCount", []),
    "calendar": ("Calendar", []),
    "arc_agi": ("ArcAgi", []),
    "reasoning_gym": ("ReasoningGym", []),
    "equivalence_llm_judge": ("EquivalenceJudge", []),
    "simpleqa": ("SimpleQA", []),
    "abstention": ("Abstention", []),
    "longmemeval": ("LongMemEval", []),
    "blackjack": ("Blackjack", ["hit", "stand"]),
    "structured_outputs": ("StructuredOutputs", []),
    "workplace_assistant": ("WorkplaceAssistant", offices_tools()),
    "generative_reward_model": ("RewardModel", []),
    "inverse_if": ("InverseIF", []),
    "example_tool_call_multireward": ("Weather", ["get_weather"]),
    "grl_tetris": ("Tetris", ["look", "left", "right", "down"]),
    "instruction_following": ("InstructionFollowing", []),
    "example_multi_turn_gymnasium": ("FollowUps", []),
    "grl_sokoban": ("Sokoban", []),
    "blackjack in messages": ("TalkingBlackjack", []),
    "grl_tetris in messages": ("TalkingTetris", []),
    "xlam_fc": ("XlamFC", []),
    "single_step_tool_use_with_argument_comparison": ("SingleStep", []),
    "terminal_multi_harness": ("TerminalMultiHarness", []),
    "image_tools": ("ImageTools", []),
}
# A module must not hide one of Python's library, or the package that it imports.
MODULES = {"calendar": "calendar_env", "reasoning_gym": "reasoning_gym_env"}
# NeMo Gym 0.4's wheel does not have these, or its recorded calls found no tool.
LATER = [
    "string_match",
    "gui_coordinate",
    "wordle",
    "longmemeval",
    "generative_reward_model",
    "example_tool_call_multireward",
    "image_tools",
]
NEEDS_LATER = pytest.mark.skipif(
    version("nemo-gym").startswith("0.4."), reason="needs nemo-gym 0.7's recordings"
)

# What app.py gives today where a recording is older than it: rollout 2 of mcqa has text
# beside the letter in its box, which the release that recorded it did not read.
PAID_TODAY = {("mcqa", 2): 1.0}

HANDS = ("player", "dealer")


def with_its_cards(rollout: Json) -> Json:
    """A game of blackjack whose row has the cards. They are known at the end."""
    info = rollout["info"]
    hands = {who: info[who].strip("[]").split(", ") for who in info if who in HANDS}
    if "dealer" not in hands:  # the player went over 21, and the dealer showed one card
        hands["dealer"] = re.findall(r"Dealer shows: (\w+)", prompt_of(rollout)[-1])
    params = {"input": rollout["responses_create_params"]["input"]}
    return {**rollout, "row": {"responses_create_params": params, **hands}}


def as_calls(rollout: Json, shown: Callable[[str], str]) -> Json:
    """A game whose actions are calls. `shown` is the class's part of what follows one.

    The recorded policy writes `<action>hit</action>`, and the server's user answers.
    """
    output = []
    for number, item in enumerate(rollout["response"]["output"]):
        identity = {"call_id": f"call_{number - number % 2}", "id": f"item_{number}"}
        if item["role"] == "assistant":
            [action] = re.findall(r"<action>(\w+)</action>", item["content"][0]["text"])
            call = {"type": "function_call", "name": action.lower(), "arguments": "{}"}
            output.append({**call, **identity})
        else:
            result = {"type": "function_call_output", "output": shown(item["content"])}
            output.append({**result, **identity})
    return {**rollout, "response": {**rollout["response"], "output": output}}


def without_advice(text: str) -> str:
    """A message without its last line, "Respond with ..."."""
    return text.rpartition("\n")[0]


def with_its_schema(rollout: Json) -> Json:
    """A document whose row has the schema. The recording has it in the prompt alone."""
    params = rollout["responses_create_params"]
    schemas = []
    for text in prompt_of(rollout):
        with contextlib.suppress(ValueError):
            schemas.append(json.JSONDecoder().raw_decode(text, text.index("{"))[0])
    [fields] = schemas
    schema = {"type": "object", "properties": fields}
    row = {"responses_create_params": params, "schema_str": json.dumps(schema)}
    return {**rollout, "row": row}


# The calls that fulfill the recorded requests to the office, written by hand: the wheel
# does not have their rows.
SOLUTIONS = {
    "Create a bar chart of total visits since November 30": (
        "analytics_create_plot",
        ["2023-11-30", "2023-11-30", "total_visits", "bar"],
    ),
    "Delete Casey Wilson from the crm": (
        "customer_relationship_manager_delete_customer",
        ["00000014"],
    ),
    "Add Dakota Thomas as a new lead in the crm and assign them to Nadia": (
        "customer_relationship_manager_add_customer",
        ["Dakota Thomas", "nadia.moreau@atlas.com", "Lead"],
    ),
    "Delete my last email from kofi": ("email_delete_email", ["00000259"]),
}


def with_its_solution(rollout: Json) -> Json:
    """A request to the office whose row has the calls that fulfill it."""
    port, solution = port_of("workplace_assistant"), []
    if wanted := SOLUTIONS.get(prompt_of(rollout)[-1]):
        name, values = wanted
        parameters = list(inspect.signature(getattr(port, name)).parameters)[1:]
        arguments = dict(zip(parameters, values, strict=False))
        solution = [{"name": name, "arguments": json.dumps(arguments)}]
    output = []
    for item in rollout["response"]["output"]:
        if item["type"] == "function_call_output":
            item = {**item, "output": json.dumps(json.loads(item["output"])["output"])}
        output.append(item)
    params = rollout["responses_create_params"]
    row = {"responses_create_params": params, "solution": solution}
    response = {**rollout["response"], "output": output}
    return {**rollout, "row": row, "response": response}


# How often each shape was drawn before the seed of a recorded game was set.
DRAWN = [[7, 10, 0], [8, 9], [5, 5, 7], [8, 9], [8, 9]]


def with_its_draws(rollout: Json) -> Json:
    """A game of tetris whose row says what was drawn before."""
    index = rollout["_ng_task_index"]
    row = read_lines(SERVERS / "grl_tetris/data/example.jsonl")[index]
    return {**rollout, "row": {**row, "drawn": DRAWN[index]}}


def with_its_board(rollout: Json) -> Json:
    """A puzzle whose row has the board: NeMo Gym makes it of the seed."""
    row = read_lines(SERVERS / "grl_sokoban/data/example.jsonl")
    row = row[rollout["_ng_task_index"]]
    return {**rollout, "row": {**row, "board": board_in(prompt_of(rollout)[-1])}}


def board_in(text: str) -> str:
    """The board of a message: the lines between its title and the legend."""
    return text.partition("\n")[2].partition("\n\n")[0]


# Recordings whose rows the wheel does not have, or whose actions become calls.
ADAPTED: dict[str, Callable[[Json], Json]] = {
    "blackjack": lambda rollout: as_calls(with_its_cards(rollout), without_advice),
    "structured_outputs": with_its_schema,
    "workplace_assistant": with_its_solution,
    "grl_tetris": lambda rollout: as_calls(with_its_draws(rollout), board_in),
    "blackjack in messages": with_its_cards,
    "grl_tetris in messages": with_its_draws,
    "grl_sokoban": with_its_board,
}

each_port = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=NEEDS_LATER if name in LATER else []) for name in PORTS],
)


def data_of(name: str) -> Path:
    """The data of a port's server: "blackjack in messages" is a form of blackjack."""
    return SERVERS / name.split()[0] / "data"


def rollouts_of(name: str) -> list[Json]:
    rollouts = read_lines(data_of(name) / "example_rollouts.jsonl")
    assert len(rollouts) == 5
    adapt = ADAPTED.get(name, dict)
    return [adapt(rollout) for rollout in rollouts]


def rows_of(name: str) -> list[Json]:
    """The rows of a server's data set. One key of the office's is renamed.

    A puzzle's row has its board, and what its shortest solution earns.
    """
    if name == "grl_sokoban":
        rows = [rollout["row"] for rollout in rollouts_of(name)]
        for row in rows:
            row["oracle_reward"] = 11.0 - 0.1 * len(solution_of(port_of(name), row)[0])
        return rows
    rows = read_lines(data_of(name) / "example.jsonl")
    if name == "workplace_assistant":
        for row in rows:
            row["solution"] = row.pop("ground_truth")
    return rows


def given(name: str, rollout: Json) -> float:
    """The reward that the server of the installed wheel gives a recorded rollout."""
    number = rollouts_of(name).index(rollout)
    if version("nemo-gym").startswith("0.4."):
        return rollout["reward"]
    return PAID_TODAY.get((name, number), rollout["reward"])


def response_of(rollout: Json) -> Json:
    """The recorded response without `usage`, which NeMo Gym itself refuses in mrcr's.

    The responses of image_tools lack what every response has.
    """
    lacking = {"created_at": 0, "tool_choice": "auto", "tools": []}
    response = {"parallel_tool_calls": True, **lacking, **rollout["response"]}
    return {key: value for key, value in response.items() if key != "usage"}


def row_of(name: str, rollout: Json) -> Json:
    """The row that a rollout played, as the server's data set has it."""
    if name in ADAPTED:
        return rollout["row"]
    rows = rows_of(name)
    if "_ng_task_index" in rollout:
        row = rows[rollout["_ng_task_index"]]
    else:
        [row] = [row for row in rows if prompt_of(row) == prompt_of(rollout)]
    assert prompt_of(row) == prompt_of(rollout)
    return row


def prompt_of(row: Json) -> list[Any]:
    """The contents of the messages; NeMo Gym adds defaults to the messages."""
    contents = [each.get("content") for each in row["responses_create_params"]["input"]]
    return [
        [part.get("text") for part in one] if isinstance(one, list) else one
        for one in contents
    ]


def calls_of(rollout: Json) -> Iterator[tuple[Json, Json | None]]:
    """Each recorded call, and its output. The last call of a game may lack one."""
    output = rollout["response"]["output"]
    results = {
        item["call_id"]: read_output(item["output"])
        for item in output
        if item["type"] == "function_call_output"
    }
    for item in output:
        if item["type"] == "function_call":
            yield item, results.get(item["call_id"])


def messages_of(port: type, rollout: Json) -> Iterator[tuple[str, str | None]]:
    """Each recorded message to a class with reply(), and the text that followed."""
    if declared(port).replies:
        texts = [
            item["content"] if item["role"] == "user" else item["content"][0]["text"]
            for item in rollout["response"]["output"]
        ]
        yield from zip_longest(texts[::2], texts[1::2])


def read_output(text: str) -> Any:
    """A tool's output: JSON, or text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def module_of(name: str) -> Path:
    server = name.split()[0]
    return CLASSES / f"{MODULES.get(server, server)}.py"


def port_of(name: str) -> type:
    """The class of a port."""
    path = module_of(name)
    module = load_module(path, f"port_{path.stem}")
    domain_class = getattr(module, PORTS[name][0])
    if name == "wordle":
        domain_class.words = frozenset(recorded_words())
    return domain_class


def recorded_words() -> Iterator[str]:
    """The words that the recorded games accepted: the wheel has no list of words."""
    rows = read_lines(SERVERS / "wordle/data/example.jsonl")
    yield from (row["custom_target"] for row in rows)
    for rollout in rollouts_of("wordle"):
        for call, result in calls_of(rollout):
            if call["name"] != "get_game_state" and result and result["valid"]:
                [word] = json.loads(call["arguments"]).values()
                yield word.lower()


@pytest.fixture
def connect():
    """Makes a client of a new server of a port."""
    running: list[TestClient] = []

    def connect_to(name: str) -> TestClient:
        server = server_class(port_of(name), PORTS[name][1]).build()
        client = TestClient(server.setup_webserver())
        running.append(client)
        return client.__enter__()

    yield connect_to
    for client in running:
        client.__exit__(None, None, None)


def post(client: TestClient, path: str, body: Json) -> Json:
    answer = client.post(f"/{path}", json=body, headers={"X-Harness": "1"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def judged(rollout: Json) -> Callable[[str], str] | None:
    """What the recorded judge says to a question. None without a judge.

    If the class cannot read what it said, and asks once more, it is the verdict alone.
    """
    if evaluations := rollout.get("rubric_evaluations"):
        answers = {each["criteria"]: each["judge_response"] for each in evaluations}
        return lambda text: next(answers[each] for each in answers if each in text)
    if evaluations := rollout.get("judge_evaluations"):
        [item] = evaluations[0]["response"]["output"]
        said, verdict = item["content"][0]["text"], evaluations[0]["verdict_label"]
    elif said := rollout.get("judge_output") or rollout.get("judge_raw"):
        verdict = said.rstrip(".").split()[-1]
    else:
        return None
    return lambda text: verdict if "cannot be read" in text else said


@pytest.fixture
def recorded_judge(monkeypatch):
    """Answers the classes' judge as the one of a rollout did."""
    with serving() as judge:
        monkeypatch.setenv("JUDGE_MODEL", "recorded")
        monkeypatch.setenv("JUDGE_BASE_URL", judge.url)

        def follow(rollout: Json) -> Judge:
            judge.requests.clear()
            judge.say = judged(rollout) or judge.say
            return judge

        yield follow


@pytest.mark.slow
@each_port
def test_a_port_earns_what_the_server_gave(connect, recorded_judge, name):
    """A deterministic class gives it once more for the rollout alone."""
    port = port_of(name)
    for rollout in rollouts_of(name):
        judge = recorded_judge(rollout)
        client, row = connect(name), row_of(name, rollout)
        assert is_native(row)
        post(client, "seed_session", row)
        for call, result in calls_of(rollout):
            shown = post(client, call["name"], json.loads(call["arguments"]))
            if result is not None:
                assert read_output(shown["output"]) == result
        for message, follows in messages_of(port, rollout):
            shown = post(client, "reply", {"answer": message})["message"]
            # The class leaves out how to answer, which the prompt says.
            assert shown["content"] in follows if follows else shown is None
        # The collector adds keys of its own to the row.
        added = {"_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
        body = {**row, **added, "response": response_of(rollout)}
        verdicts = [post(client, "verify", body)]
        if getattr(port, "deterministic", True):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("REVERIFY", "1")
                again = {**rollout, **row, "response": response_of(rollout)}
                verdicts.append(post(connect(name), "verify", again))
        for verdict in verdicts:
            earned = verdict["reward"], verdict["mask_sample"]
            assert earned == (given(name, rollout), False)
            parts = verdict.get("reward_components")
            assert parts == rollout.get("reward_components")
        assert bool(judge.requests) == (judged(rollout) is not None)


@NEEDS_LATER
def test_a_recording_that_is_older_than_its_server():
    """The class gives what app.py gives today."""
    from resources_servers.mcqa import app

    for (name, number), expected in PAID_TODAY.items():
        rollout = rollouts_of(name)[number]
        assert rollout["reward"] != expected
        body = {**row_of(name, rollout), "response": response_of(rollout)}
        config = app.MCQAResourcesServerConfig.model_construct(grading_mode=None)
        server = app.MCQAResourcesServer.model_construct(config=config)
        request = app.MCQAVerifyRequest.model_validate(body)
        assert asyncio.run(server.verify(request)).reward == expected


def app_of_structured_outputs() -> Any:
    """The app.py of the installed wheel, and a server of it."""
    from resources_servers.structured_outputs import app

    config = app.StructuredOutputsResourcesServerConfig.model_construct()
    return app, app.StructuredOutputsResourcesServer.model_construct(config=config)


def test_a_document_in_the_arguments_of_a_call(connect):
    """The wheel has rows, but no recordings, of such documents."""
    app, server = app_of_structured_outputs()
    port, earned = port_of("structured_outputs"), []
    for row in rows_of("structured_outputs"):
        assert row["response_mode"] == "tool_call"
        check_row(port, row)
        schema = json.loads(row["schema_str"])
        server.strictify_schema(schema)
        document = sample_of(schema)
        key = row["tool_payload_key"]
        right = (row["tool_name"], {key: document} if key else document)
        for calls in (
            [right],
            [(right[0], {})],
            [("other_tool", right[1])],
            [right, right],
            [],
        ):
            client = connect("structured_outputs")
            post(client, "seed_session", row)
            for name, arguments in calls:
                assert post(client, name, arguments) == {"output": "noted"}
            output = [function_call(name, json.dumps(sent)) for name, sent in calls]
            body = {**row, "response": as_response("test", [], output)}
            verdict = post(client, "verify", body)
            request = app.StructuredOutputsVerifyRequest.model_validate(body)
            assert verdict["reward"] == asyncio.run(server.verify(request)).reward
            earned.append(verdict["reward"])
    assert earned == [1.0, 0.0, 0.0, 0.0, 0.0] * 5


@pytest.mark.slow
@each_port
def test_the_oracle_of_a_port_earns_its_reward(connect, name, monkeypatch):
    monkeypatch.setenv("STAND_IN", "1")
    port, response = port_of(name), response_of(rollouts_of(name)[0])
    if not hasattr(port, "oracle"):
        pytest.skip("a solution of the row is nowhere")
    for row in rows_of(name):
        client = connect(name)
        post(client, "seed_session", row)
        calls, answer = solution_of(port, row)
        for tool, arguments in calls:
            post(client, tool, arguments)
        text = {"type": "output_text", "text": answer, "annotations": []}
        message = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
        output = [{**message, "status": "completed"}] if answer else []
        body = {**row, "response": {**response, "output": output}}
        expected = pytest.approx(oracle_reward(port, row))
        assert post(client, "verify", body)["reward"] == expected


def test_a_refused_row_is_answered_with_its_own_key(connect):
    row = {"responses_create_params": {"input": "Go."}, "initial_count": "many"}
    answer = connect("example_session_state_mgmt").post("/seed_session", json=row)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("initial_count: Input should be a valid")


# Each rule, its arguments (null if not given), a text that follows it, and one that only
# seems to.
FOLLOWED = [
    ("count:lowercase_counting", {"N": 2}, "ALL of THIS is SO", "ALL of this is"),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        "[name], [street]",
        "[name], [], [street",
    ),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 2},
        "Two:\n***\n* one\n- two",
        "One:\n---\n* one\n*two*",
    ),
    ("detectable_format:title", {"N": None}, "<<A poem>>\nText", "<< >>\n<<A\npoem>>"),
    (
        "first_word:first_word_sent",
        {"first_word": "go"},
        '1. "Go on." Go!',
        "Go on. Go-karts go.",
    ),
    (
        "keywords:forbidden_words",
        {"forbidden_words": ["part", "c++"]},
        "Partly in C.",
        "It is in C++.",
    ),
    (
        "last_word:last_word_answer",
        {"last_word": "end"},
        'This is "the End".',
        "This is the end of it.",
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "so"},
        "One.\n\nSo two.",
        "One.\n\nSo two.\n\nThree.",
    ),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 3},
        "One\n***\ntwo\n***\nthree",
        "One\n***\ntwo\n***\n",
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": "at least"},
        "It is 1.5 m. Is it?",
        "1. It is 1.5 m.",
    ),
    (
        "length_constraints:number_words",
        {"num_words": 4, "relation": "less than"},
        "Up-to-date!",
        "Now up-to-date.",
    ),
    (
        "letters:letter_counting",
        {"N": 3, "relation": "at least"},
        "abc",
        "ab1, 2",
    ),
    ("paragraphs:paragraphs", {}, "One\n***\ntwo", "One\n\ntwo"),
]


def follows(answer: str, name: str, arguments: Json | None) -> bool:
    """Whether the class says that a text follows a rule. Without words none does."""
    port = port_of("instruction_following")
    task = {"instruction_id_list": [name], "kwargs": [arguments]}
    rule = port(read_task(port, task))
    assert rule.reward(" ") == 0.0
    return rule.reward(answer) == 1.0


@pytest.mark.parametrize("name, arguments, right, wrong", FOLLOWED)
def test_a_text_follows_a_rule_or_not(name, arguments, right, wrong):
    assert follows(right, name, arguments)
    assert not follows(wrong, name, arguments)


def test_each_rule_says_what_the_server_said():
    seen = set()
    for rollout in rollouts_of("instruction_following"):
        [message] = rollout["response"]["output"]
        [part] = message["content"]
        rules = zip(rollout["instruction_id_list"], rollout["kwargs"], strict=True)
        said = [follows(part["text"], *rule) for rule in rules]
        assert said == rollout["follow_instruction_list"]
        seen.update(rollout["instruction_id_list"])
    assert seen == {name for name, *_ in FOLLOWED}


@pytest.mark.parametrize(
    "name, arguments, problem",
    [
        ("copy:copy", {}, "RULES has no rule 'copy:copy'"),
        ("letters:letter_counting", {"N": 3}, "relation: Missing required argument"),
        ("detectable_format:title", {"N": 3}, "N: Unexpected keyword argument"),
    ],
)
def test_a_rule_that_cannot_be_checked_is_refused(connect, name, arguments, problem):
    """It would be graded wrong, whatever the policy says."""
    [row, *_] = rows_of("instruction_following")
    row["instruction_id_list"][0], row["kwargs"][0] = name, arguments
    answer = connect("instruction_following").post("/seed_session", json=row)
    assert answer.status_code == 422
    assert problem in answer.json()["detail"]


def test_a_row_can_pay_for_the_share_of_its_rules(connect):
    rollout = rollouts_of("instruction_following")[0]
    row = row_of("instruction_following", rollout)
    keys = ("instruction_id_list", "kwargs")
    about = {key: row.pop(key) for key in keys}  # as NeMo Gym 0.7's new rows have them
    row["verifier_metadata"] = {**about, "grading_mode": "fraction"}
    client = connect("instruction_following")
    post(client, "seed_session", row)
    verdict = post(client, "verify", {**row, "response": response_of(rollout)})
    assert rollout["follow_instruction_list"] == [True, False, True]
    assert verdict["reward"] == verdict["followed"] == pytest.approx(2 / 3)


def test_calls_are_matched_in_any_order():
    """A call that has what two expected ones ask for must not take the wrong place."""
    port = port_of("xlam_fc")
    wanted = [{"a": 1}, {"a": 1, "b": 2}, {"a": 1, "c": 3}]
    made = [{"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}, {"a": 1}]
    for order, expected in product(permutations(made), permutations(wanted)):
        answers = [{"name": "f", "arguments": each} for each in expected]
        episode = port(read_task(port, {"expected_answers": answers}))
        for arguments in order:
            episode.call_row_tool("f", arguments)
        assert episode.reward() == 1.0
        episode.call_row_tool("f", {"a": 1})
        assert episode.reward() == 0.0
        assert episode.metrics() == {"num_predicted": 4, "num_correct": 3}


def test_a_row_says_that_no_call_is_expected(connect):
    """A misspelled key must not pay for an answer without calls."""
    row = {"responses_create_params": {"input": "Go."}, "expected_answers": []}
    post(connect("xlam_fc"), "seed_session", row)
    row["expected_answer"] = row.pop("expected_answers")
    refused = connect("xlam_fc").post("/seed_session", json=row)
    assert refused.status_code == 422
    assert refused.json()["detail"] == "expected_answers: Field required"


@each_port
def test_only_the_methods_in_server_py_are_tools(name):
    served = PORTS[name][1]
    assert list(tools_of(port_of(name), served)) == served


def test_the_table_is_right():
    """The table of examples/nemo_gym/README.md counts lines of app.py and the class."""
    rows = re.findall(
        r"^\| `(.*)\|$", (CLASSES / "README.md").read_text(), re.MULTILINE
    )
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    table = {name.replace("`", ""): rest for name, *rest in cells}
    assert set(table) == set(PORTS)
    assert set(CLASSES.glob("*.py")) == set(map(module_of, PORTS))
    for name, (_, theirs, ours, equal, _) in table.items():
        own = module_of(name).read_text()
        assert (name, ours) == (name, str(len(own.splitlines())))
        older = [each for each in PAID_TODAY if each[0] == name]
        assert (name, equal) == (name, f"{5 - len(older)} of 5")
        if not version("nemo-gym").startswith("0.4."):
            app = data_of(name).with_name("app.py")
            assert (name, theirs) == (name, str(len(app.read_text().splitlines())))
