"""Kinds of data sets that look right and are not: each is read rightly, or asked about.

The values are invented; the kinds are those of files that people have.
"""

import csv
import json
import re
import runpy
import shlex
import time
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet
import pytest
from env_runtime.checks.written import check_written
from env_runtime.errors import GateError
from env_runtime.graders import Text
from env_runtime.rows import asking, read
from env_runtime.rows.fields import lettered, parsed

from .test_dataset_projects import written

__all__ = ["written"]


class Right(NamedTuple):
    """A data set that is read rightly: what is printed, and what earns in which record."""

    records: Any  # a list of objects, or the text of a file
    said: tuple[str, ...] = ()
    earns: tuple[tuple[int, str], ...] = ()
    nothing: tuple[tuple[int, str], ...] = ()
    unsaid: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    kind: str = "jsonl"


class Asked(NamedTuple):
    """A data set that is asked about, and how many commands are proposed."""

    records: Any
    asks: str
    commands: int = 0
    options: tuple[str, ...] = ()
    kind: str = "jsonl"


def rows(count, **columns):
    return [{name: of(n) for name, of in columns.items()} for n in range(count)]


def ask(n):
    return f"What stands on shelf {n}?"


def table(delimiter, *lines):
    return "\n".join(delimiter.join(line) for line in lines) + "\n"


