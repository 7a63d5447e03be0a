"""Shapes of public datasets: invented records with the columns of the real ones.

A shape is a function of the record's number, and what must become of its records: parts of
the first prompt, the grader, and the first solution; or what the command asks.
"""

import json
from typing import Any, NamedTuple

COUNT = 40
NAMES = [
    "Ada",
    "Bo",
    "Cem",
    "Dia",
    "Eli",
    "Fay",
    "Gus",
    "Hal",
    "Ida",
    "Jo",
    "Kim",
    "Lou",
    "Max",
    "Nia",
    "Oz",
    "Pia",
    "Quy",
    "Rio",
    "Sal",
    "Tia",
]
PNG = b"\x89PNG and more"


class Shape(NamedTuple):
    """What a dataset's records are, and what they must become."""

    record: Any
    prompt: tuple[str, ...] = ()
    solution: Any = ""
    asks: str = ""  # part of the message, if the command has to ask
    without: tuple[str, ...] = ()  # what no prompt may have
    options: tuple[str, ...] = ()  # of the command
    kind: str = "jsonl"


def name(n: int) -> str:
    return f"{NAMES[n % 20]}{n // 20 or ''}"


def story(n: int) -> str:
    return f"{name(n)} has {n + 3} red apples and gives {n + 1} of them to a friend."


def four(n: int) -> list[str]:
    return [f"the lake {n}", f"the river {n}", f"the hill {n}", f"the town {n}"]


def letter(n: int) -> str:
    return "ABCD"[n * 7 % 4]


def own(of: str, texts: list[str], between: str = "\n") -> str:
    return between.join(
        of.format(a, t) for a, t in zip("ABCDEFGHIJK", texts, strict=False)
    )


def box(text: Any) -> str:
    return "\\boxed{" + str(text) + "}"


def why(n: int) -> str:
    return f"Because {name(n)} knows that the sum of all the parts is what one has to find here."


def hard(n: int) -> str:
    return [
        rf"\frac{{{n}}}{{7}}",
        f"({n}, 4]",
        rf"2\sqrt{{{n}}}",
        str(n),
        r"\text{Even}",
    ][n % 5]


def ask(n: int) -> str:
    return f"What did {name(n)} see on day {n}?"


def ids(n: int) -> dict[str, Any]:
    return {"id": f"id-{n:05d}"}


