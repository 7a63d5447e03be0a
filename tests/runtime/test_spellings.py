r"""Spellings: each way of writing a value earns, and none of a value that is built from it."""

import itertools
import json
import string
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from env_runtime.graders import Calls, Choice, Json, Number, Table, Text

MINUS = ["-", "\N{MINUS SIGN}", "\N{EN DASH}", "\N{NON-BREAKING HYPHEN}"]
GAPS = [" ", r"\,", "~", "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}", r"\quad "]
WRAPPED = [
    "{}",
    " {} ",
    "{}.",
    "${}$",
    "$${}$$",
    r"\({}\)",
    r"\[{}\]",
    "({})",
    r"\left({}\right)",
    "{{{}}}",
    r"{{\bf {}}}",
    r"\displaystyle {}",
    r"$\displaystyle {}$",
    r"\text{{{}}}",
    r"\mathbf{{{}}}",
    r"\mathrm{{\textbf{{{}}}}}",
    r"\boldsymbol{{{}}}",
    "**{}**",
    "`{}`",
]
UNITS = [
    *("m", " km", r"\text{ cm}", r"\,\text{cm}^2", " m²", r"\mathrm{~m}/\mathrm{s}^2"),
    *(
        " km/h",
        " miles per hour",
        " N·m",
        r" N \cdot m",
        r" m s^{-1}",
        " g/cm^3",
        " KM",
    ),
    *("°", r"^\circ", r"^{\circ}\text{C}", r"\degree", " °F", " degrees Celsius", " K"),
    *("%", r"\%", " percent", " €", r" \$", " USD", " dollars", " dollars per day"),
    *(" apples", " red apples", r"\text{ gift bags}", " (apples)", " cups of flour"),
    *(" people", " feet tall", " years old", " square units", " sq. ft.", " units^2"),
    *("/day", " per day", " meters per second squared", " times", " books left", " pm"),
    *(r"\,\frac{\text{m}}{\text{s}^2}", r" \dfrac{km}{h}"),
]


def box(text):
    return "\\boxed{" + text + "}"


def refused(grader, texts):
    """Those of the texts that earn nothing in a box."""
    return [text for text in texts if grader.reward(box(text)) != 1.0]


def paid(grader, texts):
    return [text for text in texts if grader.reward(box(text)) != 0.0]


def digits_of(number: Fraction) -> list[str]:
    """Ways of writing a number that is not negative, without a sign."""
    over, under = number.as_integer_ratio()
    forms = [
        f"{over}/{under}",
        f"{over} / {under}",
        f"{over}\N{FRACTION SLASH}{under}",
        rf"\frac{{{over}}}{{{under}}}",
        rf"\dfrac {{{over}}} {{{under}}}",
        rf"\frac{{{2 * over}}}{{{2 * under}}}",
    ]
    if over < 10:
        forms += [rf"\frac{over}{{{under}}}", rf"\tfrac {over} {{{under}}}"]
    if over < 10 and under < 10:
        forms += [rf"\frac{over}{under}", rf"\frac{{{over}}}{under}"]
    if 1 < under < over:
        whole, rest = divmod(over, under)
        forms += [f"{whole} {rest}/{under}", rf"{whole}\frac{{{rest}}}{{{under}}}"]
    if 1000 % under == 0:
        plain = f"{Decimal(over) / under:f}"
        exact = f"{Decimal(over * 100) / under:f}"
        forms += [plain, f"0{plain}", f"{exact}e-2", rf"{exact} \times 10^{{-2}}"]
        forms += [f"{exact}×10⁻²", f"{exact} x 10^-2", rf"{exact}\cdot 10^{{-2}}"]
    if under == 1:
        forms += [f"{over}.", f"{over}.0", f"{over}.00"]
        if over >= 1000:
            gaps = [",", "{,}", r",\!", "'", *GAPS[:5]]
            forms += [f"{over:,}".replace(",", gap) for gap in gaps]
    return forms


NUMBERS = [
    0,
    5,
    12,
    1250,
    10080,
    1234567,
    Fraction(3, 4),
    Fraction(5, 2),
    Fraction(1, 8),
]