JUGS = "The cellar holds nine jugs of oil and a crate of salt beside the stairs."
BARN = "A barn owl sleeps on the third beam and wakes when the miller rings."
LETTERED = "Which fits? A. jar {n}  B. pot {n}  C. mug {n}"
SPELLED = rows(
    6,
    question=ask,
    answer_0=lambda n: f"ash {n}",
    answer_1=lambda n: "" if n == 3 else f"elm {n}",
)
RIGHT = {
    "numbers with units beside names": Right(
        rows(
            10,
            question=ask,
            answer=lambda n: "Olga" if n == 3 else f"{n + 2} (jars)",
        ),
        earns=((0, "2"), (0, "2 jars"), (0, "2 (jars)"), (3, "olga")),
        nothing=((0, "3"), (0, "2 km"), (3, "5")),
    ),
    "a number and a unit in each": Right(
        rows(6, question=ask, answer=lambda n: f"{n + 2} nails"),
        earns=((1, "3"), (1, "3 nails")),
        nothing=((1, "2"),),
    ),
    "formulas with spaces and dollars": Right(
        rows(6, question=ask, answer=lambda n: f"${n + 2} p-{n + 3} q^{{2}}$"),
        earns=((0, "2p-3q^2"), (0, "2 p - 3 q^{2}"), (0, "$2p - 3q^2$")),
        nothing=((0, "2p-3q"),),
    ),
    "brackets around each answer": Right(
        rows(8, question=ask, answer=lambda n: f"[jug {n}, pot]"),
        ("each has brackets around it",),
        earns=((1, "jug 1, pot"), (1, "[jug 1, pot]")),
        nothing=((1, "jug 2, pot"),),
    ),
    "names with an addition in brackets": Right(
        rows(
            20,
            question=ask,
            answer=lambda n: (
                f"Lake {chr(65 + n)}o" + {3: " [Dor Lake]", 7: " (Old Mere)"}.get(n, "")
            ),
        ),
        ("2 of 20 have an addition in brackets, which may be left out",),
        ((3, "Lake Do"), (3, "Lake Do [Dor Lake]"), (7, "Lake Ho"), (0, "Lake Ao")),
        ((3, "Dor Lake"), (3, "Lake Ho")),
    ),
    "additions in brackets that tell two answers apart": Right(
        rows(
            20,
            question=ask,
            answer=lambda n: (
                f"Lake {'ab'[n % 2]} ({'east' if n > 9 else 'west'} {chr(97 + n)}x)"
            ),
        ),
        (),
        ((3, "Lake b (west dx)"),),
        ((3, "Lake b"),),
    ),
    "options of a type": Right(
        rows(
            6,
            question=ask,
            choices=lambda n: [
                {"text": f"jug {n}", "type": "Distractor"},
                {"text": f"mug {n}", "type": "Correct answer"},
            ],
        ),
        ("options: choices",),
        earns=((0, "B"),),
        nothing=((0, "A"),),
    ),
    "options in lists of one": Right(
        rows(
            6,
            question=ask,
            answer_option_list=lambda n: [
                [{"aoVal": "A", "content": f"jug {n}"}],
                [{"aoVal": "B", "content": f"mug {n}"}],
            ],
            answer=lambda n: "AB"[n % 2],
        ),
        ("options: answer_option_list",),
        earns=((0, "A"), (1, "B")),
        nothing=((0, "B"),),
    ),
    "an answer with its options": Right(
        rows(
            6,
            question=ask,
            answer=lambda n: {
                "options": [f"jug {n}", f"mug {n}"],
                "correct": f"mug {n}",
            },
        ),
        ("options: options",),
        earns=((0, "B"),),
        nothing=((0, "A"),),
    ),
    "wrong answers beside the correct one": Right(
        rows(
            6,
            question=ask,
            correct=lambda n: f"jug {n}",
            incorrect=lambda n: [f"mug {n}", f"pot {n}"],
        ),
        ("options: correct, incorrect",),
        earns=((0, "jug 0"),),
        nothing=((0, "mug 0"),),
    ),
    "options that the input lists": Right(
        rows(
            6,
            question=lambda n: f"Choose what fits shelf {n}.",
            input=lambda n: f"A: jug {n}\nB: mug {n}",
            answer=lambda n: "AB"[n % 2],
        ),
        ("grader: choice",),
        earns=((0, "A"), (1, "B")),
        nothing=((0, "B"),),
    ),
    "names of pages, and titles in marks": Right(
        rows(
            6,
            question=ask,
            answer=lambda n: (
                ["Brown_owl", "《脾胃论》"][n % 2] + "ab"[n // 2 % 2] * (n > 1)
            ),
        ),
        earns=((0, "Brown owl"), (0, "Brown_owl"), (1, "脾胃论")),
        nothing=((0, "Brownowl"),),
    ),
    "one of several in an answer": Right(
        rows(9, question=ask, answer=lambda n: f"jug {n} or pot {n}"),
        earns=((0, "pot 0"), (0, "jug 0")),
        nothing=((0, "jug 1"),),
        options=("--grader", "any"),
    ),
    "ids of options": Right(
        rows(
            9,
            question=ask,
            options=lambda n: [
                {"id": f"a{n}", "text": f"jug {n}"},
                {"id": f"b{n}", "text": f"pot {n}"},
            ],
            correctAnswerId=lambda n: f"{'ab'[n % 2]}{n}",
        ),
        ("an answer is the label of an option",),
        earns=((0, "A"), (1, "B")),
        nothing=((0, "B"),),
    ),
    "one letter for each column": Right(
        rows(9, q=ask, o=lambda n: [f"jug {n}", f"pot {n}"], c=lambda n: n % 2),
        ("options: o; an answer is the number of an option, from 0",),
        earns=((0, "A"), (1, "B")),
        nothing=((0, "B"),),
    ),
    "one of the numbers in the question": Right(
        rows(
            9,
            question=lambda n: f"{n}.5 or {n}.25, which one is bigger?",
            answer=lambda n: n + 0.5,
        ),
        ("grader: number",),
        earns=((1, "1.5"),),
        nothing=((1, "1.25"),),
    ),
    "brackets around a number in a list": Right(
        rows(8, question=ask, answer=lambda n: [f"[{n + 0.25}]"]),
        earns=((1, "1.25"), (1, "[1.25]")),
        nothing=((1, "2"),),
    ),
    "the word answer before each answer": Right(
        rows(8, question=ask, answer=lambda n: [f"A: jug {n}", f"A: the jug {n}"]),
        ("each has answer: before it",),
        earns=((1, "jug 1"), (1, "the jug 1")),
        nothing=((1, "jug 2"),),
    ),
    "letters that the messages explain": Right(
        rows(
            12,
            input=lambda n: [
                {"role": "system", "content": "Answer Y or N."},
                {"role": "user", "content": f"Does jug {n} stand here?"},
            ],
            ideal=lambda n: "NY"[n % 2],
        ),
        ("A. N", "B. Y"),
        earns=((0, "N"), (1, "Y"), (1, "B")),
        nothing=((0, "Y"),),
    ),
    "comments before the names of the columns": Right(
        "# version=1.2, made by hand\n# for tests\n"
        + table(",", ("question", "answer"), *((ask(n), f"jug {n}") for n in range(6))),
        ("looked at 6 questions", "line 4):"),
        earns=((0, "jug 0"),),
        kind="csv",
    ),
    "a title before the names of the columns": Right(
        '"Please, do not share",,\n,,\n'
        + table(
            ",",
            ("id", "question", "answer"),
            *((f"q{n}", ask(n), f"jug {n}") for n in range(6)),
        ),
        ("looked at 6 questions", "line 4):"),
        earns=((0, "jug 0"),),
        kind="csv",
    ),
    "a name with # of the first column": Right(
        table("\t", ("#question", "answer"), *((ask(n), f"jug {n}") for n in range(6))),
        ("looked at 6 questions",),
        kind="tsv",
        options=("--prompt", "{#question}"),
    ),
    "spellings of one answer in a list": Right(
        rows(6, question=ask, answer=lambda n: [f"the jug {n}", f"jug {n}"]),
        ("grader: text",),
        earns=((1, "jug 1"),),
    ),
    "answers of several people, one of them a number": Right(
        rows(
            24,
            question=ask,
            answers=lambda n: [f"old jug {n}", f"jug {n}", 7 if n == 5 else f"jug {n}"],
        ),
        ("grader: text",),
        earns=((1, "jug 1"), (5, "jug 5")),
    ),
    "all of a list": Right(
        rows(6, question=ask, answer=lambda n: [f"ash {n}", f"elm {n}"]),
        ("grader: all",),
        earns=((0, "elm 0, ash 0"), (0, "ash 0 and elm 0")),
        nothing=((0, "ash 0"), (0, "ash 0, elm 0, oak 0")),
        options=("--grader", "all"),
    ),
    "all letters that are right": Right(
        rows(
            6,
            question=ask,
            options=lambda n: [f"jug {n}", f"mug {n}", f"pot {n}"],
            label=lambda n: ["A", "C"] if n else ["B"],
        ),
        ("A. jug 0",),
        earns=((1, "A, C"), (1, "AC"), (1, "pot 1; jug 1"), (0, "B")),
        nothing=((1, "A"), (1, "ABC")),
        options=("--grader", "all"),
    ),
    "an answer for each blank": Right(
        rows(4, question=ask, answer=lambda n: ["B", "A", "B"]),
        earns=((0, "B, A, B"),),
        nothing=((0, "B"), (0, "A, B, B")),
        options=("--grader", "ordered"),
    ),
    "words in camelCase": Right(
        rows(
            6,
            question=ask,
            goldReasoning=lambda n: f"There stands {n} of what was there.",
            lEquations=lambda n: f"x = {n} + 1",
            answer=lambda n: n + 1,
        ),
        ("about the answer: goldReasoning, lEquations",),
        unsaid=("| x = 0",),
    ),
    "a text that several questions share": Right(
        rows(
            16,
            notes=lambda n: [JUGS, BARN, f"{JUGS} {BARN}", f"{BARN} {JUGS}"][n // 4],
            question=ask,
            answer=lambda n: f"thing {n}",
        ),
        ("Notes: {notes}",),
    ),
    "an answer that there is none, which the prompt asks for": Right(
        rows(
            24,
            question=lambda n: f"{ask(n)} If unknown, reply 'unanswerable'.",
            answer=lambda n: "unanswerable" if n % 3 == 0 else f"jug {n}",
        ),
        earns=((0, "unanswerable"), (1, "jug 1")),
    ),
    "options in some of the prompts": Right(
        rows(
            6,
            question=lambda n: LETTERED.format(n=n) if n % 2 else ask(n),
            answer=lambda n: f"pot {n}",
        ),
        ("3 questions list options",),
        earns=((1, "B"), (1, "pot 1"), (0, "pot 0")),
        nothing=((1, "A"), (0, "B")),
    ),
    "few numbers with units": Right(
        rows(30, question=ask, answer=lambda n: f"{n % 3 + 1} jugs"),
        ("grader: text",),
        earns=((0, "1"), (1, "2 jugs")),
        nothing=((0, "2"),),
    ),
    "quotes in a file with tabs": Right(
        table(
            "\t",
            ("question", "answer"),
            ("Who?", '"the cook'),
            ("What?", "oil"),
            ("Whose?", 'the cook"'),
            ('"Halt", said who?', "Bo"),
        ),
        ("looked at 4 questions",),
        earns=((1, "oil"), (3, "Bo")),
        kind="tsv",
    ),
    "tabs and quotes as CSV writes them": Right(
        'question\tanswer\n"Who said ""hi""?"\tBo\n"One\ttwo\nthree?"\tcat\n',
        ('Who said "hi"?', "looked at 2 questions"),
        earns=((1, "cat"),),
        kind="tsv",
    ),
    "lists as numpy prints them": Right(
        table(
            ",",
            ("question", "options", "answer"),
            *((ask(n), f"\"['jug {n}' 'mug {n}']\"", f"mug {n}") for n in range(6)),
        ),
        ("A. jug 0", "B. mug 0"),
        earns=((0, "B"), (0, "mug 0")),
        kind="csv",
    ),
    "objects as pandas prints them": Right(
        table(
            ",",
            ("question", "choices", "answerKey"),
            *(
                (
                    ask(n),
                    f"\"{{'text': array(['jug {n}', 'mug {n}'], dtype=object)}}\"",
                    "AB"[n % 2],
                )
                for n in range(6)
            ),
        ),
        ("A. jug 0", "B. mug 0"),
        earns=((0, "A"),),
        kind="csv",
    ),
    "dates with the time of pandas": Right(
        rows(6, question=ask, answer=lambda n: f"2021-03-0{n + 1} 00:00:00"),
        earns=((0, "2021-03-01"),),
    ),
    "one wrong answer without a semicolon": Right(
        table(
            ",",
            ("Question", "Best Answer", "Incorrect Answers"),
            *(
                (ask(n), f"jug {n}", f"mug {n}" if n == 2 else f"mug {n}; pot {n}")
                for n in range(5)
            ),
        ),
        ("mug 0", "pot 0"),
        earns=((2, "jug 2"),),
        nothing=((2, "mug 2"),),
        kind="csv",
    ),
    "options that the prompt names": Right(
        rows(
            4,
            claim=ask,
            left=lambda n: f"It is jug {n}.",
            right=lambda n: f"No, mug {n}.",
            correct_choice=lambda n: "ab"[n % 2],
        ),
        earns=((0, "A"), (1, "B"), (1, "No, mug 1.")),
        nothing=((0, "B"),),
        options=(
            "--prompt",
            "{claim} A. {left} B. {right}",
            "--grader",
            "choice",
        ),
    ),
    "spellings in columns of their own": Right(
        rows(
            5,
            question=ask,
            answer_0=lambda n: f"jug {n}",
            answer_1=lambda n: f"the {n}",
        ),
        ("grader: text",),
        earns=((0, "jug 0"),),
        options=("--expected", "answer_0"),
    ),
    "answers sorted by their value": Right(
        rows(
            1300,
            question=lambda n: f"Is shelf {n} full?",
            answer=lambda n: "False" if n > 1050 else "True",
        ),
        ("grader: choice", "1051 of 1300 answers are 'True'"),
        earns=((0, "True"), (1299, "False")),
    ),
    "a list of options in the prompt, without letters": Right(
        rows(
            20,
            input=lambda n: f"{ask(n)} Is it a jug?\nOptions:\n- Yes\n- No",
            target=lambda n: ["Yes", "No"][n % 2],
        ),
        earns=((0, "Yes"), (1, "No")),
        unsaid=("A. No",),
    ),
    "numbers among options that are numbers, as text": Right(
        rows(
            6,
            question=ask,
            options=lambda n: ["3", "0", "2", "1"],
            answer=lambda n: str(n % 4),
        ),
        earns=((0, "B"), (3, "3"), (3, "A")),
        nothing=((3, "D"),),
    ),
    "answers in several columns": Right(
        SPELLED,
        ("grader: any",),
        earns=((1, "ash 1"), (1, "elm 1"), (3, "ash 3")),
        nothing=((1, "ash 2"),),
        options=("--expected", "answer_*", "--grader", "any"),
    ),
    "all answers of several columns": Right(
        SPELLED,
        ("grader: all",),
        earns=((1, "ash 1, elm 1"), (3, "ash 3")),
        nothing=((1, "ash 1"), (3, "")),
        options=("--expected", "answer_*", "--grader", "all"),
    ),
    "names of images beside few that are none": Right(
        rows(
            8,
            question=ask,
            file=lambda n: "map.png" if n == 0 else f"part {n} of a list",
            answer=lambda n: f"jug {n}",
        ),
        earns=((1, "jug 1"),),
        options=("--prompt", "{question}"),
    ),
    "a reference answer beside the answers of models": Right(
        rows(
            6,
            question=ask,
            prompt=ask,
            reference_answer=lambda n: f"jug {n}",
            small_response=lambda n: f"pot {n}",
        ),
        earns=((1, "jug 1"),),
        nothing=((1, "pot 1"),),
    ),
    "names of difficulties": Right(
        rows(
            12,
            question=ask,
            level=lambda n: ["Easy", "hard"][n % 2],
            answer=lambda n: f"jug {n}",
        ),
        ("difficulty: level",),
        earns=((1, "jug 1"),),
    ),
    "a question within an object, with its options": Right(
        rows(
            6,
            question=lambda n: {
                "stem": ask(n),
                "choices": [
                    {"label": "A", "text": f"jug {n}"},
                    {"label": "B", "text": f"mug {n}"},
                ],
            },
            answerKey=lambda n: "AB"[n % 2],
        ),
        ("A. jug 0", "What stands on shelf 0?"),
        earns=((0, "A"), (1, "mug 1")),
    ),
    "numbers as words": Right(
        rows(
            6,
            question=ask,
            answer=lambda n: ["Seven", "31", "forty-two", "a jug", "0", "Three jugs"][
                n
            ],
        ),
        (),
        ((0, "7"), (0, "seven"), (1, "thirty-one"), (2, "42"), (4, "zero")),
        ((0, "8"), (1, "thirty"), (3, "1"), (2, "forty")),
    ),
    "the number, the date or the names of DROP": Right(
        [
            {
                "passage": JUGS,
                "pairs": [
                    {"question": ask(n), "answer": answer}
                    for n, answer in enumerate(some)
                ],
            }
            for some in [
                [
                    {"number": "35", "date": {"day": "", "year": ""}, "spans": []},
                    {"number": "", "date": {"day": "", "year": ""}, "spans": ["oil"]},
                ],
                [
                    {"number": "", "date": {"day": "4", "year": "1840"}, "spans": []},
                    {"number": "0", "date": {"day": "", "year": ""}, "spans": []},
                ],
            ]
        ],
        (),
        ((0, "35"), (1, "oil"), (2, "4 1840"), (3, "0")),
        ((0, "oil"), (1, "35")),
        ("without answer",),
    ),
    "options that say whether they are right": Right(
        rows(
            6,
            question=ask,
            answers=lambda n: [
                {"answer": f"{name} {n}", "correct": place == n % 3}
                for place, name in enumerate(["jug", "pot", "mug"])
            ],
        ),
        ("A. jug 0", "C. mug 0"),
        ((0, "A"), (1, "pot 1"), (2, "C")),
        ((0, "B"), (1, "jug 1"), (1, "A, B")),
    ),
    "one of many with two right options": Right(
        rows(
            30,
            input=ask,
            target_scores=lambda n: {f"jug {n}": 1, "pot": int(n == 4), "mug": 0},
        ),
        ("1 of 30 left out, that do not fit", "does not take ['jug 4', 'pot']"),
        ((0, "A"), (1, "jug 1")),
        ((0, "B"),),
    ),
    "a number of an option in the question": Right(
        rows(
            5,
            question=lambda n: f"Jug {n} is (A) full (B) empty",
            answer_index=lambda n: n % 2,
        ),
        ("the number of an option, from 0",),
        ((0, "A"), (1, "B"), (1, "empty")),
        ((0, "B"), (0, "0")),
    ),
    "options of those records that ask": Right(
        [
            {"title": "The cellar", "story": JUGS},
            {"title": "The barn", "story": BARN},
            {"title": "The mill", "story": JUGS},
            *rows(
                2,
                title=lambda n: f"Shelf {n}",
                story=lambda n: BARN,
                prompt=ask,
                choices=lambda n: ["650", "435", "70"],
                answer=lambda n: ["650", "70"][n],
            ),
        ],
        ("A. 650", "C. 70"),
        ((3, "A"), (4, "C"), (4, "70")),
        ((3, "B"),),
    ),
    **{
        f"options called {name}": Right(
            rows(
                6,
                question=ask,
                correct_answer=lambda n: ["jug", "pot", "mug"][n % 3],
                **{name: lambda n: ["jug", "pot", "mug"]},
            ),
            ("A. jug", "grader: choice"),
            ((0, "A"), (1, "pot"), (2, "C")),
            ((0, "B"), (1, "jug")),
        )
        for name in ("answer_options", "answers", "alternatives", "responses")
    },
    "numbers of two types, of two kinds of questions": Right(
        [
            *rows(
                3,
                type=lambda n: "shelf",
                question=ask,
                hint=lambda n: "look up",
                answer=lambda n: n + 0.5,
            ),
            *rows(
                3,
                type=lambda n: "floor",
                question=lambda n: ask(n + 10),
                answer=lambda n: n + 7,
            ),
        ],
        ("grader: number",),
        ((0, "0.5"), (3, "7")),
        ((0, "1"),),
    ),
    "the option as the list has it": Right(
        rows(
            4,
            question=ask,
            options=lambda n: [{"text": t, "why": t} for t in ("jug", "pot", "mug")],
            correct_answer=lambda n: {"text": ["jug", "mug"][n % 2], "why": "it is"},
        ),
        ("C. mug",),
        ((0, "A"), (1, "mug")),
        ((0, "C"),),
    ),
    "the column expected, beside an object with a target": Right(
        rows(
            4,
            prompt=ask,
            grader=lambda n: {"type": "lint", "target": f"10.1.0.{n}"},
            expected=lambda n: f"ping -c 5 10.1.0.{n}",
        ),
        ("expected: expected (a column of that name)",),
        ((1, "ping -c 5 10.1.0.1"),),
        ((1, "10.1.0.1"),),
    ),
    "records by their ids, in an object": Right(
        json.dumps(
            {
                "name": "cellar",
                "data": {
                    f"k{n}": {"question": ask(n), "answer": f"jug {n}"}
                    for n in range(4)
                },
            }
        ),
        ("looked at 4 questions",),
        ((1, "jug 1"),),
        kind="json",
    ),
    "lists by chapter, of the same fields": Right(
        json.dumps(
            {
                "1 The cellar": rows(2, question=ask, answer=lambda n: f"jug {n}"),
                "2 The barn": rows(2, question=ask, answer=lambda n: f"owl {n}"),
            }
        ),
        ("looked at 4 questions", "1 The cellar, item 1"),
        ((1, "jug 1"), (2, "owl 0")),
        kind="json",
    ),
    "lists by chapter, in an object": Right(
        json.dumps(
            {
                "version": "1",
                "chapters": {
                    "cellar": rows(2, question=ask, answer=lambda n: f"jug {n}"),
                    "barn": rows(2, question=ask, answer=lambda n: f"owl {n}"),
                },
            }
        ),
        ("looked at 4 questions",),
        ((1, "jug 1"), (2, "owl 0")),
        kind="json",
    ),
    "a list of questions beside another one": Right(
        json.dumps(
            {
                "topics": [{"id": "t1", "label": "The cellar"}],
                "questions": rows(3, question=ask, answer=lambda n: f"jug {n}"),
            }
        ),
        ("looked at 3 questions", "questions, item 1"),
        ((1, "jug 1"),),
        kind="json",
    ),
    "a line with a list of records": Right(
        json.dumps(rows(4, question=ask, answer=lambda n: f"jug {n}")) + "\n",
        ("looked at 4 questions", "line 1, item 1"),
        ((3, "jug 3"),),
    ),
    "content in parts with a value": Right(
        rows(
            4,
            messages=lambda n: [
                {"role": role, "content": [{"type": "text", "value": text}]}
                for role, text in [("user", ask(n)), ("assistant", f"{n + 7}")]
            ],
        ),
        ("What stands on shelf 0?\n  | \n  | End with",),
        ((1, "8"),),
        ((1, "7"),),
    ),
    "the answer of a system beside the expected one": Right(
        rows(
            6,
            user_input=ask,
            question=ask,
            response=lambda n: f"I would say that it is jug {n + 1}, but am not sure.",
            reference=lambda n: f"jug {n}",
        ),
        ("expected: reference",),
        earns=((1, "jug 1"),),
        nothing=((1, "jug 2"),),
    ),
    "a gold that only its name tells": Right(
        rows(
            6,
            question=ask,
            category=lambda n: ["trees", "pots"][n % 2],
            gold_de=lambda n: f"Krug {n}",
        ),
        ("expected: gold_de",),
        earns=((1, "Krug 1"),),
        nothing=((1, "pots"),),
    ),
    "a key beside options that are called answers": Right(
        rows(
            8,
            question=ask,
            answers=lambda n: [f"jug {n}", f"pot {n}", f"mug {n}"],
            key=lambda n: n % 3,
        ),
        ("options: answers; an answer is the number of an option, from 0",),
        earns=((1, "B"), (1, "pot 1")),
        nothing=((1, "A"), (1, "mug 1")),
    ),
    "names of columns in other languages": Right(
        rows(
            8,
            testo=ask,
            opzioni=lambda n: [f"jug {n}", f"pot {n}", f"mug {n}"],
            risposta_corretta=lambda n: n % 3,
            spiegazione=lambda n: f"For it is {['jug', 'pot', 'mug'][n % 3]} {n}.",
        ),
        ("prompt: '{testo}'", "options: opzioni; an answer is the number"),
        earns=((1, "B"),),
        nothing=((1, "A"),),
    ),
    "a flag at the right option alone": Right(
        rows(
            6,
            text=ask,
            choices=lambda n: [
                {"text": f"{name} {n}"} | ({"correct": True} if k == n % 3 else {})
                for k, name in enumerate(["jug", "pot", "mug"])
            ],
        ),
        earns=((1, "B"), (1, "pot 1")),
        nothing=((1, "A"),),
    ),
    "a list of one letter, and wide marks of options": Right(
        rows(
            6,
            question=lambda n: f"Which fits? A．jug {n}  B．pot {n}  C．mug {n}",
            answer=lambda n: ["ABC"[n % 3]],
        ),
        ("grader: choice",),
        earns=((1, "B"), (1, "pot 1")),
        nothing=((1, "A"),),
    ),
    "an answer at length beside options": Right(
        rows(
            6,
            question=ask,
            reponse_attendue=lambda n: (
                f"It is {['jug', 'pot', 'mug'][n % 3]} {n}, of course, and it stands there, as anybody can see who looks at the shelf."
            ),
            options=lambda n: [f"jug {n}", f"pot {n}", f"mug {n}"],
            solution=lambda n: n % 3,
        ),
        ("expected: solution",),
        earns=((1, "B"),),
        nothing=((1, "A"),),
        unsaid=("Reponse attendue",),
    ),
    "a token behind each answer": Right(
        rows(8, prompt=ask, completion=lambda n: f" jug {n}<|endoftext|>"),
        ("each has a token behind it",),
        earns=((1, "jug 1"),),
        nothing=((1, "jug 2"),),
    ),
    "a heading's mark before each answer": Right(
        rows(8, question=ask, answer=lambda n: f"# {n + 18}"),
        earns=((1, "19"),),
        nothing=((1, "18"),),
    ),
    "other spellings in a column": Right(
        rows(
            8,
            question=ask,
            answer=lambda n: f"jug {n}",
            aliases=lambda n: [f"the jar {n}", f"pitcher {n}"] if n != 2 else [],
        ),
        ("expected: answer, aliases",),
        earns=((1, "jug 1"), (1, "pitcher 1"), (2, "jug 2")),
        nothing=((1, "jug 2"), (1, "pitcher 2")),
    ),
    "queries in SPARQL beside the questions": Right(
        rows(
            6,
            query=lambda n: f"SELECT ?x WHERE {{ ?x shelf {n} }}",
            text=ask,
            answer=lambda n: f"jug {n}",
        ),
        ("prompt: '{text}'",),
        earns=((1, "jug 1"),),
        unsaid=("SELECT",),
    ),
    "empty columns behind the others": Right(
        "question,answer,,\n" + "".join(f"{ask(n)},jug {n},,\n" for n in range(6)),
        earns=((1, "jug 1"),),
        kind="csv",
    ),
    "a space before each quote": Right(
        '"question", "answer"\n'
        + "".join(f'"{ask(n)}", "jug, {n}"\n' for n in range(6)),
        earns=((1, "jug, 1"),),
        kind="csv",
    ),
    "two byte order marks": Right(
        "\ufeff\ufeffquestion,answer\n"
        + "".join(f"{ask(n)},jug {n}\n" for n in range(6)),
        ("prompt: '{question}'",),
        earns=((1, "jug 1"),),
        kind="csv",
    ),
    "objects that the question is about": Right(
        rows(
            6,
            task_description=lambda n: f"Tell how the two reports of jug {n} differ.",
            input=lambda n: {"prior": f"It was full {n}.", "current": "It is empty."},
            gold=lambda n: f"less {n}",
        ),
        ("prior: It was full 0.",),
        earns=((1, "less 1"),),
    ),
    "what programs return": Right(
        rows(
            8,
            code=lambda n: f"def f(a):\n    return a[{n}:]",
            input=lambda n: f"'jug {n}'",
            output=lambda n: [f"[{n}, 1]", f"{{{n}: None}}", f"'jug {n}'", f"({n},)"][
                n % 4
            ],
        ),
        ("grader: text",),
        earns=((1, "{1: None}"), (4, "[4, 1]")),
        nothing=((1, "{2: None}"),),
    ),
    "answers in a list beside the instruction": Right(
        rows(
            6,
            instruction=lambda n: f"Say what stands on shelf {n}.",
            instances=lambda n: [{"input": f"It is brown {n}.", "output": f"jug {n}"}],
        ),
        ("a record has its questions in instances",),
        earns=((1, "jug 1"),),
        nothing=((1, "jug 2"),),
    ),
    "answers with spans and more": Right(
        rows(
            6,
            question=ask,
            context=lambda n: f"{JUGS} On shelf {n} stands the big jug {n}.",
            answers=lambda n: [{"answer_id": n, "text": f"jug {n}", "answer_start": 8}],
        ),
        ("grader: text",),
        earns=((1, "jug 1"),),
        nothing=((1, "jug 2"),),
    ),
    "a list of options of another name": Right(
        rows(
            9,
            question=ask,
            content=lambda n: [f"jug {n}", f"pot {n}", f"mug {n}"],
            correct=lambda n: n % 3,
        ),
        ("options: content; an answer is the number of an option, from 0",),
        earns=((1, "B"),),
        nothing=((1, "1"), (1, "A")),
    ),
    "a prefix of all questions": Right(
        json.dumps(
            {
                "name": "shelves",
                "task_prefix": "Say what stands on the shelf.",
                "examples": rows(
                    6, input=lambda n: f"Shelf {n}.", target=lambda n: f"jug {n}"
                ),
            }
        ),
        ("Say what stands on the shelf.",),
        earns=((1, "jug 1"),),
        kind="json",
    ),
    "both sides of cards": Right(
        rows(
            6,
            back=lambda n: f"krug {n}",
            front=ask,
            module=lambda n: "m1",
        ),
        ("prompt: '{front}'", "expected: back"),
        earns=((1, "krug 1"),),
    ),
    "flags and texts of an app": Right(
        rows(
            6,
            questionText=ask,
            answerOptions=lambda n: [
                {"answerText": f"{name} {n}", "isCorrect": k == n % 3}
                for k, name in enumerate(["jug", "pot", "mug"])
            ],
        ),
        earns=((1, "B"), (1, "pot 1")),
        nothing=((1, "A"),),
    ),
    "an answer as TriviaQA's own files have it": Right(
        rows(
            6,
            Question=ask,
            Answer=lambda n: {"Value": f"jug {n}", "Aliases": [f"jug {n}", f"jar {n}"]},
        ),
        earns=((1, "jug 1"), (1, "jar 1")),
        nothing=((1, "jar 2"),),
    ),
    "a chat whose completion is a message": Right(
        rows(
            6,
            prompt=lambda n: [{"role": "user", "content": ask(n)}],
            completion=lambda n: [{"role": "assistant", "content": f"jug {n}"}],
        ),
        earns=((1, "jug 1"),),
        nothing=((1, "jug 2"),),
    ),
    "yes or no in lists of one": Right(
        rows(
            10,
            question=lambda n: f"Is shelf {n} full?",
            answers=lambda n: [["No", "Yes"][n % 2]],
        ),
        ("options: ['No', 'Yes']",),
        ((1, "Yes"), (0, "No")),
        ((1, "No"),),
    ),
    "options in columns such as a0": Right(
        rows(
            8,
            question=ask,
            answer=lambda n: n % 3,
            a0=lambda n: f"a jug {n}",
            a1=lambda n: f"a pot {n}",
            a2=lambda n: f"a mug {n}",
        ),
        ("A. a jug 0",),
        ((0, "A"), (1, "a pot 1")),
        ((1, "A"),),
    ),
    "options in a column with a language": Right(
        rows(
            6,
            question=ask,
            choices_en=lambda n: [f"jug {n}", f"pot {n}", f"mug {n}"],
            answer=lambda n: "abc"[n % 3],
        ),
        ("B. pot 0",),
        ((1, "B"), (1, "pot 1")),
        ((1, "A"),),
    ),
    "objects one after the other": Right(
        "\n".join(
            json.dumps({"question": ask(n), "answer": f"jug {n}"}, indent=2)
            for n in range(6)
        ),
        earns=((1, "jug 1"),),
        nothing=((1, "jug 2"),),
        kind="json",
    ),
    "a context and its completion": Right(
        rows(6, context=ask, completion=lambda n: f"jug {n}"),
        ("prompt: '{context}'",),
        ((1, "jug 1"),),
    ),
    "a column that hardly any record has": Right(
        rows(
            100,
            question=ask,
            unit=lambda n: "stones" if n == 4 else None,
            answer=lambda n: f"jug {n}",
        ),
        ("in few records: unit",),
        ((1, "jug 1"),),
    ),
    "options that say whether they are right in another language": Right(
        rows(
            6,
            pregunta=ask,
            respuesta=lambda n: [
                {"texto": f"{what} {n}", "correcto": k == n % 3, "justificacion": JUGS}
                for k, what in enumerate(("jarra", "taza", "olla"))
            ],
        ),
        ("grader: choice",),
        ((1, "B"), (1, "taza 1"), (2, "C")),
        ((1, "A"),),
    ),
    "objects that have the solution alone": Right(
        rows(
            6,
            question=ask,
            other=lambda n: {"solution": f"{JUGS} {BARN} So it is jug {n}."},
            answer=lambda n: f"jug {n}",
        ),
        ("about the answer: other",),
        ((1, "jug 1"),),
    ),
    "a letter and the text of an option": Right(
        rows(
            6,
            question=lambda n: LETTERED.format(n=n),
            answer=lambda n: f"B) pot {n}",
        ),
        ("6 questions list options, and the letter earns, too",),
        ((1, "B"), (1, "pot 1"), (1, "B) pot 1")),
        ((1, "C"), (1, "mug 1")),
    ),
    "letters in a column called Choice": Right(
        rows(
            6,
            Question=lambda n: LETTERED.format(n=n),
            Choice=lambda n: "ABC"[n % 3],
            Explanation=lambda n: f"{JUGS} So it is that one, {n}.",
        ),
        ("expected: Choice",),
        ((1, "B"), (1, "pot 1")),
    ),
    "a file beside the text that is in it": Right(
        rows(
            6,
            document=lambda n: f"cellar_{n}.txt",
            context=lambda n: f"{JUGS} {BARN} Jug {n} is full.",
            question=ask,
            answer=lambda n: f"jug {n}",
        ),
        ("Context: {context}",),
        ((1, "jug 1"),),
    ),
    "lists of texts as a program joined them": Right(
        rows(
            6,
            question=ask,
            answers=lambda n: "['miller's jug', 'ox']" if n % 2 else f"['mug {n}']",
        ),
        options=("--grader", "any"),
        earns=((0, "mug 0"), (1, "miller's jug"), (1, "ox")),
    ),
    "premises that are lists": Right(
        rows(
            8,
            premises=lambda n: [f"Jug {n} is full.", "Full jugs are heavy."],
            question=lambda n: f"Is jug {n} heavy?",
            answer=lambda n: ["no", "yes"][n % 2],
        ),
        ("Premises: {premises}",),
        ((1, "yes"),),
    ),
    "numbered options in the question, of which one is the answer": Right(
        rows(
            8,
            question=lambda n: f"{ask(n)}\n(0)jug {n}\n(1)pot {n}\n(2)mug {n}\nAnswer:",
            answer=lambda n: f"({n % 3}){['jug', 'pot', 'mug'][n % 3]} {n}",
        ),
        ("8 questions list options, and the letter earns, too",),
        ((1, "1"), (1, "(1)"), (1, "pot 1"), (1, "(1)pot 1")),
        ((1, "2"), (1, "mug 1")),
    ),
    "columns that say more of the answer": Right(
        rows(
            20,
            question=lambda n: f"Is jug {n} full?",
            claim_source=lambda n: f"https://example.org/is-jug-{n}-full",
            full=lambda n: ["no", "yes"][n % 2],
            full_spans=lambda n: f"Ann says that jug {n} weighs as much as two.",
        ),
        ("about the answer: full_spans",),
        ((1, "yes"),),
        options=("--expected", "full"),
    ),
    "addresses of passages": Right(
        rows(
            8,
            question=ask,
            article=lambda n: f"https://example.org/jug-{n}",
            answer=lambda n: f"jug {n}",
        ),
        ("addresses: article",),
        ((1, "jug 1"),),
    ),
    "passages that say whether they help": Right(
        rows(
            8,
            question=ask,
            paragraphs=lambda n: [
                {"text": f"{JUGS} There is jug {n}.", "title": "A", "is_supp": True},
                {"text": f"{BARN} It is number {n}.", "title": "B", "is_supp": False},
            ],
            answer=lambda n: f"jug {n}",
        ),
        ("There is jug 0.",),
        ((1, "jug 1"),),
        unsaid=("is_supp", "False"),
    ),
    "the answer again under another name": Right(
        rows(
            8,
            question=ask,
            result=lambda n: f"a jug of oil for {n} crowns",
            answer=lambda n: f"a jug of oil for {n} crowns",
        ),
        ("the answer again: result",),
        ((1, "a jug of oil for 1 crowns"),),
        unsaid=("Result: ",),
    ),
    "objects that say whether each is right": Right(
        rows(
            8,
            question=ask,
            claims=lambda n: [{"claim": f"{JUGS} {BARN}", "answer": f"jug {n}"}],
            answer=lambda n: f"jug {n}",
        ),
        ("about the answer: claims",),
        ((1, "jug 1"),),
    ),
    "a prompt that says what to do beside the question": Right(
        rows(
            8,
            question=lambda n: f"Solvent: oil; reagent: salt {n}. Solvent ratio:",
            prompt=lambda n: [
                "You are a cook. Name the ratio that keeps longest.",
                "You are a chemist. Name the ratio that yields most.",
            ][n % 2],
            answer=lambda n: f"jug {n}",
        ),
        ("Prompt: You are a cook. Name the ratio",),
        ((1, "jug 1"),),
    ),
    "a long source, and its target": Right(
        rows(
            6,
            src=lambda n: f"{JUGS} {BARN} What stands on shelf {n}?",
            tgt=lambda n: f"jug {n}",
        ),
        said=("prompt: '{src}'", "expected: tgt"),
        earns=((2, "jug 2"),),
        nothing=((2, "jug 3"),),
    ),
    "options with an id and a label": Right(
        rows(
            6,
            prompt=ask,
            choices=lambda n: [
                {"id": each, "label": f"jug {each}{n}"} for each in "abcd"
            ],
            correctChoiceId=lambda n: "abcd"[n % 4],
            explanation=lambda n: f"Ann put it there, {n}.",
        ),
        said=("A. jug a0", "expected: correctChoiceId"),
        earns=((1, "B"),),
        nothing=((1, "C"),),
    ),
    "a flag called evidence": Right(
        rows(
            12,
            question=ask,
            paragraphs=lambda n: [
                {"title": f"Jugs {n}", "text": JUGS, "evidence": True},
                {"title": f"Owls {n}", "text": BARN, "evidence": False},
            ],
            answer=lambda n: f"jug {n}",
        ),
        said=(f"Jugs 0 | {JUGS}",),
        unsaid=("True", "False"),
    ),
    "votes of people beside each piece of evidence": Right(
        rows(
            12,
            claim=lambda n: f"Jug {n} is full.",
            evidences=lambda n: [
                {"article": f"Jugs {n}", "evidence": f"{JUGS} {n}", "votes": [n % 2]}
            ],
            label=lambda n: ["full", "empty"][n % 2],
        ),
        said=(f"Jugs 0 | {JUGS} 0",),
        unsaid=("votes",),
        options=("--prompt", "{claim} {evidences} Is it full or empty?"),
    ),
}


def source_of(case):
    path = Path("..", f"data.{case.kind}")
    if isinstance(case.records, str):
        path.write_text(case.records)
    else:
        path.write_text("".join(f"{json.dumps(each)}\n" for each in case.records))
    return str(path)


def made_of(source):
    module = runpy.run_path(str(Path("make_rows.py").resolve()))
    kind = runpy.run_path("../quiz.py")["Quiz"]
    made: list[Any] = []
    for record in read(source):
        row = module.get("examples", module["example"])(record)
        made += row if "examples" in module else [row]
    return kind, made


@pytest.mark.parametrize("name", RIGHT)
def test_a_kind_is_read_rightly(written, name):
    case = RIGHT[name]
    source = source_of(case)
    printed = written(source, *case.options)
    assert not printed.startswith("failed"), printed
    for text in case.said:
        assert text in printed
    for text in case.unsaid:
        assert text not in printed
    kind, made = made_of(source)
    for wanted, answers in ((1.0, case.earns), (0.0, case.nothing)):
        for number, answer in answers:
            earned = kind(made[number].task).reward(f"\\boxed{{{answer}}}")
            assert earned == wanted, answer


def native(asked, **task):
    return [
        {"responses_create_params": {"input": f"{ask(n)} {asked}"}, **task}
        for n in range(4)
    ]


ASKED = {
    "sentences in several columns": Asked(
        rows(
            6,
            question=ask,
            answer_0=lambda n: f"{JUGS} Day {n}.",
            answer_1=lambda n: f"{BARN} Day {n} is over.",
        ),
        "answer_0 to answer_1 may be spellings of one answer",
        2,
    ),
    "a prompt that no template can name": Asked(
        rows(4, **{"Asked: what": ask, "answer": lambda n: f"jug {n}"}),
        "no template can name the column 'Asked: what'",
        options=("--prompt", "Asked: what"),
    ),
    "an address as the name of a column": Asked(
        table(",", ("jug@cellar.example", "4"), ("mug@cellar.example", "5")),
        "'jug@cellar.example' does not look like a column's name: add a first line",
        kind="csv",
    ),
    "one of two with a number for a name": Asked(
        rows(4, **{"0": ask, "answer": lambda n: f"jug {n}"}),
        "no template can name the column '0'",
        options=("--prompt", "{0}"),
    ),
    "answers in several columns": Asked(
        SPELLED,
        "answer_0 to answer_1 may be spellings of one answer, or all be wanted",
        2,
    ),
    "numbers among options that are numbers": Asked(
        rows(
            6,
            question=ask,
            options=lambda n: [3, 0, 2, 1],
            answer=lambda n: n % 4,
        ),
        "It may be a letter or the text of an option, or the number of an option",
        2,
    ),
    "keys of objects that have the same fields": Asked(
        rows(
            6,
            id=lambda n: f"cellar {n}",
            monday=lambda n: {"name": f"jug {n}", "task": "fill it"},
            tuesday=lambda n: {"name": f"mug {n}", "task": "wash it"},
        ),
        "the columns monday, tuesday look like keys and not like names: they hold objects",
    ),
    "keys that differ from record to record": Asked(
        [
            {"id": n, f"k{n}9": {"text": ask(n), "place": n}, f"j{n}": {"text": "x"}}
            for n in range(30)
        ],
        "look like keys and not like names: each is in few of 30 records",
    ),
    "keys of lists of which each is in one record": Asked(
        [
            {"id": n, **{f"jug {n}{a}": ["oil", "salt"] for a in "abc"}}
            for n in range(3)
        ],
        "look like keys and not like names: each is in few of 3 records",
    ),
    "short answers of which some are long": Asked(
        rows(
            8,
            question=ask,
            answer=lambda n: f"{BARN} {n}" if n % 4 == 0 else f"jug {n}",
        ),
        "they have 2 words (the median), and 2 of 8 more than 12",
        2,
    ),
    "an apostrophe in the name of a column": Asked(
        rows(
            6,
            **{
                "the miller's text": lambda n: f"{JUGS} It is year {n}.",
                "query_text": ask,
                "answers": lambda n: f"jug {n}",
            },
        ),
        "\n  the miller's text: The cellar holds nine jugs",
        1,
    ),
    "a column without a name": Asked(
        [{"": str(n), "original": ask(n), "test_case": ask(n + 9)} for n in range(5)],
        "Columns:\n  original: What stands on shelf 0?\n  test_case: ",
        1,
    ),
    "one column": Asked(
        "Feast of the Cellar\nCount of Jugs\nWash of Mugs\n",
        "the only column is 'Feast of the Cellar'",
        kind="csv",
    ),
    "rows of NeMo Gym that list tools but expect no calls": Asked(
        [
            {
                "responses_create_params": {"input": ask(n), "tools": [{"name": "f"}]},
                "expected_answer": f"the jug {n}",
            }
            for n in range(4)
        ],
        "grades the last message alone, whatever was called",
        1,
    ),
    "names of images": Asked(
        rows(4, question=ask, pic=lambda n: f"{n}.png", answer=lambda n: f"jug {n}"),
        "the column 'pic' names images",
    ),
    "letters of several options in the questions": Asked(
        rows(
            8,
            question=lambda n: f"{ask(n)}\nA. jug\nB. mug {n}\nC. pot\nD. vat",
            answer=lambda n: ["A", "ACD", "BD", "C"][n % 4],
        ),
        "answer has the letters of several options, such as 'ACD'",
        2,
    ),
    "a topic beside scores of options": Asked(
        rows(
            12,
            input=lambda n: f"{ask(n)}\nA. jug\nB. mug {n}",
            target_scores=lambda n: {"A": 1, "B": n % 2},
            category=lambda n: ["KT", "BR"][n % 2],
        ),
        "\n  category: BR or KT\n",
        1,
    ),
    "templates of prompts": Asked(
        rows(
            6,
            prompt=lambda n: f"{n}. {{question}} Which of them is it?",
            answer=lambda n: f"form {n}",
        ),
        "have a place such as {question}, which no record fills",
    ),
    "a topic of what asks nothing": Asked(
        rows(
            6,
            template=lambda n: f"The jug {n} of the cellar is",
            category=lambda n: f"jug {n % 5}",
        ),
        "ask nothing",
    ),
    "objects that a question may be about": Asked(
        rows(
            6,
            question=ask,
            store=lambda n: [{"key": f"shelf {n}", "value": f"{JUGS} It is {n}."}],
            answer=lambda n: f"pot {n}",
        ),
        "whether store belongs to the prompt is not clear: it has objects or lists",
        2,
    ),
    "names of constants": Asked(
        rows(
            6,
            question=ask,
            marker=lambda n: ["LEAKED", "SENT_OUT", "DROPPED", "TAKEN"][n % 4],
            answer=lambda n: f"pot {n}",
        ),
        "whether marker belongs to the prompt is not clear: it has names",
        2,
    ),
    "a list of texts": Asked(
        rows(6, question=ask, answer=lambda n: [f"ash {n}", f"elm {n}"]),
        "whether one of them is enough, all are wanted, or all in this order",
        3,
    ),
    "a list of sentences": Asked(
        rows(
            6,
            question=ask,
            answer=lambda n: [f"{JUGS} Day {n}.", f"{BARN} Day {n} is over."],
        ),
        "whether one of them is enough",
        2,
    ),
    "a list of texts, and the grader text": Asked(
        rows(6, question=ask, answer=lambda n: [f"ash {n}", f"elm {n}"]),
        "whether one of them is enough",
        3,
        ("--grader", "text"),
    ),
    "several letters": Asked(
        rows(
            6,
            question=ask,
            options=lambda n: [f"jug {n}", f"mug {n}", f"pot {n}"],
            label=lambda n: ["A", "C"] if n else ["B"],
        ),
        "all are wanted",
        2,
    ),
    "a list of answers in a table": Asked(
        table(
            ",",
            ("question", "answer"),
            *((ask(n), f"\"['ash {n}', 'elm {n}']\"") for n in range(6)),
        ),
        "whether one of them is enough",
        3,
        kind="csv",
    ),
    "lists in some of the answers of a table": Asked(
        table(
            ",",
            ("question", "answer"),
            *(
                (ask(n), f"ash {n}" if n % 3 else f"\"['ash {n}', 'elm {n}']\"")
                for n in range(9)
            ),
        ),
        "answer has answers of several kinds",
        1,
        kind="csv",
    ),
    "a rule that is the same in all": Asked(
        rows(
            5,
            rule=lambda n: "Each jug costs two crowns, and each mug costs one.",
            question=ask,
            answer=lambda n: n + 3,
        ),
        "whether rule belongs to the prompt is not clear: it is the same in all",
        2,
    ),
    "a short column without which questions are the same": Asked(
        rows(
            18,
            town=lambda n: ["Brint", "Harl", "Olm"][n // 6],
            question=lambda n: ask(n % 6),
            answer=lambda n: f"jug {n}",
        ),
        "town tells them apart, such as 'Brint'",
        2,
    ),
    "a column that decides the answer": Asked(
        rows(
            8,
            question=lambda n: f"{ask(n)} Is it a jug?",
            finding=lambda n: ["made of clay", "made of tin", "made of ash"][n % 3],
            answer=lambda n: ["yes", "no", "no"][n % 3],
        ),
        "whether finding belongs to the prompt is not clear: each of its values has one",
        2,
    ),
    "many answers that there is none": Asked(
        rows(
            24, question=ask, answer=lambda n: "N/A" if n % 4 == 0 else f"the jug {n}"
        ),
        "6 of 24 answers of answer are 'N/A'",
        2,
    ),
    "a definition and its term": Asked(
        rows(12, text=lambda n: f"A jug {n} holds oil.", answer=lambda n: f"jug {n}"),
        "ask nothing",
    ),
    "yes or no in a small file": Asked(
        rows(
            6,
            text=lambda n: f"We sell jug {n} at noon.",
            answer=lambda n: ["Yes", "No"][n % 2],
        ),
        "is yes or no, and no column asks the question",
    ),
    "no column of answers": Asked(
        rows(6, question=ask, hardness_level=lambda n: ["low", "mid", "high"][n % 3]),
        "which column is the expected answer is not clear",
        1,
    ),
    "a table that is a path": Asked(
        rows(
            5,
            question=ask,
            table=lambda n: f"tables/{n}/x.csv",
            answer=lambda n: f"jug {n}",
        ),
        "table names files, such as 'tables/0/x.csv'",
    ),
    "a topic beside an answer": Asked(
        rows(
            6,
            question=ask,
            category=lambda n: ["trees", "pots"][n % 2],
            reference=lambda n: f"jug {n}" if n % 2 else "",
        ),
        "category: trees\n  reference: jug 1\n",
        1,
    ),
    "letters that stand for something": Asked(
        rows(
            6,
            premise=ask,
            hypothesis=lambda n: f"It is jug {n}.",
            label=lambda n: "enc"[n % 3],
        ),
        "label is one of c, e, n, and nothing says what they mean",
        2,
    ),
    "letters of two columns": Asked(
        rows(
            4,
            claim=ask,
            left=lambda n: f"It is jug {n}.",
            right=lambda n: f"No, mug {n}.",
            correct_choice=lambda n: "ab"[n % 2],
        ),
        "neither a column nor the prompt has the options",
        2,
    ),
    "numbers that may be classes": Asked(
        rows(
            12,
            input=lambda n: f"{ask(n)} At what place?",
            target=lambda n: str(2 + n % 2),
        ),
        "target is one of 2, 3, and nothing says what they mean",
        2,
    ),
    "a question by another name, and its passage": Asked(
        rows(
            6,
            story_text=lambda n: f"{JUGS} It is year {n}.",
            query_text=ask,
            answers=lambda n: f"jug {n}",
        ),
        "answers: jug 0 (expected)\nCommands:\n",
        1,
    ),
    "rows of NeMo Gym that ask for another form": Asked(
        native("End with 'Final Answer: x'.", expected_answer="Bo"),
        "4 of 4 prompts do not ask for \\boxed{}, but for",
        1,
    ),
    "rows of NeMo Gym with a list": Asked(
        native("End with 'Final Answer: [x]'.", expected_answer=["Bo", "Ann"]),
        "whether one of them is enough",
        3,
    ),
    "rows of NeMo Gym for another verifier": Asked(
        native("", rubric="kind", minimum=3),
        "their tasks have rubric, minimum: none is an answer",
    ),
    "an equation by another name": Asked(
        rows(
            6,
            question=ask,
            arithmetic=lambda n: f"( {n} + 3 ) * 2",
            answer=lambda n: (n + 3) * 2,
        ),
        "whether arithmetic belongs to the prompt is not clear: it may be the solution",
        2,
    ),
    "quotes that swallow a record": Asked(
        'question\tanswer\nWho?\t"the cook\nWhat?\toil\nWhose?\nWhere?\tthe cook"\n',
        "line 2: a quote opens there and closes in line 5, and whole records are between",
        kind="tsv",
    ),
    "a table without a header": Asked(
        "Is it jug 2?,4,5,B\nIs it jug 3?,6,7,A\n",
        "'Is it jug 2?' does not look like a column's name",
        kind="csv",
    ),
    "a table without a header, and short questions": Asked(
        "A jug,4,5,9,B\nA mug,6,7,8,A\n",
        "'4' does not look like a column's name",
        kind="csv",
    ),
    "truth of a text that asks something else": Asked(
        rows(6, text=lambda n: f"How is jug {n} today?", label=lambda n: n % 2 == 0),
        "label is true or false, and nothing says of what",
        2,
    ),
    "questions of several kinds": Asked(
        [
            *rows(
                3,
                question_type=lambda n: "choice",
                prompt=ask,
                choices=lambda n: ["jug", "pot"],
                answer=lambda n: n % 2,
            ),
            *rows(
                3,
                question_type=lambda n: "truth",
                prompt=lambda n: f"Jug {n} is full.",
                answer=lambda n: n % 2 == 0,
            ),
        ],
        "question_type tells questions of several kinds, choice, truth",
    ),
    "an object of which one field is a topic": Asked(
        rows(
            4,
            prompt=ask,
            result=lambda n: {"severity": n, "category": "oil"},
        ),
        "result has objects with severity, category, and no question says so",
    ),
    "labels of few records": Asked(
        rows(
            3,
            text=lambda n: f"Jug {n} was full, which is why I came back",
            label=lambda n: ["oil", "salt"][n > 1],
        ),
        "label is one of oil, salt, and no prompt asks for these",
        1,
    ),
    "labels of few records, once each": Asked(
        rows(
            3,
            text=lambda n: f"Jug {n} leaks onto the floor",
            answer=lambda n: ["Praise", "Advice", "News"][n],
        ),
        "ask nothing: say what to do",
    ),
    "numbers of classes, of few records": Asked(
        rows(3, text=lambda n: f"Jug {n} leaks.", label=lambda n: 2 + (n > 1)),
        "label is one of 2, 3, and nothing says what they mean",
        1,
    ),
    "labels that are joined": Asked(
        rows(
            6,
            question=ask,
            answer=lambda n: ["oil,salt", "oil", "rye", "salt,rye", "oil,rye", "salt"][
                n
            ],
        ),
        "answer has lists, such as ['oil', 'salt'], and whether one of them is enough",
        3,
    ),
    "names that semicolons part": Asked(
        rows(6, question=ask, answer=lambda n: f"jug {n}; pot {n}"),
        "answer has lists, such as ['jug 0', 'pot 0'], and whether one of them is enough",
        3,
    ),
    "several right options": Asked(
        rows(
            6,
            question=ask,
            answers=lambda n: [
                {"answer": f"{name} {n}", "correct": place != n % 3}
                for place, name in enumerate(["jug", "pot", "mug"])
            ],
        ),
        "answers has lists, such as ['pot 0', 'mug 0'], and whether one",
        2,
    ),
    "several options with the best score": Asked(
        rows(6, input=ask, target_scores=lambda n: {"jug": 1, "pot": 0, f"{n}": 1}),
        "target_scores has lists, such as ['jug', '0'], and whether one",
        2,
    ),
    "scores in some records": Asked(
        [
            *rows(3, input=ask, target_scores=lambda n: {"jug": 1, "pot": 0}),
            *rows(2, input=ask, target=lambda n: f"{n + 6}"),
        ],
        "2 of 5 records have no answer in target_scores, and 2 of these have one in target",
        2,
    ),
    "yes and no of several worlds": Asked(
        rows(2, sentence=ask, labels=lambda n: ["true", "false", "true", "false"]),
        "labels has lists, such as ['true', 'false', 'true', 'false'], and whether one",
        3,
        options=("--expected", "labels"),
    ),
    "what no record fits": Asked(
        rows(4, question=ask, choices=lambda n: ["jug", "pot"], answer=lambda n: "mug"),
        "none of 4 records makes a row",
        options=("--grader", "all"),
    ),
    "sets that Python printed": Asked(
        rows(
            12,
            question=ask,
            answer=lambda n: f"{{'jug {n}', 'pot'}}" if n % 2 else f"{n}.5",
        ),
        "answer has answers of several kinds, such as",
        1,
    ),
    "sets that Python printed, all of them": Asked(
        rows(4, question=ask, answer=lambda n: f"{{'jug {n}', 'pot'}}"),
        "answer has sets or tuples as Python writes them, such as {'jug 0', 'pot'}",
    ),
    "true and false that Python printed": Asked(
        rows(20, question=ask, answer=lambda n: "True" if n % 2 else f"jug {n}"),
        "answer has answers of several kinds, such as",
        1,
    ),
    "places in the answers": Asked(
        rows(6, question=ask, answer=lambda n: f"The jug of {{{{owner}}}}, {n}"),
        "6 of 6 answers have a place such as {{owner}}, which no record fills",
    ),
    "sentences without spaces": Asked(
        rows(
            6,
            question=ask,
            answer=lambda n: f"地窖里有九个油罐和一箱盐放在楼梯旁边的第{n}层架子上面。",
        ),
        "how to compare the answers is not clear: they have 14 words",
        2,
    ),
    "short sentences": Asked(
        rows(6, question=ask, answer=lambda n: f"It is jug {n}."),
        "how to compare the answers is not clear: they have 4 words (the median), such as",
        2,
    ),
    "replies that were liked": Asked(
        rows(
            6,
            messages=lambda n: [
                {"role": "user", "content": ask(n)},
                {"role": "assistant", "content": f"jug {n}"},
            ],
            label=lambda n: n % 2 == 0,
        ),
        "label says whether the last message was liked",
    ),
    "preferences between lists of messages": Asked(
        rows(
            4,
            chosen_messages=lambda n: [{"role": "user", "content": ask(n)}],
            rejected_messages=lambda n: [{"role": "user", "content": ask(n)}],
        ),
        "chosen and rejected are preferences between two answers",
    ),
    "answers of which half are right": Asked(
        rows(
            6,
            question=ask,
            answer=lambda n: f"jug {n}",
            human_verdict=lambda n: ["correct", "wrong"][n % 2],
        ),
        "human_verdict says which answers are right, correct or wrong, so answer cannot be",
        1,
    ),
    "sounds": Asked(
        rows(
            4,
            messages=lambda n: [
                {"role": "user", "content": "<audio>What is that?"},
                {"role": "assistant", "content": f"jug {n}"},
            ],
            audios=lambda n: [f"clips/{n}.wav"],
        ),
        "the column 'audios' names sounds or films, such as 'clips/0.wav'",
    ),
    "sounds without a question": Asked(
        rows(4, filename=lambda n: f"{n}.mp3", label=lambda n: [f"jug {n}"]),
        "the column 'filename' names sounds or films, such as '0.mp3'",
    ),
    "images without a question": Asked(
        rows(4, filename=lambda n: f"{n}.jpg", label=lambda n: [f"jug {n}"]),
        "the column 'filename' names images, such as '0.jpg'",
    ),
    "the other side of a card": Asked(
        rows(
            6,
            prompt=ask,
            body=lambda n: f"Jug {n} stands there, and has since the flood.",
            answer=lambda n: f"jug {n}",
        ),
        "whether body belongs to the prompt is not clear: it holds the answer",
        2,
    ),
    "scores without a scale": Asked(
        rows(5, text=lambda n: f"Jug {n} is fine.", score=lambda n: n / 4),
        "score is a number, from 0.0 to 1.0, and no prompt asks for it",
        options=("--expected", "score"),
    ),
    "a score alone": Asked(
        rows(5, text=lambda n: f"Jug {n} is fine.", score=lambda n: n / 4),
        "which column is the expected answer is not clear. Name it in this command. If no column has the answers, use a file that has them\nColumns:\n  text: Jug 0 is fine. (prompt)\n  score: 0.0\n",
        1,
    ),
    "a table without a header, and labels": Asked(
        "The bread is good,pos\nThe jug leaks,neg\nSalt in the oil,pos\n",
        "'pos' is also a value: if the first line is a record, add one with names",
        kind="csv",
    ),
    "a gold beside the judgement of another answer": Asked(
        rows(
            6,
            question=ask,
            gold_answer=lambda n: n + 1577,
            model_answer=lambda n: f"It may be {n}.",
            label=lambda n: ["Correct Answer", "Incorrect Answer"][n % 2],
        ),
        "two columns could be the expected answer: gold_answer, such as 1577, and label",
        2,
    ),
    "a long answer beside a short truth": Asked(
        rows(
            6,
            question=ask,
            answer=lambda n: (
                f"I looked at all the shelves, and there {BARN[:-1]} with jug {n + 1} and {n}."
            ),
            ground_truth=lambda n: f"pot {n}",
        ),
        "two columns could be the expected answer: ground_truth, such as 'pot 0', and answer",
        2,
    ),
    "a number beside a name": Asked(
        rows(
            6, country=lambda n: f"Land {chr(65 + n)}o", calling_code=lambda n: 93 + n
        ),
        "Columns:\n  country: Land Ao (prompt)\n  calling_code: 93\n",
        1,
    ),
    "images of few records": Asked(
        rows(
            10,
            question=ask,
            image=lambda n: f"{n}.png" if n < 2 else "",
            answer=lambda n: f"jug {n}",
        ),
        "2 of 10 records have one: this command makes rows without",
        1,
    ),
    "names that no template can have": Asked(
        "INPUT:premise;OUTPUT:variant\n"
        + "".join(f"Jug {n};{n % 2}\n" for n in range(6)),
        "no template can name 'INPUT:premise' and the like: rename it",
        kind="csv",
    ),
    "cards without a header": Asked(
        "Knytnæve,Joomeok\nSpark,Chagi\nFremad,Ap\n",
        "If the first line is a record, add one with names before it",
        1,
        kind="csv",
    ),
    "an answer that is empty": Asked(
        rows(6, question=ask, tree=lambda n: n, ground_truth=lambda n: ""),
        "tree: 0\n  ground_truth: no value\n",
        1,
    ),
    "cards that ask nothing": Asked(
        rows(6, front=lambda n: f"jug {n}", back=lambda n: f"krug {chr(97 + n)}"),
        "the prompts, such as 'jug 0', ask nothing",
    ),
    "a truth beside a long answer": Asked(
        rows(
            6,
            question=ask,
            truth=lambda n: f"There {BARN[:-1]}, and jug {n} stands below it.",
            answer=lambda n: f"I think that there {BARN[:-1]}, and nothing else {n}.",
        ),
        "two columns could be the expected answer: truth, such as",
        2,
    ),
    "questions with nothing but a topic": Asked(
        rows(
            12,
            text=lambda n: f"How can I learn to sort jug {n}?",
            category=lambda n: ["trees", "pots"][n % 2],
        ),
        "category only names their topic: no column has an expected answer",
        1,
    ),
    "what a model said": Asked(
        rows(6, id=lambda n: n, prediction=ask, ground_truth=lambda n: f"jug {n}"),
        "Columns:\n  id: 0\n  prediction: What stands on shelf 0?\n  ground_truth: jug 0 (expected)\n",
        1,
    ),
    "several answers in some records, as Chinese writes them": Asked(
        rows(
            20,
            riddle=ask,
            answer=lambda n: f"jug {n}；jar {n}" if n < 2 else f"jug {n}",
        ),
        "whether one of them is enough, all are wanted, or all in this order",
        3,
    ),
    "letters of several options with commas": Asked(
        rows(
            8,
            question=ask,
            option_a=lambda n: f"jug {n}",
            option_b=lambda n: f"pot {n}",
            option_c=lambda n: f"mug {n}",
            answer=lambda n: ["A, C", "B"][n % 2],
        ),
        'how record["answer"] names an option is not clear',
        1,
    ),
    "the same questions again": Asked(
        rows(12, question=lambda n: ask(n % 3), answer=lambda n: f"jug {n % 3}"),
        "3 different questions are in 12 records",
    ),
    "a column whose name does not say what it is": Asked(
        rows(
            6,
            question=ask,
            place=lambda n: f"the {n}th mill",
            answer=lambda n: f"jug {n}",
        ),
        "whether place belongs to the prompt is not clear: its name does not say what it is",
        2,
    ),
    "several columns whose names do not say what they are": Asked(
        rows(
            6,
            question=ask,
            place=lambda n: f"the {n}th mill",
            owner=lambda n: f"miller Nr {n}",
            answer=lambda n: f"jug {n}",
        ),
        "The same goes for owner",
        2,
    ),
    "amounts among words": Asked(
        rows(6, question=ask, answer=lambda n: f"down by {n}.5% of the oil"),
        "6 of 6 answers have an amount among words, such as 'down by 0.5% of the oil'",
        2,
    ),
    "names of tools that no prompt has": Asked(
        rows(
            6,
            question=ask,
            expected_tools=lambda n: ["look_up", ["pour_out", "ask_ann"][n % 2]],
        ),
        "Which of these are needed: ask_ann, look_up, pour_out?' --grader all",
        1,
    ),
    "figures that no row has, in messages": Asked(
        rows(
            6,
            messages=lambda n: [
                {"role": "user", "content": f"How tall is jug {n} in Figure 3?"}
            ],
            answer=lambda n: f"{n} feet",
        ),
        "6 of 6 prompts, such as 'How tall is jug 0 in Figure 3?', speak of figure 3, and no column has it",
        1,
    ),
    "a label that another column names": Asked(
        rows(
            12,
            question=ask,
            answer=lambda n: f"{BARN} I have not looked {n}.",
            label=lambda n: n % 2,
            label_name=lambda n: ["direct", "evasive"][n % 2],
        ),
        "Answer direct or evasive.' --expected label_name",
        1,
    ),
    "routes that no question asks for": Asked(
        rows(12, question=ask, expected_route=lambda n: ["api", "rag", "both"][n % 3]),
        "expected_route is one of api, both, rag, and no prompt asks for these",
        2,
    ),
    "images of some records, beside a prompt that nobody knows": Asked(
        rows(
            10,
            wording=ask,
            why=lambda n: f"{JUGS} {n}",
            image=lambda n: "j.png" if n < 2 else "",
        ),
        "which columns are the prompt and the expected answer is not clear",
        1,
    ),
    "a summary that nothing asks for": Asked(
        rows(
            6,
            dialogue=lambda n: f"Ann: Where is jug {n}? Bo: {BARN}",
            summary=lambda n: (
                f"Ann looks for jug {n}, and Bo tells her of the barn where all jugs stand."
            ),
        ),
        "ask nothing: say what to do with --prompt '{dialogue} ...?'",
        0,
        ("--prompt", "{dialogue}", "--grader", "judge"),
    ),
    "lists of questions and of answers": Asked(
        rows(
            6,
            question=ask,
            queries=lambda n: [ask(n), ask(n + 9)],
            options=lambda n: ["oil", "salt"],
            answer=lambda n: ["A", "B"],
        ),
        "queries and answer are lists of the same length, so a record has several questions",
    ),
    "how alike two texts are": Asked(
        rows(
            6,
            sentence1=lambda n: f"Jug {n} is full.",
            sentence2=lambda n: f"Jug {n} is old.",
            score=lambda n: f"{n}.125",
        ),
        "score is a number, and no column asks the question",
        0,
        ("--expected", "score"),
    ),
    "no, in each answer": Asked(
        rows(
            6, question=ask, answer=lambda n: f"No acute disease of lung {n} is seen."
        ),
        "how to compare the answers is not clear",
        2,
    ),
    "a question on a card": Asked(
        rows(
            6,
            front=lambda n: f"Hur många krukor har rum {n}?",
            back=lambda n: (
                f"{n} krukor, som alla står i ett rum under trappan och är gamla."
            ),
        ),
        "how to compare the answers is not clear",
        2,
    ),
    "options with points": Asked(
        rows(
            6,
            text=lambda n: f"How often do you fill jug {n}?",
            answers=lambda n: [
                {"text": "Never", "points": 0},
                {"text": f"Every {n + 2} days", "points": 2},
            ],
        ),
        "answers has the options of each question with their points",
    ),
    "files that questions are about": Asked(
        rows(
            8,
            question=ask,
            answer=lambda n: f"jug {n}",
            source_file=lambda n: f"notes/room_{n // 4}.txt",
        ),
        "source_file names what a question may be about, such as 'notes/room_0.txt'",
        1,
    ),
    "a column that some labels have": Asked(
        rows(
            12,
            prompt=lambda n: f"Fill jug {n} with oil, then close the door behind you.",
            hints=lambda n: [f"the jug of room {n} is by the door"] * (n % 2),
            expected=lambda n: bool(n % 2),
        ),
        "whether hints belongs to the prompt is not clear: it is empty with some answers",
        2,
    ),
    "an answer that is often there": Asked(
        rows(
            20,
            question=ask,
            answer=lambda n: (
                "Open answer"
                if n % 4 == 0
                else f"the jug {'abcdefghijklmnopqrstu'[n]}x"
            ),
        ),
        "5 of 20 answers of answer are 'Open answer', and most others are there once",
        2,
    ),
    "criteria": Asked(
        rows(
            6,
            question=ask,
            expected_answer=lambda n: f"list jug {n}",
            evaluation_criteria=lambda n: "names the jug",
        ),
        "evaluation_criteria says how an answer is judged, such as 'names the jug'",
        2,
    ),
    "ids in lists": Asked(
        rows(6, question=ask, expected_ids=lambda n: [f"7c03-{n}", f"4cb6-{n}"]),
        "expected_ids has ids, such as '7c03-0', which no policy can know",
        1,
        ("--expected", "expected_ids"),
    ),
    "many labels that a prompt of one's own does not list": Asked(
        rows(
            80,
            text=lambda n: f"{JUGS} {n}",
            topic=lambda n: f"room {'abcdefghijklmnop'[n % 16]}",
        ),
        "topic is one of room a, room b",
        2,
        ("--prompt", "{text} Where is it?", "--expected", "topic"),
    ),
    "numbers that a prompt of one's own does not name": Asked(
        rows(
            40,
            first=lambda n: f"jug {n}",
            other=lambda n: f"mug {n}",
            label=lambda n: n % 3,
        ),
        "label is one of 0, 1, 2, and nothing says what they mean",
        2,
        ("--prompt", "Is {first} like {other}?", "--expected", "label"),
    ),
    "a card beside a passage": Asked(
        rows(
            6,
            body=lambda n: f"It stands in room {n}.",
            prompt=lambda n: f"Which jug stands in room {n}?",
            answer=lambda n: f"jug {n}",
            context=lambda n: f"{JUGS} {n}",
        ),
        "whether body belongs to the prompt is not clear",
        3,
    ),
    "a comment among the lines": Asked(
        '// jugs\n{"question": "Who?", "answer": "Bo"}\n',
        "JSON has no comments, so remove these lines",
        kind="jsonl",
    ),
    "names of films": Asked(
        rows(6, video=lambda n: f"40100{n}", question=ask, answer=lambda n: f"jug {n}"),
        "the column 'video' names sounds or films, such as '401000'",
        1,
    ),
    "answers of less than half": Asked(
        rows(
            10,
            question=ask,
            other_answer=lambda n: "",
            answer=lambda n: f"jug {n}" if n < 4 else None,
        ),
        "6 of 10 records have nothing in answer and would be left out",
        1,
    ),
    "questions of less than half": Asked(
        rows(
            10,
            note=lambda n: f"Card {n}",
            items=lambda n: (
                [{"question": ask(n), "answer": f"jug {n}"}] if n < 4 else []
            ),
        ),
        "6 of 10 records have nothing in items and would be left out",
        1,
    ),
    "a topic among many": Asked(
        rows(
            150,
            instruction=lambda n: f"Name jug {n}.",
            category=lambda n: f"shelf_{n % 30}",
        ),
        "category only names their topic",
        1,
    ),
    "many labels that nothing asks for": Asked(
        rows(
            150,
            text=lambda n: f"Is jug {n} here",
            label=lambda n: "abcdefghijklmno"[n % 15] * 3,
        ),
        "and no prompt asks for these",
        2,
    ),
    "objects whose keys no prompt tells, beside a column that does": Asked(
        rows(
            6,
            question=ask,
            expected=lambda n: {"jugs": n, "mugs": n + 1},
            expected_full=lambda n: {"jugs": n, "mugs": n + 1, "pots": 2},
        ),
        "expected has objects with jugs, mugs, and no question says so",
        0,
        ("--expected", "expected"),
    ),
    "objects of messages": Asked(
        rows(
            6,
            prompt=lambda n: [{"role": "user", "content": ask(n)}],
            completion=lambda n: [
                {"role": "assistant", "content": json.dumps({"jugs": n, "mugs": 1})}
            ],
        ),
        "no message says so: say it in the messages",
        1,
    ),
    "marks in places": Asked(
        rows(
            8, text=lambda n: f"Jug {n} is here.", label=lambda n: [n % 2, 1 - n % 2, 0]
        ),
        "label has 0 or 1 in 3 places, and nothing says what they mean",
    ),
    "letters that stand for something, and text": Asked(
        rows(
            9,
            premise=lambda n: f"Jug {n} is full.",
            hypothesis=lambda n: f"Jug {n} is heavy.",
            label=lambda n: "cen"[n % 3],
        ),
        "label is one of c, e, n, and nothing says what they mean",
        1,
    ),
    "names of numbers": Asked(
        rows(
            40,
            sentence=lambda n: f"Jug {n} is full.",
            label=lambda n: n % 4,
            label_desc=lambda n: ["oil", "salt", "wine", "milk"][n % 4],
        ),
        "label is a number, and label_desc says what each stands for, such as 'oil'",
        2,
    ),
    "a story that no record has": Asked(
        rows(
            6,
            question=lambda n: f"What does miller {n} find at the end of the story?",
            answer=lambda n: f"jug {n}",
        ),
        "6 of 6 prompts, such as 'What does miller 0 find at the end of the story?', speak of the story",
        1,
    ),
    "evidence that is a passage": Asked(
        rows(
            6,
            question=ask,
            evidence=lambda n: [{"evidence_text": f"{JUGS} {BARN} {n}", "page": n}],
            answer=lambda n: f"jug {n}",
        ),
        "whether evidence belongs to the prompt is not clear: it may be the passage",
        2,
    ),
    "a label of what a model wrote": Asked(
        rows(
            8,
            prompt=ask,
            completion=lambda n: f"{JUGS} {BARN} {n}",
            final_label=lambda n: ["full", "part"][n % 2],
        ),
        "final_label says full or part of each completion, so that need not be the expected answer",
        2,
    ),
    "two replies that are compared": Asked(
        rows(
            12,
            prompt=ask,
            **{
                "response 1": lambda n: f"{JUGS} {n}",
                "response 2": lambda n: f"{BARN} {n}",
            },
            label=lambda n: n % 3,
        ),
        "label is one of 0, 1, 2, and nothing says what they mean",
        2,
    ),
    "two languages": Asked(
        rows(6, translation=lambda n: {"en": f"jug {n}", "de": f"Krug {n}"}),
        "which of en and de is to be translated is not clear",
        2,
    ),
    "a column of sentences of which another names an option": Asked(
        rows(
            6,
            sentence=lambda n: f"Jug {n} is full.",
            A=lambda n: f"It is heavy {n}.",
            B=lambda n: f"It is old {n}.",
            false=lambda n: n % 2,
            reason=lambda n: "AB"[n % 2],
        ),
        "which column is the expected answer is not clear",
        1,
    ),
    "a set of lists": Asked(
        rows(
            6,
            question=ask,
            result=lambda n: f"{{[jug {n}]}}" if n else "{['oak', 'elm']}",
            other=lambda n: f"{JUGS} {n}",
        ),
        "whether other belongs",
        2,
        ("--expected", "result"),
    ),
    "a label of what stands beside it": Asked(
        rows(
            8,
            query=ask,
            response=lambda n: f"Jug {n} stands there.",
            label=lambda n: ["factual", "made up"][n % 2],
        ),
        "whether response belongs to the prompt is not clear: the expected label may be about it",
        2,
    ),
    "letters of several columns": Asked(
        rows(
            8,
            question=ask,
            A=lambda n: f"jug {n}",
            B=lambda n: f"pot {n}",
            C=lambda n: f"mug {n}",
            answer=lambda n: ["AB", "ABC", "C", "BC"][n % 4],
        ),
        "how record[\"answer\"] names an option is not clear, such as 'AB'",
        1,
    ),
    "names of tables": Asked(
        rows(
            6, question=ask, table_id=lambda n: f"tab-{n}", answer=lambda n: f"jug {n}"
        ),
        "table_id names what a question may be about, such as 'tab-0', and no column has it",
        1,
    ),
    "a hypothesis that says the answer": Asked(
        rows(
            6,
            question=ask,
            hypothesis=lambda n: f"On shelf {n} stands jug {n}",
            answer=lambda n: f"jug {n}",
        ),
        "whether hypothesis belongs to the prompt is not clear: it holds the answer",
        2,
    ),
    "a first record with the names of the columns": Asked(
        [{"passage": "Passage", "question": "Question", "answer": "Gold"}]
        + rows(9, passage=lambda n: f"{JUGS} {n}", question=ask, answer=str),
        "the first record says Passage, Question, which are the names of its columns",
        0,
    ),
    "a name that a prompt alone does not ask about": Asked(
        rows(8, town=lambda n: f"Lake {'abcdefgh'[n]}o", seat=lambda n: f"jug {n}"),
        "the prompts, such as 'Lake ao', ask nothing: say what to do with --prompt '{town} ...?'",
        0,
        ("--prompt", "{town}", "--expected", "seat"),
    ),
    "labels of texts": Asked(
        rows(
            20,
            tweet=lambda n: f"I found jug {n} at last!",
            label=lambda n: ["joy", "anger"][n % 2],
        ),
        "label is one of anger, joy, and no prompt asks for these",
        1,
    ),
    "whether to answer": Asked(
        rows(
            20,
            question=ask,
            expected_behavior=lambda n: ["answer", "refuse"][n % 2],
        ),
        "expected_behavior is one of answer, refuse, and no prompt asks for these",
        2,
    ),
    "a circle and a cross": Asked(
        rows(20, question=lambda n: f"Jug {n} is full.", answer=lambda n: "○×"[n % 2]),
        "answer is one of ×, ○, and no prompt asks for these",
        1,
    ),
    "yes or no in a sentence": Asked(
        rows(
            8,
            question=ask,
            answer=lambda n: f"{'Yes' if n % 3 else 'No'}, jug {n} is not full.",
        ),
        "answer says yes or no, and more",
        2,
    ),
    "clues of one answer": Asked(
        rows(
            6,
            clues=lambda n: [{"text": f"It is {word} {n}."} for word in ("old", "red")],
            answer=lambda n: f"jug {n}",
        ),
        "clues has several parts in a record, and answer is one answer to all of them",
        0,
    ),
    "parts that are to be put in order": Asked(
        rows(
            6,
            parts=lambda n: [
                {"question": f"Jug {n} {place}?", "answer": place}
                for place in (2, 1, 3)
            ],
        ),
        "answer is the place of each of the parts in parts, which are to be put in order",
        0,
    ),
    "addresses": Asked(
        rows(6, question=ask, answer=lambda n: f"http://example.org/jugs/{n}"),
        "answer has addresses, such as 'http://example.org/jugs/0'",
        1,
    ),
    "numbers with many places": Asked(
        rows(6, question=ask, answer=lambda n: 0.12345 + n),
        "answer has numbers with many places, such as 0.12345",
        2,
    ),
    "questions that have no answer": Asked(
        rows(
            9,
            question=ask,
            is_impossible=lambda n: n % 3 == 0,
            answer=lambda n: f"jug {n}" if n % 3 else "no such jug",
        ),
        "is_impossible says of 3 of 9 questions that they have no answer, and theirs is 'no such jug'",
        1,
    ),
    "names of images in objects": Asked(
        rows(
            6,
            question=ask,
            images=lambda n: [{"image_path": f"jug-{n}.png"}],
            answer=lambda n: f"jug {n}",
        ),
        "the column 'images' names images",
        0,
    ),
    "lists of questions and of their answers": Asked(
        rows(
            6,
            passage=lambda n: f"{BARN} {n}",
            instructions=lambda n: [f"Is jug {n} full?", "Is it red?"],
            outputs=lambda n: ["yes", f"jug {n}"],
        ),
        "instructions and outputs are lists of the same length",
        0,
        ("--prompt", "{instructions} Answer from: {passage}"),
    ),
    "sentences of Thai": Asked(
        rows(
            9,
            question=ask,
            answer=lambda n: "ร้านเปิดทุกวันจันทร์ถึงวันศุกร์ตั้งแต่เช้าจนถึงเย็นและปิดวันหยุด" * 2,
        ),
        "how to compare the answers is not clear",
        2,
    ),
    "a question that is in another column": Asked(
        rows(
            10,
            question_heading=lambda n: f"What is in jug {n}?",
            question=lambda n: "See the list." if n < 2 else "",
            answer=lambda n: f"oil {n}",
        ),
        "so they lack a question",
    ),
    "several questions about one document": Asked(
        rows(
            12,
            doc_id=lambda n: f"doc-{n // 4}",
            question=ask,
            answer=lambda n: f"jug {n}",
        ),
        "doc_id names what a question may be about",
        1,
    ),
    "responses of which some are acceptable": Asked(
        rows(
            12,
            question=ask,
            response=lambda n: f"{JUGS} {n}",
            acceptable=lambda n: n % 2,
        ),
        "acceptable says which answers are right, 0 or 1",
        1,
    ),
    "a card that may be turned": Asked(
        rows(9, front=lambda n: f"jug {n}", back=lambda n: f"{BARN[:60]} {n}"),
        "and the last asks the other way around",
        3,
    ),
    "labels of texts and of their titles": Asked(
        rows(
            20,
            query=lambda n: f"jug {n}",
            title=lambda n: f"All about jug {n}",
            label=lambda n: n % 3,
        ),
        "--prompt 'Query: {query}\n\nTitle: {title}\n\nAnswer 0 for ...",
        1,
    ),
    "signs without letters": Asked(
        rows(9, question=ask, answer=lambda n: "🦉🐻🦊🐌🐢"[n % 5] + "🌊🧊"[n % 2]),
        "answer has signs without letters",
        2,
    ),
    "one or the other": Asked(
        rows(9, question=ask, answer=lambda n: f"jug {n} or pot {n}"),
        "9 of 9 answers say `or`, such as 'jug 0 or pot 0'",
        2,
    ),
    "questions that cannot be solved": Asked(
        rows(
            9,
            question=ask,
            answer=lambda n: n + 2,
            solvability=lambda n: n % 3 / 2 // 1,
        ),
        "solvability says which answers are right, 0 or 1",
        1,
    ),
    "labels of a statement beside the answer": Asked(
        rows(
            12,
            query=ask,
            answer=lambda n: f"{JUGS} {n}",
            statement=lambda n: f"{BARN} {n}",
            label=lambda n: n % 2,
        ),
        "Answer: {answer}\n\nStatement: {statement}\n\nIs that right?",
        1,
    ),
    "scores of responses, by a rubric": Asked(
        rows(
            9,
            prompt=ask,
            response=lambda n: f"{JUGS} {n}",
            rubric=lambda n: f"A point for jug {n}.",
            label=lambda n: {"score": n % 3, "flags": [n]},
        ),
        "'Prompt: {prompt}\n\nResponse: {response}\n\nRubric: {rubric} Answer with ...'",
        0,
    ),
    "a table with the numbers of its records as columns": Asked(
        [{"id": name} | {str(n): n for n in range(9)} for name in ("topic", "facet")],
        "look like keys and not like names: they are numbers",
        0,
    ),
    "answers that their type calls incorrect": Asked(
        rows(
            9,
            question=ask,
            answer=lambda n: n + 2,
            answer_type=lambda n: "incorrect" if n % 3 else "correct",
        ),
        "answer_type says which answers are right, correct or incorrect",
        1,
    ),
    "hidden labels": Asked(
        rows(9, sentence1=ask, sentence2=lambda n: f"Jug {n}?", score=lambda n: -1.0),
        "score is -1 in all records, so its labels are hidden",
        0,
        ("--prompt", "{sentence1} {sentence2} How alike?", "--expected", "score"),
    ),
    "words that ask nothing": Asked(
        rows(
            20,
            input=lambda n: f"{'abcdefghijklmnopqrst'[n]}ime",
            output=lambda n: f"jug {n}",
        ),
        "ask nothing: say what to do with --prompt '{input} ...?'",
        0,
    ),
    "an explanation in a column of one letter": Asked(
        rows(
            9,
            q=ask,
            o=lambda n: [f"jug {n}", f"pot {n}"],
            c=lambda n: n % 2,
            e=lambda n: f"{JUGS} {BARN} So it is {['jug', 'pot'][n % 2]} {n}.",
        ),
        "whether e belongs to the prompt is not clear",
        2,
    ),
    "kinds of questions": Asked(
        rows(20, text=ask, label=lambda n: ["chitchat", "support"][n % 2]),
        "label is one of chitchat, support, and no prompt asks for these",
        2,
    ),
    "an explanation of many words in a column of one letter": Asked(
        rows(
            9,
            q=ask,
            o=lambda n: [f"jug {n}", f"pot {n}"],
            c=lambda n: n % 2,
            e=lambda n: f"{JUGS} {BARN} {BARN} {n}.",
        ),
        "whether e belongs to the prompt is not clear: its name",
        2,
    ),
    "marks of a text that asks nothing": Asked(
        rows(8, sentence=lambda n: f"Jug {n} is full.", label=lambda n: n % 2),
        "Is it ...? Answer 0 for no, 1 for yes.",
        1,
    ),
    "an explanation that some records have": Asked(
        rows(
            20,
            question=ask,
            info=lambda n: f"{JUGS} There is jug {n}. {BARN}" if n < 4 else None,
            answer=lambda n: f"jug {n}",
        ),
        "whether info belongs to the prompt is not clear: it holds the answer",
        2,
    ),
    "a table that no column has": Asked(
        rows(
            6,
            question=lambda n: (
                f"How many jugs are sold on day {n} in the cellar table?"
            ),
            answer=lambda n: n + 4,
        ),
        "speak of the cellar table, and no column has it",
        1,
    ),
    "a column of passages that has none": Asked(
        rows(
            10,
            passage=lambda n: None,
            question=lambda n: ask(n) + " In the passage?" * (n % 3 == 0),
            answer=lambda n: f"jug {n}",
        ),
        "4 of 10 prompts, such as 'What stands on shelf 0? In the passage?', speak of the passage",
        1,
    ),
    "phases of what is asked": Asked(
        rows(20, text=ask, decision_phase=lambda n: ["choice", "research"][n % 2]),
        "decision_phase is one of choice, research, and no prompt asks for these",
        2,
    ),
    "lines of a context": Asked(
        rows(
            6,
            question=lambda n: (
                f"Who keeps the {['red', 'blue', 'old', 'new', 'big', 'dry'][n]} jug?"
            ),
            context=lambda n: f"{JUGS}\n{BARN}\n{JUGS}",
            answers=lambda n: [n, n + 2][: 1 + n % 2],
        ),
        "answers has lists of numbers, such as '0', and no question asks for numbers",
    ),
    "yes or no to a text in which somebody asks": Asked(
        rows(
            6,
            text=lambda n: (
                f"{JUGS} Who would look there on day {n}? {BARN} {JUGS} {BARN}"
            ),
            answer=lambda n: ["yes", "no"][n % 2],
        ),
        "answer is yes or no, and no column asks the question",
    ),
    "yes or no to a text whose writer asks for advice": Asked(
        rows(
            6,
            text=lambda n: (
                f"{JUGS} {BARN} {JUGS} {BARN} I lost jug {n}. What can I do?"
            ),
            answer=lambda n: ["yes", "no"][n % 2],
        ),
        "answer is yes or no, and no column asks the question",
    ),
    "yes or no to what asks for more": Asked(
        rows(
            10,
            question=lambda n: f"what stands on shelf {n}?",
            context=lambda n: f"{JUGS} {BARN} Jug {n} is full.",
            answer=lambda n: ["True", "False"][n % 2],
        ),
        "10 of 10 questions ask for something else, such as 'what stands on shelf 0?'",
    ),
    "labels of which one denies the other": Asked(
        rows(
            8,
            question=ask,
            text=lambda n: f"{JUGS} {BARN} Jug {n} is full.",
            answer=lambda n: ["Relevant", "Irrelevant"][n % 2],
        ),
        "answer is one of Irrelevant, Relevant, and no prompt asks for these",
        2,
    ),
    "words that go on where the prompt breaks off": Asked(
        rows(
            6,
            prompt=lambda n: f"{BARN} On day {n} there were nine",
            completion=lambda n: (
                f" {['jugs', 'mugs', 'pots', 'ladles', 'owls', 'nails'][n]}"
            ),
        ),
        "completion goes on where the prompt breaks off, such as 'jugs'",
    ),
    "options of which no column names one": Asked(
        rows(
            4,
            question=ask,
            options=lambda n: [f"jug {n}", f"pot {n}"],
            category=lambda n: ["Storage", "Cellar"][n % 2],
        ),
        "no column says which option is right: category has 'Storage'",
    ),
    "an id of an image beside two texts": Asked(
        rows(
            6,
            sentence_A=lambda n: f"Jug {n} is full.",
            sentence_B=lambda n: f"Jug {n} is heavy.",
            image_ID=lambda n: f"{n}04.jpg",
        ),
        "which columns are the prompt and the expected answer is not clear",
        1,
    ),
    "labels of a table that no column has": Asked(
        rows(
            20,
            hypothesis=lambda n: f"Jug {n} is the oldest of all.",
            table_id=lambda n: f"T{n}",
            label=lambda n: ["yes", "no", "open"][n % 3],
        ),
        "table_id names what a question may be about, such as 'T0', and no column has it",
        1,
    ),
    "sentences that nothing asks for": Asked(
        rows(
            8,
            sentence=lambda n: f"The jug number {n} are full of oil.",
            output=lambda n: f"The jug number {n} is full of oil, as Ann told us all.",
        ),
        "ask nothing: say what to do with --prompt '{sentence} ...?'",
    ),
    "an answer that is asked for, beside a column that is known for something else": Asked(
        rows(
            20,
            src=lambda n: f"for x in jugs[:{n}]: pour(x)",
            complexity=lambda n: ["constant", "linear"][n % 2],
        ),
        "--expected complexity --prompt '{COLUMN}'",
        1,
        ("--expected", "complexity"),
    ),
    "one answer for all": Asked(
        rows(
            12,
            text=lambda n: f"How many jugs are on shelf {n}?",
            category=lambda n: "misc",
        ),
        "all 12 answers of category are 'misc'",
        1,
    ),
    "files that have the answers": Asked(
        rows(
            6,
            pregunta=lambda n: f"¿Qué hay en el estante {n}?",
            archivo_esperado=lambda n: f"estante_{n}.pdf",
        ),
        "archivo_esperado has names of files, such as 'estante_0.pdf'",
        1,
        ("--expected", "archivo_esperado"),
    ),
    "ids of documents that have the answers": Asked(
        rows(6, query=ask, expected_doc_ids=lambda n: [f"shelf_{n}"]),
        "expected_doc_ids has ids, such as 'shelf_0'",
        1,
    ),
    "numbers of the questions": Asked(
        rows(6, questionText=ask, questionNumber=lambda n: n + 1),
        "questionNumber counts the records, from 1 to 6",
    ),
    "rows of NeMo Gym that ask for no form": Asked(
        native("", expected_answer="Bo"),
        "4 of 4 prompts do not ask for \\boxed{}, which the grader text reads",
        1,
    ),
    "a column that nobody knows, beside a question": Asked(
        rows(
            6,
            question=ask,
            datos_clave=lambda n: f"fila {n}, de madera",
            answer=lambda n: f"jug {n}",
        ),
        "whether datos_clave belongs to the prompt is not clear: its name does not say what it is, such as "
        "'fila 0, de madera'. The first command leaves it out\nColumns:",
        2,
    ),
    "sentences to correct": Asked(
        rows(
            6,
            input=lambda n: f"them mugs is on shelf {n}",
            expected=lambda n: f"Those mugs are on shelf {n}.",
        ),
        "ask nothing: say what to do with --prompt '{input} ...?'",
    ),
    "queries of a graph as answers": Asked(
        rows(
            6,
            question=ask,
            answer=lambda n: f"SELECT ?jug WHERE {{ ?jug :on :shelf{n} }}",
        ),
        "its answers are programs, and how their tests run is not known",
    ),
    "codes that nothing explains": Asked(
        rows(
            20,
            text=lambda n: f"Jug {n} is full.",
            label=lambda n: ["AM", "DU", "FT"][n % 3],
        ),
        "Answer AM for ..., DU for ..., FT for",
        1,
    ),
    "a mark for records without a label": Asked(
        rows(
            30,
            sentence1=lambda n: f"Jug {n} is full.",
            sentence2=lambda n: f"Jug {n} is heavy.",
            label=lambda n: "-" if n == 20 else ["near", "far"][n % 2],
        ),
        "Answer far or near.",
        1,
    ),
    "one prompt for records that differ": Asked(
        rows(
            20,
            claim=lambda n: "Jugs are heavy." if n % 2 else "Mugs are light.",
            tweet_id=lambda n: 7000 + n,
            label=lambda n: ["for", "against", "none", "none"][n % 4 * (n > 3)],
        ),
        "20 of 20 records have the prompt of another one, such as 'Mugs are light. Answer for, against or none.', and "
        "another answer",
        0,
        ("--prompt", "{claim} Answer for, against or none."),
    ),
    "a table whose first line is a text in Chinese": Asked(
        table(
            "\t",
            *(
                [
                    "to keywords",
                    f"地窖里有九个油罐,楼梯旁边有一箱盐,第三根横梁上睡着一只猫头鹰{n}",
                    "油罐_盐",
                ]
                for n in range(6)
            ),
        ),
        "does not look like a column's name: add a first line with names",
        kind="tsv",
    ),
    "numbers that a classifier gave": Asked(
        rows(
            24,
            prompt=lambda n: f"How many jugs are {n}?",
            completion=lambda n: f" {n % 3}",
        ),
        "Answer 0 for ..., 1 for ..., 2 for",
        2,
    ),
    "a label of the question": Asked(
        rows(
            20,
            Question=lambda n: f"How many jugs are left of {n}?",
            Label=lambda n: ["Sums", "Shapes"][n % 2],
        ),
        "Label is one of Shapes, Sums, and no prompt asks for these",
        2,
    ),
    "a list in which each is in brackets": Asked(
        rows(8, question=ask, answer=lambda n: f"(jug {n}),(mug {n})"),
        "whether one of them is enough, all are wanted",
        3,
    ),
    "options without an answer": Asked(
        rows(
            6,
            **{
                "Question Text": ask,
                "Option (a)": lambda n: f"jug {n}",
                "Option (b)": lambda n: f"mug {n}",
            },
        ),
        "If no column has the answers, use a file that has them\nColumns:\n  Question Text: What stands on shelf 0? (prompt)\n  Option (a): jug 0 (options)\n",
        1,
    ),
    "objects for a grader of texts": Asked(
        rows(
            6,
            prompt=ask,
            answers=lambda n: [{"text": f"jug {n}", "points": 9 - k} for k in range(2)],
        ),
        "answers has objects, such as {'text': 'jug 0', 'points': 9}, and the grader any compares texts",
        2,
        ("--grader", "any"),
    ),
    "a prompt with places of a template": Asked(
        rows(
            6,
            prompt=lambda n: f"Does {{{{reply}}}} answer question {n}?",
            answer=lambda n: f"jug {n}",
        ),
        "have a place such as {{reply}}, which no record fills",
    ),
    "programs with tests, and no name to call": Asked(
        rows(
            4,
            prompt=lambda n: f"def pour_{n}():",
            canonical_solution=lambda n: f"    return {n}",
            test=lambda n: f"assert pour_{n}() == {n}",
        ),
        "its answers are programs, and how their tests run is not known",
    ),
    "records of which the prompt does not tell most": Asked(
        rows(
            20,
            query=lambda n: f"What is jug {n // 2}?",
            place=lambda n: [n, n + 1],
            answer=lambda n: f"oil {n}",
        ),
        "20 of 20 records have the prompt of another one",
    ),
    "programs with tests of another language": Asked(
        rows(
            4,
            name=lambda n: f"pour_{n}",
            prompt=lambda n: f"// Pour jug {n}.\nfunction pour_{n}() {{",
            tests=lambda n: f"assert(pour_{n}())",
            stop_tokens=lambda n: ["\n}"],
        ),
        "its answers are programs, and how their tests run is not known",
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_kind_is_asked_about_and_each_command_gets_further(written, name):
    case = ASKED[name]
    printed = written(source_of(case), *case.options)
    assert printed.startswith("failed") and case.asks in printed
    assert not Path("make_rows.py").exists()
    commands = again(printed)
    assert len(commands) == case.commands
    for command in commands:
        if "COLUMN" in " ".join(command):
            continue  # the reader's choice belongs there: see the next test
        further = written(*command, "--overwrite")
        if "..." in " ".join(command[1:]):  # the reader's own words belong there
            assert "write the words there that say what to do" in further
            said = [part.replace("...", "so") for part in command]
            further = written(*said, "--overwrite")
        assert not (further.startswith("failed") and case.asks in further)


@pytest.mark.parametrize(
    ("columns", "way", "choice"),
    [
        ({"told": ask, "by": str}, "--prompt '{COLUMN}' --expected COLUMN", {"{COLUMN}": "{told}", "COLUMN": "by"}),
        ({"told": ask, "by": BARN.format, "answer": str}, "--prompt '{COLUMN}'", {"{COLUMN}": "{told}"}),
        ({"question": ask, "by": str, "at": str}, "--expected COLUMN", {"COLUMN": "at"}),
    ],
)  # fmt: skip
def test_a_command_that_leaves_the_columns_to_the_reader(written, columns, way, choice):
    printed = written(source_of(Asked(rows(6, **columns), "")))
    assert all(f"  {name}: " in printed for name in columns)
    [command] = again(printed)
    assert f"../data.jsonl {way} " in printed
    assert not written(*[choice.get(part, part) for part in command]).startswith(
        "failed"
    )


def again(printed):
    """The arguments of the commands that are proposed."""
    start = r"(?ms)^  uv run python -m env_runtime\.rows (.*?)    # or copy with -d "
    return [shlex.split(command) for command in re.findall(start, printed)]


def test_a_number_in_a_list_of_its_own_is_a_number(written):
    columns = {"question": ask, "answer": lambda n: [f"{n + 14}.0"]}
    assert "grader: number" in written(source_of(Asked(rows(9, **columns), "")))


def test_a_label_of_the_topic_is_no_second_answer(written):
    columns = {
        "question": ask,
        "options": lambda n: [f"jug {n}", f"mug {n}"],
        "answer": lambda n: f"jug {n}",
        "label": lambda n: ["History", "Law"][n % 2],
    }
    assert "expected: answer (" in written(source_of(Asked(rows(12, **columns), "")))


def test_what_is_checked_wants_a_grade_of_its_own(written):
    checks = {"title_contains": "jug", "parts": 2}
    columns = {"question": ask, "expected": lambda n: {**checks, "room": n}}
    printed = written(source_of(Asked(rows(6, **columns), "")))
    assert "wants a grade of its own: expected names a rule" in printed


def test_answers_that_begin_alike_are_not_the_same(written):
    columns = {"question": ask, "answer": lambda n: f"{JUGS} {JUGS} It is jug {n}."}
    case = Asked(rows(6, **columns), "", options=("--grader", "judge"))
    assert "answers are" not in written(source_of(case), *case.options)


def test_a_scale_goes_from_the_least_to_the_greatest(written):
    columns = {"text": lambda n: f"{JUGS} {n}", "score": lambda n: str(9.5 - n)}
    case = Asked(rows(9, **columns), "", options=("--expected", "score"))
    printed = written(source_of(case), *case.options)
    assert "score is a number, from 1.5 to 9.5, and no prompt asks" in printed


def test_a_passage_of_several_questions_is_in_the_first_command(written):
    columns = {
        "lecture": lambda n: (
            f"{JUGS} It is jug {n // 4 * 4}, {n // 4 * 4 + 1}, 2 or 3."
        ),
        "question": ask,
        "answer": lambda n: f"{n // 4 * 4}" if n % 2 else "jug",
    }
    printed = written(source_of(Asked(rows(12, **columns), "")))
    assert "whether lecture belongs to the prompt is not clear" in printed
    assert "{lecture}" in str(again(printed)[0])


def test_calls_in_tags_want_a_grade_of_their_own(written):
    answer = "<think> First the jug. </think><tool_call>{}</tool_call>"
    columns = {"question": ask, "answer": lambda n: answer.format(n)}
    printed = written(source_of(Asked(rows(6, **columns), "")))
    assert "wants a grade of its own: answer has calls as one model writes" in printed


def test_measures_in_a_last_message_want_a_grade_of_their_own(written):
    said = {"fit": 0.85, "size": 0.25}
    columns = {
        "messages": lambda n: [
            {"role": "user", "content": f"Rate jug {n}: fit and size, as JSON only."},
            {"role": "assistant", "content": json.dumps({**said, "fit": n / 9 + 0.1})},
        ]
    }
    printed = written(source_of(Asked(rows(6, **columns), "")))
    assert "messages has objects with several measures, such as fit: 0.1" in printed


def test_a_document_in_a_last_message_is_compared_by_its_values(written):
    columns = {
        "messages": lambda n: [
            {
                "role": "user",
                "content": f"Is jug {n} full? Its room and state, as JSON.",
            },
            {"role": "assistant", "content": json.dumps({"room": n, "state": "full"})},
        ]
    }
    printed = written(source_of(Asked(rows(6, **columns), "")))
    assert "grader: json" in printed


def test_a_fraction_of_two_brackets_is_a_number(written):
    columns = {"question": ask, "answer": lambda n: f"(({n + 1})/(7))"}
    assert "grader: number" in written(source_of(Asked(rows(9, **columns), "")))


def test_options_with_their_letters_in_spanish(written):
    columns = {
        "enunciado": ask,
        "opciones": lambda n: [
            {"letra": "A", "texto": f"jarra {n}"},
            {"letra": "B", "texto": f"taza {n}"},
        ],
        "respuesta": lambda n: "AB"[n % 2],
    }
    assert "options: opciones" in written(source_of(Asked(rows(6, **columns), "")))


def test_words_that_an_answer_contains_want_a_grade_of_their_own(written):
    columns = {"question": ask, "expected_keywords": lambda n: [f"jug {n}", "oil"]}
    printed = written(source_of(Asked(rows(6, **columns), "")))
    assert "expected_keywords has words that an answer must contain" in printed
    assert "Write reward(answer) and oracle(task) in quiz.py" in printed


LEVELS = {
    "names": (lambda n: ["Easy", "hard", ""][n % 3], ["easy", "hard", None]),
    "few texts": (lambda n: f"Level {n % 2}", ["Level 0", "Level 1", "Level 0"]),
    "numbers": (lambda n: n % 2, [None] * 3),
    "many texts": (lambda n: f"step {n}", [None] * 3),
}


@pytest.mark.parametrize("name", LEVELS)
def test_a_difficulty_of_the_data_set_is_that_of_the_row(written, name):
    of, levels = LEVELS[name]
    found = rows(40, question=ask, difficulty=of, answer=lambda n: f"jug {n}")
    printed = written(source_of(Asked(found, "")))
    assert ("difficulty: difficulty" in printed) == any(levels)
    _, made = made_of("../data.jsonl")
    assert [row.difficulty for row in made[:3]] == levels


def test_a_column_without_a_name_is_no_difficulty(written):
    found = rows(6, **{"": str, "question": ask, "answer": lambda n: f"jug {n}"})
    written(source_of(Asked(found, "")))
    _, made = made_of("../data.jsonl")
    assert {row.difficulty for row in made} == {None}


ODD = ["who@x", "Tale: y", "a!r", "{b", "c}", "d[0]", "e.f", "7", "g h", "i{j}k"]


@pytest.mark.parametrize("name", ODD)
def test_a_column_with_an_odd_name_is_shown_or_to_be_renamed(written, name):
    of = rows(4, **{"question": ask, name: lambda n: f"{JUGS} It is day {n} there."})
    found = [record | {"answer": f"jug {n}"} for n, record in enumerate(of)]
    printed = written(source_of(Asked(found, "")))
    if name in ("who@x", "g h"):
        _, [row, *_] = made_of("../data.jsonl")
        assert "It is day 0 there" in row.prompt
        return
    assert f"no template can name the column {name!r}, which may belong" in printed
    assert "looked at 4" in written(*again(printed)[0], "--overwrite")


def test_an_odd_name_of_what_belongs_to_no_prompt_is_left_out(written):
    found = rows(4, **{"question": ask, "id: n": str, "answer": lambda n: f"jug {n}"})
    assert "that no template can have: id: n" in written(source_of(Asked(found, "")))


def test_answers_that_there_is_none_count_among_those_that_do_not_fit(written):
    def of(n):
        others = {7: "N/A", 11: "N/A", 13: "a dozen", 17: "few"}
        return others.get(n, str(n + 3))

    found = rows(60, question=ask, answer=of)
    printed = written(source_of(Asked(found, "")))
    assert "only 56 of 60 records fit the grader number" in printed
    known = [record for record in found if record["answer"] != "N/A"]
    assert "looked at 58 questions" in written(source_of(Asked(known, "")))


def test_the_docstring_of_doubts_lists_every_stage():
    listed = [line for line in str(asking.__doc__).splitlines() if line[:4] == "    "]
    stages = {name for line in listed for name in re.split(r", |  +", line.strip())}
    assert {*asking.DOUBTS} <= stages


def test_rows_of_nemo_gym_are_shown_with_what_earns(written):
    source = source_of(Asked(native("Use \\boxed{}.", expected_answer="Bo"), ""))
    printed = written(source)
    assert "| What stands on shelf 0? Use \\boxed{}." in printed
    assert "expected: expected_answer, such as 'Bo'" in printed
    assert "What earns 1.0: \\boxed{Bo}" in printed


def test_a_passage_that_the_prompt_does_not_name_is_told(written):
    found = rows(6, notes=lambda n: f"{JUGS} {n}", query_text=ask, answer=str)
    printed = written(source_of(Asked(found, "")), "--prompt", "{query_text}")
    assert "Query text: {query_text}' would show: notes" in printed


def test_two_columns_of_answers_are_compared_in_linear_time(written):
    def of(n):
        return {"question": ask(n), "answer": f"jug {n}", "target": f"mug {n}"}

    Path("../data.jsonl").write_text(
        "".join(f"{json.dumps(of(n))}\n" for n in range(3000))
    )
    start = time.process_time()
    assert "two columns could be the expected answer" in written("../data.jsonl")
    assert time.process_time() - start < 10


def test_texts_that_may_ask_nothing_are_looked_at_in_linear_time(written):
    asked = rows(50, text=ask, answer=lambda n: f"jug {n}")
    found = rows(60, passage=lambda n: f"{BARN} {n}" * 9, asked=lambda _: asked)
    source, started = source_of(Asked(found, "")), time.process_time()
    assert "looked at 3000 questions" in written(source)
    assert time.process_time() - started < 10


def test_a_date_of_a_parquet_file_is_a_date(written):
    found = rows(6, question=ask, answer=lambda n: datetime(2021, 3, n + 1))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(found), "../data.parquet")
    assert "What earns 1.0: \\boxed{2021-03-01}" in written("../data.parquet")


OTHER = {
    "another language": ({"language": "java"}, "line 1: its language is java"),
    "no solution": ({"canonical_solution": None}, "canonical_solution is None"),
    "no Python": ({"canonical_solution": "return x;}"}, "has no function f of Python"),
}


@pytest.mark.parametrize("name", OTHER)
def test_programs_that_the_sandbox_cannot_run_are_named(written, name):
    changed, said = OTHER[name]
    record: dict[str, Any] = {
        "prompt": "def f(x):\n",
        "canonical_solution": "    return x\n",
    }
    record |= {"entry_point": "f", "test": "def check(f): pass", **changed}
    assert said in written(source_of(Asked([record], "")), "--tests")


@pytest.mark.parametrize("gold", ["9 (pears)", "$13-2 k$", "8 metres"])
def test_the_gate_writes_golds_as_people_do(gold):
    row = {
        "responses_create_params": {"input": "How many?"},
        "ground_truth": [{"expected_answer": gold}],
    }
    solutions = {0: f"\\boxed{{{gold}}}"}
    check_written([row], solutions, lambda _, text: Text(gold).reward(text) == 1.0)
    with pytest.raises(GateError, match="earns less"):
        check_written([row], solutions, lambda _, text: gold in text)


def test_an_object_among_golds_is_no_option():
    asked = "Which fits? A. jar 1 B. pot 1"
    assert lettered([{"text": "jar 1"}, "pot 1"], asked) == [
        {"text": "jar 1"},
        "pot 1",
        "B",
    ]


def test_a_gold_in_a_box_is_what_is_in_it():
    grader = Text("\\boxed{n\\sin t}")
    assert grader.reward("\\boxed{n \\sin t}") == 1.0
    assert grader.reward(grader.solution()) == 1.0
    assert grader.reward("\\boxed{t}") == 0.0


EARLIER = """
import json
import re
import sys
from pathlib import Path
from env_runtime.graders import INSTRUCTIONS, Choice
from env_runtime.rows import Example, Record, filled, functions_in, golds_of
from env_runtime.rows import labels_of, last_box, letter_of, options_of, shuffled, with_images

PROMPT = "{question}"

def example(record: Record) -> Example | None:
    if record["question"] in (None, ""):
        return None
    options = options_of(record["choices"])
    expected = letter_of(record["answer"], range(26))
    if not Choice.takes(expected, options):
        return None
    parts = [filled(PROMPT, record), Choice.listed(options), INSTRUCTIONS]
    task = {"options": options, "expected_answer": expected}
    return Example("\\n\\n".join(parts), task)
"""


def test_a_judge_reads_a_list_of_references_as_one_text(written):
    found = rows(6, question=ask, answer=lambda n: [JUGS, BARN])
    written(source_of(Asked(found, "")), "--grader", "judge")
    kind, [row, *_] = made_of("../data.jsonl")
    assert kind.oracle(row.task) == f"{JUGS}\nor: {BARN}"


def test_a_make_rows_of_an_earlier_release_makes_the_same_rows(written):
    found = rows(
        6, question=ask, choices=lambda n: [f"jug {n}", "mug"], answer=lambda n: n % 2
    )
    written(source_of(Asked(found, "")))
    _, made = made_of("../data.jsonl")
    Path("make_rows.py").write_text(EARLIER)
    assert made_of("../data.jsonl")[1] == made


def test_calls_in_the_assistants_last_message_are_the_answer(written):
    def said(n):
        call = {"name": "fill", "arguments": json.dumps({"jug": n})}
        return [
            {"role": "user", "content": f"Fill jug {n}."},
            {
                "role": "assistant",
                "tool_calls": [{"type": "function", "function": call}],
            },
        ]

    schema = {"type": "object", "properties": {"jug": {"type": "integer"}}}
    fill = {"type": "function", "function": {"name": "fill", "parameters": schema}}
    source = source_of(Asked(rows(6, messages=said, tools=lambda n: [fill]), ""))
    assert "grader: calls (each record has tools, and calls of them)" in written(source)
    kind, [_, row, *_] = made_of(source)
    assert kind.oracle(row.task) == [("fill", {"jug": 1})]
    assert row.prompt == [{"role": "user", "content": "Fill jug 1."}]


@pytest.mark.parametrize("calls", ["fill(3)", ["fill"], [{"function": "fill"}]])
def test_calls_of_another_form_are_no_answer(written, calls):
    said: list[dict[str, Any]] = [{"role": "user", "content": "Fill it."}]
    said.append({"role": "assistant", "content": None, "tool_calls": calls})
    printed = written(source_of(Asked(rows(6, messages=lambda n: said), "")))
    assert "no record has an answer" in printed


def test_two_printed_lists_are_no_list_of_texts():
    with pytest.raises(ValueError, match="expected JSON"):
        parsed("['jug'] or ['mug']")
    assert parsed("['the king's jug', 'ox']") == ["the king's jug", "ox"]


def test_an_answer_in_several_lines_of_csv_stays_one(written):
    with Path("../data.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["question", "answer"])
        table.writerows([[f"{ask(n)}\nSay it.", f"jug {n}"] for n in range(5)])
    assert "looked at 5 questions" in written("../data.csv")


def test_the_first_command_leaves_out_what_tells_the_answer(written):
    """A command that is copied as it is must not make rows that hold their answers."""
    notes = rows(
        6,
        question=ask,
        notes=lambda n: f"Jug {n} stands there, as the miller says.",
        answer=lambda n: f"Jug {n}",
    )
    printed = written(source_of(Asked(notes, "")))
    assert "it holds the answer" in printed and "first command leaves it out" in printed
    first, second = again(printed)
    assert "notes" not in first[2] and "{notes}" in second[2]
