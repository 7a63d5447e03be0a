"""Answers as people and models write them: boxes, numbers, formulas, short texts."""

import re
import unicodedata
from fractions import Fraction
from typing import Any

_BRACE = re.compile(r"\\boxed\s*\{|\\[{}]|[{}]")
_STYLE = re.compile(r"\\(?:text|text(?:bf|it|rm)|math(?:rm|bf|it)|mbox)\s*\{([^{}]*)\}")
_SPACE = re.compile(r"\\[ ,;:!]|~")
_MARKED = re.compile(r"\s*(\$|\*\*)(.*)(?<!\\)\1\s*", re.DOTALL)


def boxes_in(text: str) -> list[str | None]:
    """The contents of a text's boxes, in order; None for a box without an end.

    A box in a box is a part of the outer one, and an empty box is left out.
    """
    found: list[str | None] = []
    start, depth = -1, 0
    for match in _BRACE.finditer(text):
        brace = match[0]
        if depth and brace == "}":
            depth -= 1
            if not depth and text[start : match.start()].strip():
                found.append(text[start : match.start()].strip())
        elif depth and not brace.startswith("\\{") and brace != "\\}":
            depth += 1
        elif brace.startswith("\\boxed"):
            start, depth = match.end(), 1
    return [*found, None] if depth else found


def last_box(text: Any) -> str | None:
    r"""The content of a text's last \boxed{}, as solutions have it; None without one."""
    return next(reversed(boxes_in(str(text))), None)


# -3, 1,250.75, 3/4, \frac{3}{4}, 2\frac{1}{2}, 1.5e-3, 2 \times 10^{6}. A currency before
# it, and a currency, a percent sign, degrees or a unit behind it, is left out.
_NUMBER = re.compile(
    r"""
    (?P<sign> [-+\u2212]?) \s* (?:\\?[$€£¥])? \s*
    (?:
        (?P<whole> \d{1,40} )? \s* \\[dt]?frac \s*
        (?: [{](?P<over> -?\d{1,40} )[}] \s* [{](?P<under> [1-9]\d{0,39} )[}]
          | (?P<short> \d[1-9] ) )
      | (?P<plain> \d{1,40} \s* / \s* [1-9]\d{0,39}
          | (?: (?: \d{1,40} | \d{1,3} (?: (?: , | [{],[}] | \  ) \d{3} ){1,12} )
                (?: \.\d{0,40} )? | \.\d{1,40} )
            (?: e[-+]?\d{1,2} | \s* (?: \\times | \\cdot | × ) \s* 10 \s* \^
                (?: \d | [{] -?\d{1,2} [}] ) )? )
    )
    \s*
    (?P<unit> \\?[%$€£¥] | (?: \^ [{]? \\circ [}]? | ° ) (?: \s* [CF] )? | [℃℉]
      # a unit of one or two words, but no factor, constant or variable
      | (?! .* (?<! [^\W\d_] ) (?: or | and | b | bln | bn | mil | mio | mln | mn | mrd | tn
            | squared | cubed | factorial | pi | [eixyz] | (?-i: [kM] )
            | (?: dozen | hundred | thousand | lakh | crore | [mbtr]+illi(?: on | ard ) )
              (?: s | ths? )? ) \b )
        (?! (?<! \s ) (?-i: [GKT] ) \b )
        (?: [(] [^\W\d_]{2,20} (?: \ [^\W\d_]{1,20} ){0,3} [)]
          | [^\W\d_]{1,20} (?: \ [^\W\d_]{1,20} )? (?: / [^\W\d_]{1,20} )? )
        # and a power of a length, or below a slash of a second
        (?: (?: (?<= /s | [\W\d_]m ) | (?<= [\W\d_] (?: [cdkmnµμ]m | ft | in | yd | mi ) ) )
            \^ (?: [23] | [{] [23] [}] ) )?
    )? \.?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_POWERS = {ord(digit): f"^{n}" for n, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_SEPARATORS = re.compile(r"\{,\}|,|\s")
_POWER = re.compile(r"(?:\\times|\\cdot|×)10\^\{?(-?\d+)\}?")


def number_in(text: str) -> Fraction | None:
    """The number that a text is; None for a formula, a code of two numbers, words."""
    text = unstyled(text).strip() if len(text) <= 200 else ""
    text = _VULGAR.sub(_as_frac, text.translate(_POWERS))
    match = _NUMBER.fullmatch(text) if text.isprintable() else None
    if match is None or any(map(_is_value, match["unit"] or "")):
        return None
    if plain := match["plain"]:
        number = Fraction(_POWER.sub(r"e\1", _SEPARATORS.sub("", plain)))
    else:
        over, under = match["short"] or (match["over"], match["under"])
        number = int(match["whole"] or 0) + Fraction(int(over), int(under))
    return -number if match["sign"] in ("-", "\u2212") else number


def _is_value(character: str) -> bool:
    """Whether a character of a unit is rather a number or a variable: 万, π, ⁿ, 𝑥."""
    form = unicodedata.decomposition(character)
    is_variable = character == "π" or form.startswith(("<super>", "<font>"))
    is_number = character.isnumeric() and not character.isdecimal()
    return is_number or (is_variable and character != "ℓ")  # a liter


def _as_frac(vulgar: re.Match[str]) -> str:
    over, under = unicodedata.normalize("NFKC", vulgar[0]).split("\N{FRACTION SLASH}")
    return "\\frac{" + over + "}{" + under + "}"


def unstyled(text: str) -> str:
    r"""A text without \text{}, $ and ** around it, and with plain spaces."""
    text = _SPACE.sub(" ", _STYLE.sub(r"\1", text.replace("\\!", "")))
    marked = _MARKED.fullmatch(text)
    return marked[2] if marked else text


def normal(text: str) -> str:
    """A text for comparisons: without LaTeX's styles and escapes, case and padding."""
    return _plain(re.sub(r"\\([{}%$&#_])", r"\1", unstyled(text)))


_EDGES = re.compile(r"^[\s\"'“”‘’«»`]+|[\s\"'“”‘’«».,;:!?`]+$")
_CHARACTERS = str.maketrans("\u2212\u2019\u2018", "-''")
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)")
_COMMA = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def _plain(text: str) -> str:
    """A text for comparisons: one form of each character, no case, no padding."""
    text = unicodedata.normalize("NFKC", text).translate(_CHARACTERS).casefold()
    text = " ".join(_COMMA.sub("", text).split())
    return _ARTICLE.sub("", _EDGES.sub("", text)) or text


# Spellings of the same formula
_SPELLINGS = [
    (re.compile(r"\\(?:left|right)(?![a-z])"), ""),
    (re.compile(r"\\[dt]frac"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\sqrt\s*(\w)"), r"\\sqrt{\1}"),
    (re.compile(r"([\^_])\s*\{\s*(\w)\s*\}"), r"\1\2"),
    (re.compile(r"(?<!\w) | (?!\w)"), ""),  # spaces that part no words
]


def spelled(text: str) -> str:
    for pattern, instead in _SPELLINGS:
        text = pattern.sub(instead, text)
    return text


def plain_number(text: str) -> Fraction | None:
    """The number of a text without a unit; 007 is a code."""
    if re.search(r"[^\W\d_]", re.sub(r"\\[a-z]+", "", text)) or re.match(r"0\d", text):
        return None
    return number_in(text)