@pytest.mark.parametrize("number", NUMBERS, ids=str)
def test_a_number_earns_in_each_spelling(number):
    plain = [
        f"{sign}{form}" for sign in ("", "+") for form in digits_of(Fraction(number))
    ]
    styled = [
        style.format(form) for style in WRAPPED for form in plain[:8] + plain[-8:]
    ]
    priced = [f"{sign}{number}" for sign in ("$", r"\$", "€", "US$", "USD ", "Rs. ")]
    counted = [f"{number}{unit}" for unit in UNITS]
    assert refused(Number(number), [*plain, *styled, *priced, *counted]) == []
    for sign in MINUS:
        below = [f"{sign}{form}" for form in digits_of(Fraction(number))]
        below += [style.format(f"{sign}{number}") for style in WRAPPED]
        below += [form.format(f"{sign}{number}") for form in ("${}", r"\${}", "{} km")]
        assert refused(Number(f"-{number}"), below) == []
        assert not number or paid(Number(number), below) == []


ONES = "one two three four five six seven eight nine ten eleven twelve sixteen thirty"
PARTS = "halves thirds fourths fifths sixths eighths ninths tenths twelfths twentieths"
SCALES = (
    "hundred thousand million billion trillion quadrillion quintillion milliard vigintillion "
    "zillion lakh lac crore dozen score gross googol googolplex myriad grand"
)
OPERATORS = [
    *(
        "over",
        "times",
        "plus",
        "minus",
        "point",
        "and",
        "or",
        "mod",
        "choose",
        "to the",
    ),
    *("divided by", "multiplied by", "less than"),
]
FUNCTIONS = "log ln exp sin cos tan arctan sqrt max gcd floor factorial squared cubed"
CONSTANTS = "pi e i tau phi infinity infinities π 𝑥 万 三 ½ ² ⁿ ! ^2 ' k M bn mn MM mio"
# Letters that are no symbols of units
VARIABLES = sorted({*string.ascii_letters} - {*"mgslhJVWNALKCF"})


def test_a_word_that_changes_a_number_is_no_unit():
    words = [
        *(word for one in ONES.split() for word in (one, f"{one}s", f"{one} apples")),
        *PARTS.split(),
        *(f"{part} of an apple" for part in PARTS.split()),
        *(
            word
            for scale in SCALES.split()
            for word in (scale, f"{scale}s", f"{scale}ths")
        ),
        *(
            f"{scale} {noun}"
            for scale in SCALES.split()
            for noun in ("km", "dollars", "cups of tea")
        ),
        *(
            f"{way} {one}"
            for way in OPERATORS
            for one in [*ONES.split(), "apples", "x", "dozen"]
        ),
        *(f"apples {way} {one}" for way in OPERATORS for one in ONES.split()),
        *FUNCTIONS.split(),
        *(
            f"{function} {word}"
            for function in FUNCTIONS.split()
            for word in ("x", "apples")
        ),
        *CONSTANTS.split(),
        *VARIABLES,
        *(f"{letter}^2" for letter in [*VARIABLES, *"sgh"]),
        *(f"{letter} apples" for letter in VARIABLES),
        *(
            "apples per dozen",
            "miles per two hours",
            "percent of ten",
            "kg^2",
            "apples^2",
        ),
        *("th", "and a half", "% %", "or six apples", "twenty-one", "half-dozens"),
        *(
            "mille",
            "millones",
            "tausend",
            "docenas",
            "centaines",
            "mil dollars",
            "fivehundreds",
            "tenfolds",
            "/xyz",
            "/two",
        ),
    ]
    gaps = ["", " ", r"\,", r"\ ", "-"]
    forms = [f"5{gap}{word}" for gap in gaps for word in words]
    forms += [rf"5\text{{ {word}}}" for word in words]
    forms += [f"5 ({word})" for word in words]
    forms += [f"${gap}5 {scale}" for gap in ("", " ") for scale in "mkKMBG"]
    forms += [f"{sign}5{scale}" for sign in ("$", "€") for scale in "mkKMBG"]
    forms += [
        f"5 {scale} {money}" for scale in "mkKM" for money in ("USD", "€", "dollars")
    ]
    assert paid(Number(5), forms) == []