SHAPES: dict[str, Shape] = {
    "GSM8K": Shape(
        lambda n: {
            "question": f"{story(n)} How many are left?",
            "answer": f"{why(n)}\n#### {n * 37}",
        },
        ("How many are left?",),
        box(0),
        without=("Because",),
    ),
    "MATH": Shape(
        lambda n: {
            "problem": f"Find the value of $x_{{{n}}}$.",
            "level": f"Level {n % 5}",
            "type": "Algebra",
            "solution": rf"Thus $x=\boxed{{{hard(n)}}}$, which is $\frac{{74}}{{2}}$.",
        },
        ("Find the value",),
        box(r"\frac{0}{7}"),
        without=("Level", "which is"),
    ),
    "MATH-500": Shape(
        lambda n: {
            "problem": f"Find the value of $x_{{{n}}}$.",
            "solution": rf"Thus $x=\boxed{{{hard(n)}}}$.",
            "answer": hard(n),
            "subject": "Algebra",
            "level": n % 5,
            "unique_id": f"test/algebra/{n}.json",
        },
        ("Find the value",),
        box(r"\frac{0}{7}"),
        without=("Thus", "test/algebra"),
    ),
    "AIME": Shape(
        lambda n: {
            "ID": f"2024-{n}",
            "problem": f"Find the remainder $r_{{{n}}}$.",
            "answer": f"{n * 24 + 25:03d}",
        },
        ("Find the remainder",),
        box("025"),
    ),
    "SVAMP": Shape(
        lambda n: {
            "ID": f"chal-{n}",
            "Body": story(n),
            "Question": "How many apples are left?",
            "Equation": f"( {n}.0 - 3.0 )",
            "Answer": float(n),
            "Type": "Subtraction",
        },
        ("red apples and gives", "How many apples are left?"),
        box("0.0"),
        without=("- 3.0", "Subtraction"),
    ),
    "ASDiv": Shape(
        lambda n: {
            "body": story(n),
            "question": "How many apples are left?",
            "formula": f"{n}-3={n - 3}",
            "answer": f"{n} (apples)",
            "solution-type": "Subtraction",
        },
        ("red apples and gives", "How many"),
        box("0 (apples)"),
        without=("-3=",),
    ),
    "AQuA": Shape(
        lambda n: {
            "question": f"{story(n)} What share is left?",
            "options": [f"{a}){n + k}.5" for k, a in enumerate("ABCDE")],
            "rationale": why(n),
            "correct": "ABCDE"[n * 3 % 5],
        },
        ("What share", "A. 0.5", "E. 4.5"),
        box("A"),
        without=("Because", "A. A)"),
    ),
    "MathQA": Shape(
        lambda n: {
            "Problem": f"{story(n)} what share is left ?",
            "Rationale": why(n),
            "options": f"a ) {n + 38} , b ) {n + 27} , c ) {n + 10} , d ) {n} , e ) none of these",
            "correct": "abcde"[n * 3 % 5],
            "annotated_formula": f"subtract({n}, const_3)",
            "linear_formula": f"subtract(n{n},n1)|",
            "category": ["gain", "physics"][n % 2],
        },
        ("what share", "A. 38", "E. none of these"),
        box("A"),
        without=("subtract", "Because"),
    ),
    "MMLU": Shape(
        lambda n: {
            "question": ask(n),
            "subject": "geography",
            "choices": four(n) if n != 25 else ["a", "a", "b", "c"],
            "answer": n * 7 % 4,
        },
        ("What did", "A. the lake 0", "D. the town 0"),
        box("A"),
        without=("geography",),
    ),
    "MMLU-Pro": Shape(
        lambda n: {
            "question_id": n,
            "question": ask(n),
            "options": [*four(n), f"the sea {n}", f"a wood {n}"],
            "answer": "ABCDEF"[n * 5 % 6],
            "answer_index": n * 5 % 6,
            "cot_content": "",
            "category": "geography",
            "src": "ori_mmlu",
        },
        ("What did", "F. a wood 0"),
        box("A"),
    ),
    "MedMCQA": Shape(
        lambda n: {
            "id": f"{n:032x}",
            "question": ask(n),
            **dict(
                zip(
                    ("opa", "opb", "opc", "opd"),
                    four(n) if n else ["100", "200", "200", "300"],
                    strict=True,
                )
            ),
            "cop": n * 7 % 4,
            "choice_type": "single",
            "exp": f"Ans. is 'a' i.e., {why(n)}",
            "subject_name": "Anatomy",
            "topic_name": None,
        },
        ("What did", "A. the lake 1", "D. the town 1"),
        box("D"),
        without=("Ans.",),
    ),
    "MedQA": Shape(
        lambda n: {
            "question": ask(n),
            "answer": four(n)["ABCD".index(letter(n))],
            "options": dict(zip("ABCD", four(n), strict=True)),
            "meta_info": "step1",
            "answer_idx": letter(n),
        },
        ("What did", "B. the river 0"),
        box("A"),
    ),
    "ARC": Shape(
        lambda n: {
            "id": f"Mercury_{n}",
            "question": ask(n),
            "choices": {
                "text": four(n),
                "label": ["1", "2", "3", "4"] if n % 9 == 2 else [*"ABCD"],
            },
            "answerKey": str(n * 7 % 4 + 1) if n % 9 == 2 else letter(n),
        },
        ("What did", "A. the lake 0"),
        box("A"),
    ),
    "OpenBookQA": Shape(
        lambda n: {
            "id": f"7-{n}",
            "question_stem": f"On day {n}, {name(n)} saw",
            "choices": {"text": four(n), "label": [*"ABCD"]},
            "answerKey": letter(n),
        },
        ("saw", "A. the lake 0"),
        box("A"),
    ),
    "CommonsenseQA": Shape(
        lambda n: {
            "id": f"{n:032x}",
            "question": ask(n),
            "question_concept": f"seeing {n}",
            "choices": {"label": [*"ABCD"], "text": four(n)},
            "answerKey": letter(n),
        },
        ("What did", "C. the hill 0"),
        box("A"),
    ),
    "RACE": Shape(
        lambda n: {
            "example_id": f"high{n}.txt",
            "article": f"{story(n)} Then {name(n)} went home.",
            "answer": letter(n),
            "question": ask(n),
            "options": four(n),
        },
        ("went home", "What did", "D. the town 0"),
        box("A"),
    ),
    "HellaSwag": Shape(
        lambda n: {
            "ind": n,
            "activity_label": ["Roof shingle removal", "Clean and jerk"][n % 2],
            "ctx_a": f"{name(n)} is on a roof.",
            "ctx_b": "then",
            "ctx": f"{name(n)} is on a roof. then",
            "endings": [
                f"it rains on {name(n)}.",
                f"{name(n)} sings.",
                "all ends.",
                "he goes.",
            ],
            "source_id": f"activitynet~v_{n}",
            "split": "train",
            "split_type": "indomain",
            "label": str(n * 7 % 4),
        },
        ("on a roof. then", "B. Ada sings."),
        box("A"),
        without=("activitynet",),
    ),
    "PIQA": Shape(
        lambda n: {
            "goal": f"How to open jar {n}?",
            "sol1": f"Turn lid {n}.",
            "sol2": f"Eat lid {n}.",
            "label": n * 3 % 2,
        },
        ("open jar", "A. Turn lid 0."),
        box("A"),
    ),
    "WinoGrande": Shape(
        lambda n: {
            "sentence": f"{name(n)} thanked Sue as _ had helped.",
            "option1": name(n),
            "option2": "Sue",
            "answer": str(n % 2 + 1),
        },
        ("as _ had helped", "B. Sue"),
        box("A"),
    ),
    "COPA": Shape(
        lambda n: {
            "premise": f"{name(n)} dropped the vase on day {n}.",
            "choice1": f"It broke {n}.",
            "choice2": f"It flew {n}.",
            "question": ["cause", "effect"][n % 2],
            "idx": n,
            "label": n // 2 % 2,
        },
        ("dropped the vase", "cause", "A. It broke 0."),
        box("A"),
    ),
    "Social IQa": Shape(
        lambda n: {
            "context": story(n),
            "question": f"How would {name(n)} feel?",
            "answerA": f"glad {n}",
            "answerB": f"sad {n}",
            "answerC": f"tired {n}",
            "label": str(n % 3 + 1),
        },
        ("red apples", "feel?", "C. tired 0"),
        box("A"),
    ),
    "BoolQ": Shape(
        lambda n: {
            "question": f"is {name(n)} at home on day {n}",
            "answer": n % 3 == 0,
            "passage": f"{story(n)} It is late.",
        },
        ("at home on day 0", "It is late.", "yes"),
        box("A"),
    ),
    "SciQ": Shape(
        lambda n: {
            "question": ask(n),
            **{f"distractor{k}": four(n)[k] for k in (1, 2, 3)},
            "correct_answer": four(n)[0],
            "support": why(n),
        },
        ("What did", "the lake 0", "the town 0"),
        without=("Because",),
    ),
    "GPQA": Shape(
        lambda n: {
            "Pre-Revision Question": f"What could {name(n)} see, on which day?",
            "Pre-Revision Correct Answer": f"A lake {n}",
            "Pre-Revision Explanation": why(n),
            "Question": ask(n),
            "Correct Answer": four(n)[0],
            **{f"Incorrect Answer {k}": four(n)[k] for k in (1, 2, 3)},
            "Explanation": why(n),
            "Self-reported question-writing time (minutes)": n,
            "Subdomain": "Chemistry (general)",
            "Writer's Difficulty Estimate": "Hard undergraduate level",
            "Feedback_EV_1": f"I like number {n}, it is hard.",
            "Canary String": f"BENCHMARK DATA {n} SHOULD NEVER APPEAR",
            "Record ID": f"rec{n}",
            "Extra Revised Question": None,
        },
        ("What did", "the lake 0", "the town 0"),
        without=("Because", "I like", "BENCHMARK", "could Ada"),
    ),
    "LogiQA": Shape(
        lambda n: {
            "context": story(n),
            "query": ask(n),
            "options": four(n),
            "correct_option": n * 7 % 4,
        },
        ("red apples", "What did", "A. the lake 0"),
        box("A"),
    ),
    "AGIEval": Shape(
        lambda n: {
            "passage": None,
            "question": ask(n),
            "options": [f"({a}){t}" for a, t in zip("ABCD", four(n), strict=True)],
            "label": letter(n),
            "answer": None,
            "other": None,
        },
        ("What did", "A. the lake 0"),
        box("A"),
        without=("A. (A)",),
    ),
    "AGIEval math": Shape(
        lambda n: {
            "passage": None,
            "question": ask(n),
            "options": None,
            "label": None,
            "answer": hard(n),
            "other": {"level": 5},
        },
        ("What did",),
        box(r"\frac{0}{7}"),
    ),
    "BBH dates": Shape(
        lambda n: {
            "input": f"{story(n)} Which day is it?\nOptions:\n{own('({}) {}', [f'0{k}/11/20{n:02d}' for k in range(1, 7)])}",
            "target": f"({'BBDEF'[n % 5]})",
        },
        ("Which day", "(A) 01/11/2000"),
        box("B"),
        without=("A. (B)", "A. 01"),
    ),
    "BBH seven objects": Shape(
        lambda n: {
            "input": f"{story(n)} What is it?\nOptions:\n{own('({}) {}', [f'thing {k} of {n}' for k in range(11)])}",
            "target": f"({'BCEIK'[n % 5]})",
        },
        ("(K) thing 10 of 0",),
        box("B"),
        without=("A. (B)",),
    ),
    "BBH yes or no": Shape(
        lambda n: {
            "input": f"{story(n)} Is {name(n)} glad?\nOptions:\n- Yes\n- No",
            "target": ["Yes", "No"][n * 3 % 2],
        },
        ("glad?",),
        box("B"),
    ),
    "BBH words": Shape(
        lambda n: {"input": f"Sort: pear{n} fig{n}", "target": f"fig{n} pear{n}"},
        ("Sort:",),
        box("fig0 pear0"),
    ),
    "SQuAD": Shape(
        lambda n: {
            **ids(n),
            "title": f"Title_{n}",
            "context": f"{story(n)} It is Orm{n}.",
            "question": ask(n),
            "answers": {
                "text": [f"Orm{n}", f"the Orm{n} lake"],
                "answer_start": [0, 4],
            },
        },
        ("It is Orm0.", "What did"),
        box("Orm0"),
        without=("Title_",),
    ),
    "TriviaQA": Shape(
        lambda n: {
            "question": ask(n),
            "question_id": f"tc_{n}",
            "answer": {
                "value": f"Orm{n}",
                "aliases": [f"Lake Orm{n}"],
                "normalized_aliases": [f"orm{n}"],
                "normalized_value": f"orm{n}",
                "type": "WikipediaEntity",
            },
        },
        ("What did",),
        box("Orm0"),
    ),
    "HotpotQA": Shape(
        lambda n: {
            **ids(n),
            "question": ask(n),
            "answer": f"Orm{n}",
            "type": "bridge",
            "level": "hard",
            "supporting_facts": {"title": [f"T{n}"], "sent_id": [0]},
            "context": {
                "title": [f"T{n}", f"U{n}"],
                "sentences": [[f"It is Orm{n}.", "So."], ["No."]],
            },
        },
        ("What did", "T0\nIt is Orm0. So.", "U0\nNo."),
        box("Orm0"),
        without=("bridge", "{'", "sent_id"),
    ),
    "DROP": Shape(
        lambda n: {
            "section_id": f"nfl_{n}",
            "query_id": f"{n:036x}",
            "passage": f"{story(n)} Orm{n} won.",
            "question": ask(n),
            "answers_spans": {
                "spans": [f"Orm{n}", f"Orm{n} team"],
                "types": ["span", "span"],
            },
        },
        ("won.", "What did"),
        box("Orm0"),
    ),
    "NQ-open": Shape(
        lambda n: {
            "question": f"what did {name(n)} see",
            "answer": [f"Orm{n}", f"lake Orm{n}"],
        },
        ("what did",),
        box("Orm0"),
    ),
    "PubMedQA": Shape(
        lambda n: {
            "pubid": n,
            "question": f"Does {name(n)} sleep?",
            "context": {
                "contexts": [f"We studied {n} people.", "They slept."],
                "labels": ["AIM", "RESULT"],
                "meshes": [],
                "reasoning_required_pred": ["y"],
            },
            "long_answer": why(n),
            "final_decision": ["yes", "no", "maybe"][n % 3],
        },
        ("We studied 0 people.", "sleep?"),
        box("C"),
        without=("Because", "RESULT"),
    ),
    "verl": Shape(
        lambda n: {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": f"{story(n)} How many?"}],
            "ability": "math",
            "reward_model": {"ground_truth": str(n), "style": "rule"},
            "extra_info": {"answer": why(n), "index": n, "split": "train"},
        },
        ("How many?",),
        box(0),
        kind="parquet",
    ),
    "ShareGPT": Shape(
        lambda n: {
            "conversations": [
                {"from": "human", "value": ask(n)},
                {"from": "gpt", "value": f"{why(n)} \\boxed{{{n}}}"},
            ]
        },
        ("What did",),
        box(0),
        without=("Because",),
    ),
    "Alpaca": Shape(
        lambda n: {
            "instruction": f"Name the lake of {name(n)}.",
            "input": f"Day {n} in the wood." if n % 3 else "",
            "output": f"Orm{n}",
        },
        ("Name the lake",),
        box("Orm0"),
        without=("Input: \n",),
    ),
    "xLAM": Shape(
        lambda n: {
            "id": n,
            "query": f"Weather in {name(n)}?",
            "answers": json.dumps(
                [{"name": "weather", "arguments": {"town": name(n)}}]
            ),
            "tools": json.dumps(
                [
                    {
                        "name": "weather",
                        "description": "",
                        "parameters": {"town": {"type": "str"}},
                    }
                ]
            ),
        },
        ("Weather in Ada",),
        [("weather", {"town": "Ada"})],
    ),
    "VQA": Shape(
        lambda n: {
            "question_id": n,
            "question": f"How many dogs are in picture {n}?",
            "image": {"bytes": PNG + bytes([n]), "path": None},
            "multiple_choice_answer": f"{n} dogs",
            "answers": [
                {"answer": f"{n} dogs", "answer_confidence": "yes", "answer_id": 1}
            ],
        },
        ("How many dogs", "image"),
        box("0 dogs"),
        kind="parquet",
    ),
    "DeepScaleR": Shape(
        lambda n: {
            "problem": f"Find $x_{{{n}}}$ of all.",
            "answer": hard(n),
            "solution": why(n),
        },
        ("Find $x",),
        box(r"\frac{0}{7}"),
        without=("Because",),
    ),
    "StrategyQA": Shape(
        lambda n: {
            "qid": f"q{n}",
            "term": name(n),
            "question": f"Is {name(n)} taller than house {n}?",
            "answer": n % 3 == 0,
            "facts": [why(n)],
            "decomposition": [ask(n)],
        },
        ("taller", "yes"),
        box("A"),
        without=("Because",),
    ),
    "CRUXEval": Shape(
        lambda n: {
            "code": f"def f(x):\n    return x + {n}",
            "input": f"{n}",
            "output": f"{2 * n}",
            "id": f"sample_{n}",
        },
        ("def f(x)", "Input: 0"),
        box(0),
    ),
    "ScienceQA": Shape(
        lambda n: {
            "image": None if n % 2 else {"bytes": PNG + bytes([n]), "path": None},
            "question": ask(n),
            "choices": four(n),
            "answer": n * 7 % 4,
            "hint": "",
            "task": "closed choice",
            "grade": f"grade{n % 4}",
            "subject": "natural science",
            "topic": "biology",
            "lecture": "",
            "solution": why(n),
        },
        ("What did", "A. the lake 0", "image"),
        box("A"),
        without=("Because",),
        kind="parquet",
    ),
    "WikiTableQuestions": Shape(
        lambda n: {
            **ids(n),
            "question": ask(n),
            "answers": [f"Orm{n}"],
            "table": {
                "header": ["Lake", "Depth"],
                "rows": [[f"Orm{n}", f"{n} m"], ["Um", "3 m"]],
                "name": f"csv/{n}.csv",
            },
        },
        ("Lake | Depth\nOrm0 | 0 m", "What did"),
        box("Orm0"),
    ),
    "SNLI with names": Shape(
        lambda n: {
            "premise": f"{story(n)} It is late.",
            "hypothesis": f"{name(n)} is at home.",
            "label": ["entailment", "neutral", "contradiction"][n % 3],
        },
        ("It is late.", "at home.", "A. contradiction"),
        box("B"),
    ),
    "columns that the prompt names": Shape(
        lambda n: {
            "stem": ask(n),
            **dict(zip("ABCD", four(n), strict=True)),
            "key": letter(n),
        },
        ("A. the lake 0", "D. the town 0"),
        box("A"),
        options=(
            "--prompt",
            "{stem}\nA. {A}\nB. {B}\nC. {C}\nD. {D}",
            "--grader",
            "choice",
            "--expected",
            "key",
        ),
    ),
    "ReClor": Shape(
        lambda n: {
            "context": story(n),
            "question": ask(n),
            "answers": four(n),
            "label": n * 7 % 4,
            "id_string": f"train_{n}",
        },
        ("red apples", "B. the river 0"),
        box("A"),
    ),
    "MetaMathQA": Shape(
        lambda n: {
            "query": f"{story(n)} How?",
            "original_question": f"What is y{n} here?",
            "response": f"{why(n)} The answer is: {n}",
            "type": "GSM_Rephrased",
        },
        ("How?",),
        box(0),
        without=("y0", "Because"),
    ),
    "Skywork-OR1": Shape(
        lambda n: {
            "prompt": [{"role": "user", "content": ask(n)}],
            "reward_model": {"ground_truth": json.dumps([hard(n)]), "style": "rule"},
        },
        ("What did",),
        box(r"\frac{0}{7}"),
    ),
    "HLE": Shape(
        lambda n: {
            **ids(n),
            "question": ask(n),
            "image": "" if n % 9 else "data:image/png;base64,AAAA",
            "answer": f"Orm{n}",
            "answer_type": "exactMatch",
            "rationale": why(n),
        },
        ("What did", "data:image"),
        box("Orm0"),
        without=("Because",),
    ),
    "MMMU": Shape(
        lambda n: {
            **ids(n),
            "question": f"<image 1> {ask(n)}",
            "options": str(four(n)),
            "explanation": "",
            "image_1": {"bytes": PNG + bytes([n]), "path": None},
            "image_2": None,
            "answer": letter(n),
        },
        ("What did", "A. the lake 0", "data:image"),
        box("A"),
        kind="parquet",
    ),
    "QASC": Shape(
        lambda n: {
            **ids(n),
            "question": ask(n),
            "choices": {"text": four(n), "label": [*"ABCD"]},
            "answerKey": letter(n),
            "fact1": f"a fact about {n} here",
            "combinedfact": f"it was {four(n)[0]}",
            "formatted_question": f"{ask(n)} (A) x",
        },
        ("What did", "A. the lake 0"),
        box("A"),
        without=("a fact", "it was"),
    ),
    "FinQA": Shape(
        lambda n: {
            **ids(n),
            "pre_text": [story(n)],
            "post_text": ["The end."],
            "table": [["year", "sales"], ["2001", str(n)]],
            "question": ask(n),
            "answer": f"{n}.5%",
            "program_re": f"subtract({n}, 3)",
        },
        ("red apples", "year | sales", "What did"),
        box("0.5%"),
        without=("subtract",),
    ),
    "options in the question and in a column": Shape(
        lambda n: {
            "question": f"{ask(n)}\n{own('{}. {}', four(n))}",
            "options": four(n),
            "answer": letter(n),
        },
        ("D. the town 0",),
        box("A"),
        without=("D. the town 0\n\nA. the lake 0",),
    ),
    "a CSV file with spaces in its names": Shape(
        lambda n: {
            "Question": ask(n),
            **{f"Option {a}": t for a, t in zip("ABCD", four(n), strict=True)},
            "Correct Answer": letter(n),
        },
        ("What did", "D. the town 0"),
        box("A"),
    ),
    "aliases in a column of their own": Shape(
        lambda n: {"question": ask(n), "answer": f"Orm{n}", "aliases": [f"Lake {n}"]},
        ("What did",),
        box("Orm0"),
        without=("Lake",),
    ),
    "BIG-bench": Shape(
        lambda n: {
            "input": ask(n),
            "target_scores": {text: int(i == n % 4) for i, text in enumerate(four(n))},
        },
        prompt=("A. the lake 0", "D. the town 0"),
        without=("1",),
        solution="\\boxed{A}",
    ),
    "BBQ": Shape(
        lambda n: {
            **ids(n),
            "context": story(n),
            "question": ask(n),
            "ans0": f"{name(n)}",
            "ans1": f"the friend of {name(n)}",
            "ans2": "Not known",
            "label": n % 3,
        },
        prompt=("red apples", "A. Ada", "C. Not known"),
        solution="\\boxed{A}",
    ),
    "TruthfulQA as a table": Shape(
        lambda n: {
            "Question": ask(n),
            "Best Answer": f"Orm{n} is",
            "Correct Answers": f"Orm{n} is; it is Orm{n}",
            "Incorrect Answers": f"Um{n} is; nobody {n} is",
        },
        prompt=("Um0 is\n", "nobody 0 is\n"),
        without=("; ", "it is Orm0"),
    ),
    "MuSiQue": Shape(
        lambda n: {
            **ids(n),
            "paragraphs": [
                {"paragraph_text": story(n), "is_supporting": True},
                {"paragraph_text": f"It is Orm{n}.", "is_supporting": False},
            ],
            "question": ask(n),
            "answer": f"Orm{n}",
        },
        prompt=("red apples", "It is Orm0."),
        without=("supporting", "True"),
        solution="\\boxed{Orm0}",
    ),
    "MS MARCO": Shape(
        lambda n: {
            "answers": [f"Orm{n}"],
            "passages": {
                "is_selected": [0, 71],
                "passage_text": [story(n), f"It is Orm{n}."],
            },
            "query": ask(n),
        },
        prompt=("red apples", "It is Orm0."),
        without=("71",),
        solution="\\boxed{Orm0}",
    ),
    "e-SNLI": Shape(
        lambda n: {
            "pairID": f"{n}.jpg",
            "gold_label": ["neutral", "entailment"][n % 2],
            "Sentence1": story(n),
            "Sentence2": f"{name(n)} eats.",
            "Sentence1_marked_1": f"*{name(n)}* has apples.",
        },
        prompt=("red apples", "Ada eats."),
        without=("*", "jpg"),
        solution="\\boxed{B}",
    ),
    "Belebele": Shape(
        lambda n: {
            "flores_passage": story(n),
            "question": ask(n),
            **{f"mc_answer{i}": text for i, text in enumerate(four(n), start=1)},
            "correct_answer_num": str(n % 4 + 1),
        },
        prompt=("red apples", "A. the lake 0"),
        solution="\\boxed{A}",
    ),
    "CLUTRR": Shape(
        lambda n: {
            "story": story(n),
            "query": f"('{name(n)}', 'Um{n}')",
            "clean_story": f"{name(n)} has apples.",
            "target": ["aunt", "son", "niece"][n % 3],
        },
        prompt=("red apples", "('Ada', 'Um0')", "A. aunt"),
        without=("Ada has apples",),
        solution="\\boxed{A}",
    ),
    "a column of system messages": Shape(
        lambda n: {
            "system": f"You may call f{n}.",
            "conversations": [
                {"from": "user", "value": ask(n)},
                {"from": "assistant", "value": f"[f{n}(x=1)]"},
            ],
        },
        prompt=("You may call f0.",),
        solution="\\boxed{[f0(x=1)]}",
    ),
    # ------------------------------------------------------------ what is asked
    "ZebraLogic's grids": Shape(
        lambda n: {
            "puzzle": story(n),
            "solution": {"header": ["House"], "rows": [[n]]},
        },
        asks="solution has objects with header, rows, and no question says so",
    ),
    "FinQA as its authors wrote it": Shape(
        lambda n: {
            "pre_text": [story(n)],
            "filename": f"a/{n}.pdf",
            "qa": {"question": ask(n), "answer": f"{n}%"},
        },
        asks="qa is an object with question, answer: write these as columns",
    ),
    "GSM-Hard": Shape(
        lambda n: {
            "input": story(n),
            "code": f"def solution():\n    return {n} + 2",
            "target": n + 2.0,
        },
        asks="whether code belongs to the prompt is not clear: it may be the solution",
    ),
    "TheoremQA": Shape(
        lambda n: {"Question": ask(n), "Answer": [n, n + 1] if n % 5 == 4 else n / 7},
        asks="Answer has answers of several kinds, such as '0.0' and '4, 5'",
    ),
    "mathematics and code": Shape(
        lambda n: {
            "prompt": [{"role": "user", "content": ask(n)}],
            "reward_model": {
                "ground_truth": str(n) if n % 3 else json.dumps({"inputs": [n]})
            },
        },
        asks="reward_model has answers of several kinds, such as '1' and '{\"inputs\"",
    ),
    "LAMBADA": Shape(
        lambda n: {"text": story(n), "domain": "None"},
        asks="which column is the expected answer is not clear",
    ),
    "GAIA": Shape(
        lambda n: {
            "Question": ask(n),
            "Final answer": f"Orm{n}",
            "file_name": f"{n}.xlsx" if n % 4 == 0 else "",
        },
        asks="file_name names a file for 10 of 40 questions, such as '0.xlsx'",
    ),
    "KodCode": Shape(
        lambda n: {"question": story(n), "solution": f"def f(x):\n    return {n}"},
        asks="its answers are programs, and how their tests run is not known",
    ),
    "Sudoku": Shape(
        lambda n: {"question": f"{n + 11}..3..58.4", "answer": f"{n + 11}123456789"},
        asks="do not say what to do: say it with --prompt 'Solve ...: {question}'",
    ),
    "summaries": Shape(
        lambda n: {"article": f"{why(n)} {why(n)}", "highlights": story(n)},
        asks="which column is the prompt is not clear",
    ),
    "UltraFeedback": Shape(
        lambda n: {"prompt": ask(n), "chosen": f"Orm{n}", "rejected": "Um"},
        asks="chosen and rejected are preferences",
    ),
    "calls in tags": Shape(
        lambda n: {
            "conversations": [
                {"from": "human", "value": ask(n)},
                {"from": "gpt", "value": f"<tool_call>{n}</tool_call>"},
            ],
            "tools": json.dumps([{"name": "f", "parameters": {}}]),
            "category": "IoT",
        },
        asks="conversations does not have calls with `name` and `arguments`",
    ),
    "CoQA": Shape(
        lambda n: {
            "source": "wikipedia",
            "story": story(n),
            "questions": [ask(n)],
            "answers": {"input_text": [name(n)], "answer_start": [1]},
        },
        asks="which column is the prompt is not clear",
    ),
    "SQL": Shape(
        lambda n: {
            "question": ask(n),
            "context": f"CREATE TABLE t{n}",
            "answer": f"SELECT * FROM t{n}",
        },
        asks="its answers are programs",
    ),
    "LegalBench": Shape(
        lambda n: {"text": story(n), "answer": ["Yes", "No"][n % 2]},
        asks="answer is yes or no, and no column asks the question",
    ),
    "a claim, its facts and its rules": Shape(
        lambda n: {
            "facts": [story(n), f"{name(n)} eats."],
            "rules": [f"Who eats {n} apples is ill."],
            "statement": f"{name(n)} is ill.",
            "label": ["true", "false"][n % 2],
        },
        asks="whether facts belongs to the prompt is not clear",
    ),
    "STS-B": Shape(
        lambda n: {"sentence1": story(n), "sentence2": ask(n), "label": n / 10},
        asks="label is a number, and no column asks the question",
    ),
    "JudgeBench": Shape(
        lambda n: {
            "question": ask(n),
            "response_A": story(n),
            "response_B": f"It is Orm{n}.",
            "label": ["A>B", "B>A"][n % 2],
        },
        asks="whether response_A and response_B belong to the prompt is not clear",
    ),
    "bytes as Python writes them": Shape(
        lambda n: {"question": ask(n), "answer": f"b'{n}\\n'"},
        asks="answer has bytes as Python writes them, such as b'0",
    ),
    "a prompt and its chat": Shape(
        lambda n: {
            "prompt": ask(n),
            "messages": [
                {"role": "user", "content": ask(n)},
                {"role": "assistant", "content": why(n)},
            ],
        },
        asks="which column is the expected answer is not clear",
    ),
    "AmbigQA": Shape(
        lambda n: {"question": ask(n), "annotations": {"answer": [[f"Orm{n}"]]}},
        asks="annotations has lists of lists, and no question says so",
    ),
    "CodeContests": Shape(
        lambda n: {
            "description": story(n),
            "public_tests": {"input": ["1"], "output": [f"{n}"]},
        },
        asks="its answers are programs",
    ),
    "SNLI with numbers": Shape(
        lambda n: {
            "premise": f"{story(n)} It is late.",
            "hypothesis": f"{name(n)} is at home.",
            "label": n % 3,
        },
        asks="label is one of 0, 1, 2, and nothing says what they mean",
    ),
    "sentiment with numbers": Shape(
        lambda n: {"text": f"{story(n)} I like it.", "label": n % 2},
        asks="label is one of 0, 1, and nothing says what they mean",
    ),
    "an index that is never 0 or 4": Shape(
        lambda n: {"question": ask(n), "choices": four(n), "answer": n % 3 + 1},
        asks="--expected 'answer from 0'",
    ),
    "two golds": Shape(
        lambda n: {"question": ask(n), "answer": f"Orm{n}", "target": f"Um{n + 1}"},
        asks="two columns could be the expected answer: answer, such as 'Orm0', and target",
    ),
    "letters without options": Shape(
        lambda n: {"question": ask(n), "answer": letter(n)},
        asks="neither a column nor the prompt has the options",
    ),
    "an index without options": Shape(
        lambda n: {"question": ask(n), "cop": n % 4},
        asks="no column has the options",
    ),
    "a passage or an explanation": Shape(
        lambda n: {
            "question": ask(n),
            "lecture": f"{name(n)} went out and saw Orm{n}.",
            "answer": f"Orm{n}",
        },
        asks="whether lecture belongs to the prompt is not clear",
    ),
    "HumanEval": Shape(
        lambda n: {
            "task_id": f"HumanEval/{n}",
            "prompt": f"def f{n}(x):\n",
            "canonical_solution": "    return x",
            "test": "def check(f): pass",
            "entry_point": f"f{n}",
        },
        asks="archetype=sandbox",
    ),
    "MBPP": Shape(
        lambda n: {
            "task_id": n,
            "text": f"Write f{n}.",
            "code": "def f(): 1",
            "test_list": ["assert f()"],
        },
        asks="archetype=sandbox",
    ),
    "Countdown": Shape(
        lambda n: {"nums": [3, 4, n], "target": n + 25},
        asks="a grade of its own",
    ),
    "Countdown in words": Shape(
        lambda n: {
            "question": f"Make {n + 25} of the numbers 3, 4 and {n}.",
            "target": n + 25,
        },
        asks="a grade of its own",
    ),
    "IFEval": Shape(
        lambda n: {
            "key": n,
            "prompt": f"Write about {name(n)} without commas.",
            "instruction_id_list": ["punctuation:no_comma"],
            "kwargs": [{}],
        },
        asks="a grade of its own",
    ),
    "VQA with file names": Shape(
        lambda n: {
            "question": f"How many dogs are in {n}?",
            "image": f"images/{n}.jpg",
            "answer": f"{n}",
        },
        asks="the column 'image' names images",
    ),
    "long answers": Shape(
        lambda n: {"question": ask(n), "answer": f"{why(n)} {why(n)}"},
        asks="how to compare the answers is not clear",
    ),
    "prompts that repeat": Shape(
        lambda n: {
            "question_id": n,
            "turns": [n],
            "task": ["olympiad", "AMPS"][n % 2],
            "ground_truth": f"Orm{n}",
        },
        asks="20 of 40 prompts are 'olympiad",
    ),
    "stars": Shape(
        lambda n: {"review": story(n), "stars": n % 5 + 1},
        asks="stars is one of 1, 2, 3, 4, 5, and nothing says what they mean",
    ),
    "RLVR-IFEval": Shape(
        lambda n: {
            "prompt": ask(n),
            "ground_truth": json.dumps({"func_name": "x", "N": n}),
            "constraint_type": "x",
        },
        asks="a grade of its own",
    ),
    "BFCL": Shape(
        lambda n: {
            "question": ask(n),
            "function": [{"name": "f", "parameters": {}}],
            "ground_truth": [{"f": {"x": [n]}}],
        },
        asks="does not have calls with `name` and `arguments`",
    ),
    "ARC as its authors wrote it": Shape(
        lambda n: {
            **ids(n),
            "question": {"stem": ask(n), "choices": [{"text": "x", "label": "A"}]},
            "answerKey": "A",
        },
        asks="question is an object with stem, choices",
    ),
    "WiC": Shape(
        lambda n: {
            "word": f"wor{n}",
            "sentence1": f"The wor{n} is here.",
            "sentence2": f"A wor{n} is not there.",
            "label": n % 2 == 0,
        },
        asks="no column asks the question",
    ),
    "Banking77 with numbers": Shape(
        lambda n: {"text": f"{story(n)} Help me.", "label": n % 20},
        asks="and nothing says what they mean",
    ),
    "AMC with letters in the box": Shape(
        lambda n: {
            "problem": f"{story(n)} $\\textbf{{(A)}} {n} \\textbf{{(B)}} 9$",
            "solution": f"So $\\boxed{{\\textbf{{(B) }}{n}}}$.",
        },
        asks="has a letter and an option",
    ),
    "a passage without a question": Shape(
        lambda n: {"context": story(n), "answer": f"Orm{n}"},
        asks="which column is the prompt is not clear",
    ),
}
