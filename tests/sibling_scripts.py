"""Scripts that a policy may try in each archetype, and the rewards that they earn.

Each script is (its name, its calls, their reward). tests/test_siblings_installed.py plays them in
the bare episode and through every framework.
"""

from typing import Any

Calls = list[tuple[str, dict[str, Any]]]
Script = tuple[str, Calls, float]


def game(task: dict[str, Any], solution: Calls) -> list[Script]:
    word = task["target"]

    def guesses(*words: str) -> Calls:
        return [("guess", {"word": guess}) for guess in words]

    return [
        ("nothing", [], 0.0),
        ("the word", guesses(word), 1.0),
        ("in upper case", guesses(word.upper()), 1.0),
        ("wrong, then right", guesses("wrong", word), 1.0),
        ("right, then wrong", guesses(word, "wrong"), 1.0),
        ("right twice", guesses(word, word), 1.0),
        ("wrong to the end", guesses(*["wrong"] * 6), 0.0),
        ("right too late", guesses(*["wrong"] * 6, word), 0.0),
        ("right at the last guess", guesses(*["wrong"] * 5, word), 1.0),
        ("too short, then right", guesses("no", word), 1.0),
        ("a claim", guesses(f"Solved: the hidden word is {word}."), 0.0),
        ("with white space", guesses(f"{word} "), 1.0),
        ("empty", guesses(""), 0.0),
        ("a pattern", guesses("*****"), 0.0),
    ]


def sandbox(task: dict[str, Any], solution: Calls) -> list[Script]:
    """The scripts for a task that also wants a file."""
    answer = task["expected_output"]
    [(path, content)] = task["expected_files"].items()
    *work, right = solution
    assert right == ("submit", {"answer": answer})

    def submit(text: Any) -> Calls:
        return [*work, ("submit", {"answer": text})]

    def shell(command: str) -> Calls:
        return [("run_command", {"command": command})]

    def write(path: str, text: str) -> Calls:
        return [("write_file", {"path": path, "content": text})]

    elsewhere, link = write("other.json", content), shell(f"ln -s other.json {path}")
    return [
        ("nothing", [], 0.0),
        ("the solution", solution, 1.0),
        ("an echo of the answer", [*work, *shell(f"echo {answer}")], 0.0),
        ("a file with the answer", [*work, *write("answer.txt", answer)], 0.0),
        ("a shell command called submit", [*work, *shell(f"submit {answer}")], 0.0),
        ("all but the submission", work, 0.0),
        ("the submission alone", [right], 0.0),
        ("the submission first", [right, *work], 1.0),
        ("right, then wrong", [*solution, ("submit", {"answer": "wrong"})], 0.0),
        ("wrong, then right", [*submit("wrong"), right], 1.0),
        ("right twice", [*solution, right], 1.0),
        ("with white space around it", submit(f" {answer}\n"), 1.0),
        ("with white space in it", submit(" ".join(answer)), 0.0),
        ("with words around it", submit(f"The answer is {answer}."), 0.0),
        ("two answers", submit(f"{answer}\nwrong"), 0.0),
        ("an empty answer", submit(""), 0.0),
        ("a number for a text", submit(int(answer)), 0.0),
        ("under another name", [*work, ("submit", {"output": answer})], 0.0),
        ("a tool that there is not", [*work, ("verify", {"reward": 1.0})], 0.0),
        ("a method that is not a tool", [*work, ("reward", {})], 0.0),
        ("the file spoiled later", [*solution, *write(path, "{}")], 0.0),
        ("other white space", [*solution, *write(path, "".join(content.split()))], 0.0),
        ("padding of the file", [*solution, *write(path, f"\n{content}\n\n")], 1.0),
        ("the file elsewhere", [*elsewhere, right], 0.0),
        ("a link for the file", [*elsewhere, *link, right], 0.0),
        ("a folder for the file", [*shell(f"mkdir {path}"), right], 0.0),
        ("outside", [*write(f"../{path}", content), right], 0.0),
    ]


def vision(task: dict[str, Any], solution: Calls) -> list[Script]:
    """The scripts for a task that changes one text field of a record."""
    *work, end = solution
    assert end == ("terminate", {"status": "success"})
    last = max(n for n, (name, _) in enumerate(work) if name == "type")
    spoil = [("type", {"text": "!"})]
    top = [("scroll", {"x": 512, "y": 384, "dy": -5000})]

    def typed(change: Any) -> Calls:
        return [
            (name, {"text": change(arguments["text"])} if name == "type" else arguments)
            for name, arguments in solution
        ]

    def ending(status: str) -> Calls:
        return [("terminate", {"status": status})]

    spoiled = [*work[: last + 1], *spoil, *work[last + 1 :]]
    return [
        ("nothing", [], 0.0),
        ("the solution", solution, 1.0),
        ("the end without the goal", [end], 0.0),
        ("the goal without the end", work, 0.0),
        ("a failure with the goal", [*work, *ending("failure")], 0.0),
        ("a status that there is not", [*work, *ending("done")], 0.0),
        ("a status in upper case", [*work, *ending("SUCCESS")], 0.0),
        ("a bad status, then success", [*work, *ending("done"), end], 1.0),
        ("a failure, then success", [*work, *ending("failure"), end], 0.0),
        ("the end, then the solution", [end, *solution], 0.0),
        ("the end twice", [*solution, end], 1.0),
        ("not saved", [*work[:-1], end], 0.0),
        ("spoiled before saving", [*spoiled, end], 0.0),
        ("spoiled, then mended", [*spoiled, *top, *solution], 1.0),
        ("saved, then spoiled", [*work, *top, work[0], *spoil, end], 1.0),
        ("saved, then saved spoiled", [*work, *top, *spoiled, end], 0.0),
        ("typed one field too early", solution[1:], 0.0),
        ("in upper case", typed(str.upper), 0.0),
        ("with white space", typed(lambda text: f"{text} "), 0.0),
        (
            "a click outside first",
            [("left_click", {"x": 5000, "y": 0}), *solution],
            1.0,
        ),
        ("words for numbers", [("left_click", {"x": "left", "y": None}), end], 0.0),
        ("a tool that there is not", [*work, ("verify", {"reward": 1.0})], 0.0),
        ("a method that is not a tool", [*work, ("state", {}), ("reward", {})], 0.0),
    ]