@pytest.mark.parametrize(
    ("number", "others"),
    [
        (
            5,
            [
                "-5",
                "–5",
                "--5",
                "±5",
                "5/1/1",
                "5:1",
                "5,1",
                "5.5.5",
                "5 6",
                "[5]",
                r"\{5\}",
            ],
        ),
        (
            5,
            [
                "1/5",
                r"\frac15",
                "50",
                "500%x",
                "5^{2}",
                "5⁵",
                "⁵",
                "5_2",
                "5e",
                "5 x 10",
            ],
        ),
        (
            5,
            [
                r"5\frac{5}{2}",
                r"5\frac{0}{1}",
                "5 3/2",
                r"\sqrt{5}",
                r"5\pi",
                "5°30'",
                "5 5",
            ],
        ),
        (
            1,
            [
                r"2\frac{-1}{2}",
                "2 -1/1",
                r"\frac{1}{0}",
                "1/0",
                r"\frac{2}{1}",
                "0,001",
            ],
        ),
        (250, ["0,250", "000,250", ".250", "2,50", "25,0", "1/250"]),
        (
            1250,
            [
                "1,25",
                "12,50",
                "1.250",
                "1,2500",
                "(1,250)",
                "1, 250",
                "1,250,",
                "1 25 0",
            ],
        ),
        (10**5, ["10⁵", "10^5", "10^{5}"]),
    ],
)
def test_another_number_earns_nothing(number, others):
    assert paid(Number(number), others) == []


def test_a_unit_that_the_task_names_counts():
    for unit in ("pairs", "Äpfel", "元", "pizza"):
        assert (
            refused(Number(f"5 {unit}"), ["5", f"5 {unit}", rf"5\text{{ {unit}}}"])
            == []
        )
        assert paid(Number("5"), [f"5 {unit}"]) == []
    for unit in ("million", "dozen", "over two", "n", "k", "log", "万", "bn", "halves"):
        with pytest.raises(ValueError, match="expected a number"):
            Number(f"5 {unit}")


# ------------------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("text", "same", "others"),
    [
        (
            "105",
            ["105.0", "+105"],
            ["10⁵", "10^5", "10₅", "105!", "105²", "0105", "1,05"],
        ),
        (
            "x^2",
            ["x²", "x^{2}", "x ^ 2", r"\(x^2\)"],
            ["x2", "x^{2}2", "x", "2x", "x_2"],
        ),
        ("x^{10}", ["x¹⁰", "x^10"], ["x10", "x^{1}0", "x^1", "x^{100}"]),
        ("x2", ["x₂", "x2."], ["x²", "x^2"]),
        ("H2O", ["H₂O", "h2o"], ["H²O", "HO"]),
        (
            "5",
            ["5.0", "{\\bf 5}", "10/2", "5 ."],
            ["5!", "5'", "5₂", "5 m", "05", "⁵", "5..5"],
        ),
        ("-5", [f"{sign}5" for sign in MINUS], ["5", "--5"]),
        (
            "1000",
            [f"1{gap}000" for gap in [",", "{,}", *GAPS]],
            ["1 00 0", "1.000", "10^3"],
        ),
        (
            "5/2",
            ["2½", "2 1/2", r"2\frac12", "2.5", r"\frac5{2}"],
            ["21/2", "2/5", "2 1 2"],
        ),
        (
            r"\frac{1}{2}",
            [r"\frac1{2}", r"\frac{1}2", r"\frac12", "½", "1⁄2"],
            ["12", "1_2"],
        ),
        (r"\frac{x}{2}", [r"\frac {x} {2}", r"\dfrac{x}2"], [r"\frac{2}{x}", "x2"]),
        ("(1,250)", ["(1, 250)"], ["(1250)", "1250", "1,250"]),
        ("3.14159", [], ["3.14,159"]),
        ("f(x)", ["F(x).", "`f(x)`"], ["f'(x)", "f(x)!", "f(x)'"]),
        ("x+b", ["x + b"], ["a x+b", "ax+b"]),
        (r"\delta", [r"$\delta$"], [r"\Delta"]),
        ("$5", ["$5.00", r"\$5", "5"], ["€5", "5%", "$50"]),
        ("1990-1995", ["1990–1995", "1990—1995"], ["1990 1995"]),
        (
            "Paris",
            ["paris", '"Paris".', "“Paris”", "PARIS!", "the Paris"],
            ["Pari", "Paris B"],
        ),
    ],
)
def test_a_text_is_the_same_in_each_spelling_and_no_other(text, same, others):
    assert refused(Text(text), [text, *same]) == []
    assert paid(Text(text), others) == []


# ------------------------------------------------------------------------- choices

MARKS = [
    "{}",
    "({})",
    "[{}]",
    "Option {}",
    "choice ({})",
    r"\textbf{{({})}}",
    "**{}**",
    "${}$",
]
BETWEEN = [". ", ") ", ": ", ", ", " - ", " – ", " — ", " − ", " ", ".", r".\ ", "\xa0"]


def test_an_option_is_named_in_each_spelling():
    cities = ["Lima", "Oslo", "Rome", "Quito"]
    for letter, city in zip("ABCD", cities, strict=True):
        names = [mark.format(one) for mark in MARKS for one in (letter, letter.lower())]
        both = [f"{name}{gap}{city}" for name in names[:6] for gap in BETWEEN]
        both += [f"{letter} ({city})", rf"\text{{{letter}. {city}}}"]
        ends = [f"{letter}{end}" for end in ".):,"]
        grader = Choice(letter, cities)
        assert refused(grader, [*names, *both, *ends, city, rf"\text{{{city}}}"]) == []
        assert Choice(city, cities).solution() == box(letter)
        for other, text in zip("ABCDE", [*cities, "Bern"], strict=True):
            if other != letter:
                pairs = [f"{letter}{gap}{text}" for gap in BETWEEN]
                pairs += [f"{other}{gap}{city}" for gap in BETWEEN]
                pairs += [f"{letter} {way} {other}" for way in ("or", "and", "/", "")]
                assert paid(grader, [other, text, *pairs]) == []
        assert paid(grader, [f"not {letter}", f"{letter}{letter}", f"{letter}-"]) == []


@pytest.mark.parametrize(
    "options",
    [
        ["A", "C", "D", "E"],
        ["A) Lima", "C) Oslo", "D) Rome"],
        ["(A) Lima", "(B) Oslo"],
    ],
)
def test_letters_that_options_have_are_their_own(options):
    letters = [next(filter(str.isalpha, option)) for option in options]
    assert Choice.listed(options) == "\n".join(options)
    for place, letter in enumerate(letters):
        grader = Choice(letter, options)
        assert (grader.index, grader.solution()) == (place, box(letter))
        assert paid(grader, [each for each in "ABCDE" if each != letter]) == []
        assert refused(grader, [letter, options[place]]) == []


@pytest.mark.parametrize(
    ("options", "unclear"),
    [
        (["C", "C++", "C#"], {"C", "C#"}),
        (["B", "A", "D", "C"], {*"ABCD"}),
        (["b", "c", "red"], {*"abc", "red"}),
        (["Lima", "(A)"], {"(A)"}),
    ],
)
def test_a_letter_that_may_mean_two_options_is_refused(options, unclear):
    for option in {*options, *unclear}:
        assert Choice.takes(option, options) == (option not in unclear)
        if option in unclear:
            with pytest.raises(
                ValueError, match="is the letter of an option, and the text"
            ):
                Choice(option, options)
    for option in {*options} - unclear:
        assert paid(Choice(option, options), unclear) == []


def test_options_need_texts_or_letters():
    for options in (["", ""], ["Lima", ""], ["A) Lima", "B)"], ["A) Lima", "B) lima"]):
        with pytest.raises(ValueError, match="options must be different texts"):
            Choice("A", options)


# ------------------------------------------------------------------- documents, rows, calls


def test_a_document_is_read_in_each_fence():
    document = {"a": [1, 2.5], "text": "```\nx\n```", "id": 20240101001}
    fences = [
        "```json\n{}\n```",
        "```\n{}\n```",
        "Here:\n```JSON \n{}\n```  \nDone",
        "```\n{}```",
    ]
    for fence, indent, end in itertools.product(
        ["{}", *fences], [None, 2], ["\n", "\r\n"]
    ):
        text = fence.replace("{}", json.dumps(document, indent=indent))
        assert Json(document).reward(text.replace("\n", end)) == 1.0, (fence, end)
        wrong = text.replace("20240101001", "20240101002")
        assert Json(document).reward(wrong.replace("\n", end)) == 0.0
    two = "```json\n{}\n```\n".replace("{}", json.dumps(document))
    assert (
        Json(document).reward(two + two) == Json(document).reward(two + "```\n") == 0.0
    )


def test_cells_of_each_type_are_the_same_number_and_no_other():
    whole = [0, 1, 10**8, 20240101001, 2**53, 10**15, 2**60, 10**23, 3 * 10**28]
    for number in [*whole, *(-n for n in whole)]:
        for same in (number, float(number), Decimal(number)):
            assert Table([(number,)]).reward([(same,)]) == 1.0, number
        for other in (
            number + 1,
            str(number),
            None,
            Decimal(number + 1),
            str(number).encode(),
        ):
            assert Table([(number,)]).reward([(other,)]) == 0.0, (number, other)
    for parts in (0.3, 1234.56, 1234567890.5, 98765432109.87):
        for same in (parts, Decimal(str(parts)), parts * (1 + 2e-16), parts / 3 * 3):
            assert Table([(parts,)]).reward([(same,)]) == 1.0, parts
        for other in (parts * (1 + 1e-7), -parts, parts + 1):
            assert Table([(parts,)]).reward([(other,)]) == 0.0, parts
    for odd in (
        float("nan"),
        Decimal("sNaN"),
        Decimal("1e999999"),
        10**400,
        float("-inf"),
    ):
        assert Table([(odd,)]).reward([(odd,)]) == 1.0
        assert Table([(1,)]).reward([(odd,)]) == 0.0


def test_rows_are_no_texts_and_no_objects():
    """Their letters, or their keys, would be compared."""
    rows: list[Any] = [{"a": 1}, "a"]
    for row in rows:
        with pytest.raises(ValueError, match="expected rows as lists"):
            Table([row])
        assert Table([("a",)]).reward([row]) == 0.0


def test_a_value_of_a_call_is_the_same_in_type_and_place():
    values = [
        1,
        True,
        "1",
        None,
        [],
        {},
        [1],
        {"0": 1},
        [[1]],
        "",
        0,
        False,
        1.5,
        10**15 + 1,
    ]
    for one, other in itertools.product(values, values):
        same = Calls([("f", {"a": one})]).reward([("f", {"a": other})])
        assert same == float(json.dumps(one) == json.dumps(other)), (one, other)
    assert Calls([("f", {"a": {0: 1}})]).reward([("f", {"a": [1]})]) == 0.0
    assert Calls([("f", {"a": 1})]).reward([("f", {"a": 1.0})]) == 1.0
    with pytest.raises(ValueError, match="expected calls with JSON's values"):
        Calls([("f", {"a": float("nan")})])


@pytest.mark.parametrize(
    "grader", [Number("5"), Text("five"), Choice("B", ["Lima", "Oslo"]), Json({"a": 1})]
)
def test_a_repeated_spelling_takes_no_time(grader):
    pieces = [
        ".",
        "!",
        '".',
        "₁",
        "¹",
        r"{\bf ",
        r"\text{",
        r"\frac ",
        "1,000,",
        "```json\n",
    ]
    pieces += ["```\n", "``` ", "( ", "per ", r"\(", "**", "$"]
    start = time.process_time()
    for piece in pieces:
        for text in (piece * (99_000 // len(piece)), piece * (190 // len(piece))):
            for answer in (text + "x", box(text + "x"), box(f"5 {text}x")):
                assert grader.reward(answer) == 0.0
    assert time.process_time() - start < 10
