"""Answers as people write them: boxes, numbers, formulas, short texts."""

import functools
import re
import unicodedata
from fractions import Fraction
from typing import Any, NamedTuple

_BRACE = re.compile(r"\\boxed\s*\{|\\[{}]|[{}]")


def boxes_in(text: str) -> list[str | None]:
    """The contents of a text's boxes, in order; None for a box without an end.

    A box in a box is a part of the outer one, and an empty box is left out.
    """
    found: list[str | None] = []
    if "\\boxed" not in text:
        return found
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


# ------------------------------------------------------------------------- styles

_INNER = r"((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\}"  # with braces in braces
_STYLE = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:rm|bf|it|sf|tt|normal)|mbox|boldsymbol"
    r"|bm|emph|operatorname|underline)\s*\{"
    + _INNER
    + r"|\{\s*\\(?:bf|it|rm|sf|tt|em)(?![a-zA-Z])"
    + _INNER
)
_SWITCH = re.compile(
    r"\\(?:(?:display|text|script)style|bf|it|rm|sf|tt|em|large|Large)(?![a-zA-Z])\s*"
)
_SPACE = re.compile(r"\\[ ,;:>]|~|\\(?:q?quad|thinspace|enspace)(?![a-zA-Z])")
_MARKED = re.compile(
    r"\s*(?:(\$|\*\*|`)(.*)(?<!\\)\1|\\\((.*)\\\)|\\\[(.*)\\\])\s*", re.DOTALL
)
_NESTED = 3  # so many styles are read one in the other
_STYLED = re.compile(r"[\\{$*`~]")  # one of these is in every style
# A row's class, its oracle and make_rows.py read the same texts one after the other.
remembered = functools.lru_cache(maxsize=128)


def unstyled(text: str) -> str:
    r"""A text without \text{}, $, \( and ** around it, and with plain spaces."""
    if not _STYLED.search(text):
        return text
    text = text.replace("\\!", "")
    for _ in range(_NESTED):
        text = _STYLE.sub(lambda match: match[1] or match[2] or "", text)
    text = _SPACE.sub(" ", _SWITCH.sub("", text))
    for _ in range(_NESTED):
        if marked := _MARKED.fullmatch(text):
            text = marked[2] or marked[3] or marked[4] or ""
    return text


_RAISED = re.compile("[⁺⁻]?[⁰¹²³⁴-⁹]+")
_LOWERED = re.compile("(?<=[0-9])[₀-₉]+|(?<![₀-₉])[₀-₉]+(?=[0-9])")
_VULGAR = re.compile("[¼-¾⅐-⅞↉]|(?<![⁰¹²³⁴-⁹])[⁰¹²³⁴-⁹]+\N{FRACTION SLASH}[₀-₉]+")
_SIGNS = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d", "-")
    | dict.fromkeys("\u2044\u2215", "/")
    | dict.fromkeys("\u2018\u2019", "'")
    | {"ё": "е", "Ё": "Е"}
)


def typed(text: str) -> str:
    """A text with 10⁵ as 10^{5} and ½ as a fraction: Unicode's plain forms are 105, 1/2."""
    if text.isascii():
        return text
    text = _VULGAR.sub(_as_frac, text)
    text = _RAISED.sub(lambda m: "^{" + unicodedata.normalize("NFKC", m[0]) + "}", text)
    text = _LOWERED.sub(
        lambda m: "_{" + unicodedata.normalize("NFKC", m[0]) + "}", text
    )
    return text.translate(_SIGNS)


def _as_frac(vulgar: re.Match[str]) -> str:
    over, under = unicodedata.normalize("NFKC", vulgar[0]).split("\N{FRACTION SLASH}")
    return "\\frac{" + over + "}{" + under + "}"


# ------------------------------------------------------------------------- numbers


def _words(text: str) -> set[str]:
    return {*text.split()}


_MONEY = r"(?:US|AU|CA|HK|NZ|NT|A|C|R|S)?\\?[$€£¥¢₹₽₩₺₪₱฿₫]|\\(?:pounds|euro)(?![a-z])"
_CODES = _words(
    "USD EUR GBP JPY INR CNY RMB AUD CAD CHF HKD KRW MXN NZD PKR BRL SGD ZAR Rs"
)
_NUMBER = re.compile(
    r"""
    (?P<sign> [-+]? ) \s* (?P<money> MONEY | (?: CODES ) \.? (?! [^\W\d_] ) )? \s*
    (?P<inner> [-+]? ) \s*
    (?: (?P<whole> INT )? \s* \\(?: [cdt]? | nice | s )frac \s*
            (?P<over> \d | [{] \s* -? INT \s* [}] ) \s*
            (?P<under> \d | [{] \s* -? INT \s* [}] )
      | (?P<first> INT ) \  (?P<second> [1-9]\d? \s*/\s* [1-9]\d? ) (?! \d )  # 2 1/2
      | (?P<ratio> INT \s*/\s* INT )
      | (?P<decimal> INT (?: \.\d{0,40} )? | \.\d{1,40} )
        (?: e (?P<e> [-+]?\d{1,2} ) (?! \d ) | \s* (?: \\times | \\cdot | [×·⋅*x] ) \s*
            10 \s* \^ \s* (?: (?P<bare> -?\d{1,2} ) (?! \d ) | [{] \s*
            (?P<power> [-+]?\d{1,2} ) \s* [}] ) )?
    )
    (?P<unit> .* )
    """.replace("MONEY", _MONEY)
    .replace("CODES", "|".join(sorted(_CODES)))
    .replace(  # 1,250 and, as in India, 1,25,000
        "INT",
        r"(?: [1-9]\d{0,2} (?: (?: , | [{],[}] | \  | ' ) \d{3} ){1,12} (?! \d )"
        r" | [1-9]\d? (?: ,\d\d ){1,6} ,\d{3} (?! \d ) | 0 (?: ,000 )+ (?! \d )"
        r" | \d{1,40} )",
    ),
    re.VERBOSE | re.IGNORECASE,
)


_PLAIN = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?")


class Quantity(NamedTuple):
    """A number, and the text of its unit, be it one or not."""

    number: Fraction
    unit: str
    money: str  # the currency before it


@remembered
def quantity_in(text: str) -> Quantity | None:
    """The number at the beginning of a text, and what follows it; None without one."""
    if _PLAIN.fullmatch(text):
        return Quantity(Fraction(text), "", "")
    text = unstyled(text.replace(",\\!", "{,}")) if len(text) <= 200 else ""
    text = re.sub(r"\\(?:left|right)(?![a-zA-Z])", "", typed(text)).strip()
    text = re.sub(r"^\$([^$]*)(?<!\\)\$(?=\s*[^\d\s])", r"\1 ", text)  # $5$ cm
    # ((2)/(3)), as Math23K has it
    text = re.sub(r"\((\d+)\)/\((\d+)\)", r"\1/\2", text)
    is_pair = "," in text.replace("{,}", "")  # (1,250)
    while text[:1] + text[-1:] in ("{}", "()"[is_pair:]):
        text = text[1:-1].strip()
    if "\n" in text or not (text := re.sub(r"\s+", " ", text)).isprintable():
        return None
    match = _NUMBER.fullmatch(text.replace("{-}", "-"))
    if match is None or (match["sign"] and match["inner"]):
        return None
    if match["money"] and re.fullmatch(r" ?[^\W\d_]", match["unit"]):  # $5m, $5 K
        return None
    number = _value(match)
    if number is None:
        return None
    if "-" in (match["sign"], match["inner"]):
        number = -number
    return Quantity(number, match["unit"], match["money"] or "")


def _value(match: re.Match[str]) -> Fraction | None:
    """The number without its sign; None for one over zero, and for 2 and 5/2."""
    if decimal := match["decimal"]:
        power = match["e"] or match["bare"] or match["power"] or "0"
        return Fraction(f"{_digits(decimal)}e{power}")
    whole = match["whole"] or match["first"]
    if match["over"]:
        over, under = match["over"], match["under"]
    else:
        over, under = (match["second"] or match["ratio"]).split("/")
    over, under = int(_digits(over)), int(_digits(under))
    if not under or (whole and not 0 < over < under):  # a product, or a mixed number
        return None
    return Fraction(over, under) + int(_digits(whole or "0"))


def _digits(text: str) -> str:
    return re.sub(r"[{},'\s]", "", text)


def number_in(text: str, unit: str = "") -> Fraction | None:
    """The number that a text is; None for a formula, a code of two numbers, words.

    It may have a unit that is known, or this one.
    """
    found = quantity_in(text)
    if found is None or not (is_unit(found.unit) or same_unit(found.unit, unit)):
        return None
    return found.number


def plain_number(text: str) -> tuple[Fraction, str] | None:
    """The number of a text, and its currency, % or °; 007 is a code, and 5 m a text."""
    found = quantity_in(text)
    if found is None or re.match(r"-?0\d", text):
        return None
    signs = _tidy(found.money + found.unit)
    is_sign = signs in ("", "%", "°") or re.fullmatch(_MONEY, signs)
    return (found.number, signs) if is_sign else None


_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_NUMBERS = {word: number for number, word in enumerate(_UNITS.split())}
_NUMBERS |= {word: 10 * number for number, word in enumerate(_TENS.split(), start=2)}
_SAID = re.compile(rf"(?:({_TENS.replace(' ', '|')})[ -])?([a-z]+)")


def _said_number(text: str) -> tuple[Fraction, str] | None:
    """The number that words say, below a hundred: `seven`, `thirty-two`."""
    found = _SAID.fullmatch(text.casefold())
    if not found or (unit := _NUMBERS.get(found[2])) is None:
        return None
    if found[1] and not 0 < unit < 10:
        return None
    return Fraction(_NUMBERS.get(found[1], 0) + unit), ""


def same_number(one: str, other: str) -> bool:
    """Whether two texts are the same number. One of them may lack a currency, % or °."""
    found, others = (plain_number(text) or _said_number(text) for text in (one, other))
    if found is None or others is None or found[0] != others[0]:
        return False
    return found[1] == others[1] or not (found[1] and others[1])


def same_count(text: str, expected: str) -> bool:
    """Whether a text is the number of an expected one that has a unit: 9, of 9 (pears).

    It may have that unit, too. A name, as in 12 Angry Men, is no unit.
    """
    found, others = quantity_in(expected), quantity_in(text)
    if found is None or others is None or found.number != others.number:
        return False
    is_name = re.search(r"[A-Z][a-z]{2}", found.unit) or re.match(r"-?0\d", expected)
    if is_name or found.money or not _tidy(found.unit) or not is_unit(found.unit):
        return False
    bare = plain_number(text)
    return (bare is not None and not bare[1]) or same_unit(found.unit, others.unit)


# ------------------------------------------------------------------------- units

# A symbol of one letter counts as it is written: in a formula, others are variables.
_PREFIXES = {
    "m": "nµumcdk",
    "g": "µmk",
    "s": "nµm",
    "l L": "mcd",
    "J V W N A Ω": "mkM",
    "Wh Hz eV Pa": "kMG",
    "mol cal": "mk",
    "B": "kKMGT",
}
_SYMBOLS = {
    prefix + symbol
    for symbols, prefixes in _PREFIXES.items()
    for symbol in symbols.split()
    for prefix in ["", *prefixes]
} - {"B"}
_SYMBOLS |= _CODES | _words(
    "% ° °C °F $ € £ ¥ h ℓ K C F ft in yd mi lb lbs oz sec secs min mins hr hrs yr yrs wk "
    "wks mo mos am pm gal qt tsp tbsp cc hp bar atm psi dB rad deg mph kph kmh rpm bpm ppm "
    "fps px ha"
)
_FACTORS = _SYMBOLS - _CODES - {*"%°$€£¥", "am", "pm"}  # of N m
_ANY_CASE = {each.casefold() for each in _SYMBOLS if len(each) > 1} - {"mm", "mn"}
_LENGTHS = _words("m ft in yd mi foot feet inch inches yard mile unit meter metre")
# Units, and what is counted without an -s
_NOUNS = _LENGTHS | _words(
    "gram kilo pound ounce ton tonne liter litre gallon quart pint cup tablespoon teaspoon "
    "second minute hour day week month year decade dollar euro cent penny pence yen yuan won "
    "rupee baht peso degree radian percent celsius fahrenheit kelvin joule newton watt volt "
    "ampere amp ohm hertz pascal mole byte bit acre hectare calorie people person men women "
    "children fish sheep deer mice teeth geese dice times"
)
_PLURAL = re.compile(r"[a-z]{2,}[^siu\W]s")
_SCALE = re.compile(r"(?:kilo|centi|milli|micro|mega|giga)(?=[a-z]{3})")
# These words change the value of the number before them, so they are no units.
_NUMERAL = re.compile(
    r"(?:zero|zeroe|nil|one|two|three|four|five|six|sixe|seven|eight|nine|ten|eleven|twelve"
    r"|(?:thir|four|fif|six|seven|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|nine)t"
    r"(?:y|ie)|fif|eigh|nin|twelf|first|third|half|halve|hundred|thousand"
    r"|[a-z]*[b-z]illi(?:on|ard)|dozen|gross|score|myriad|grand|googol|googolplex|lakh|lac"
    r"|[ck]rore|arab|kharab|mega|giga|tera"
    r"|(?:sing|doub|trip|quadrup|quintup)le"
    # in French, Spanish and German
    r"|millier|mille|millone|millare|ciento?|cent[ae]na|centaine|decena|di[xz]aine|douzaine"
    r"|do[cz]ena|tausend|hundert|dutzend|cinco|siete|ocho|nueve|diez|deux|troi|quatre|cinq"
    r"|sept|huit|neuf|zwei|drei|vier|sech|acht|neun|zehn)+(?:s|d|ths?|folds?|somes?)?"
)
# So do these, unless the expected value has them.
_GROUPS = re.compile(
    r"(?:couple|pair|duo|trio|quarter|(?:quart|quint|sext|oct|non)et|ream)s?"
)
_OPERATORS = _words(
    "and nor not but plus minus add added over into from than less times divided multiplied "
    "subtract subtracted increased decreased raised power mod modulo modulus point dot comma "
    "cross choose root squared cubed factorial exponent sin sine sines sinh cos cosine cosines "
    "cosh tan tangent tanh arcsin arccos arctan cot sec csc log logarithm exp sqrt lim max min "
    "gcd lcm det abs floor ceil ceiling inf infinity infinities infinite nan undefined equals "
    "equal negative positive tau phi euler until without except nought naught once twice "
    "thrice mil bil tril bln mln mio mrd cien dos tres seis"
)
_TAIL = re.compile(
    r" (?:left|old|tall|long|wide|high|deep|away|apart|ago|remaining|altogether|overall|each"
    r"|apiece|more|fewer|(?:in )?total|in all)$"
)
_ATOM = re.compile(r"([^\W\d_]+|[%°]|°[CF]|[$€£¥])(?:\^\{?([-+]?\d)\}?)?")
_BELOW = re.compile(r"( ?/ ?|(?:^| )(?:per|an?|each|every|of) )")


def is_unit(text: str) -> bool:
    """Whether what follows a number is a unit, or what is counted.

    Neither changes the number: 5 km, 5 m/s^2, 5 miles per hour, 5 red apples. Numerals,
    operators, functions and variables do: 5 dozen, 5 over two, 5 log, 5 n.
    """
    if not text:
        return True
    if re.match(r"[KGT](?![a-z])", text):  # 5K is no 5 kelvin
        return False
    if (text := _tidy(text)) in ("", "%", "°") or re.fullmatch(_MONEY, text):
        return True
    above, *below = _BELOW.split(text)  # with what parts them
    if above and not _is_counted(above):
        return False
    if not above and not text.startswith(("/", "per ")):
        return False
    pairs = zip(below[::2], below[1::2], strict=True)
    return all(_is_below(text, is_word="/" not in by) for by, text in pairs)


def same_unit(one: str, other: str) -> bool:
    """Whether two texts that follow numbers are the same."""
    return _tidy(one).casefold() == _tidy(other).casefold()


def may_be_unit(text: str) -> bool:
    """Whether an author may mean a text as a unit: any words that are no numbers."""
    if is_unit(text):
        return True
    words = _tidy(text).casefold().split()
    return 0 < len(words) < 4 and all(
        re.fullmatch(r"[^\W\d_]{3,}|[\u3040-\ud7af]{1,2}", word)
        and (_GROUPS.fullmatch(word) or not _changes_value(word))
        and not any(map(_is_value, word))
        for word in words
    )


def _tidy(unit: str) -> str:
    r"""A unit without LaTeX's commands: ^\circ is °, \% is %, and `squared` is ^2."""
    unit = re.sub(r"\\[dt]?frac *\{([^{}]*)\} *\{([^{}]*)\}", r"\1/\2", unit)
    unit = re.sub(r"\^ ?(?:\\circ|\{ ?(?:\\circ|o) ?\})|\\degree(?![a-z])", "°", unit)
    unit = re.sub(r"\\(?:cdot|times)(?![a-z])|[⋅∙*]", "·", unit.replace("\\Omega", "Ω"))
    unit = re.sub(r"\\mu(?![a-z]) ?|μ", "µ", unit.replace("U.S.", "US"))
    unit = unit.replace("℃", "°C").replace("℉", "°F").replace("° ", "°")
    unit = re.sub(r"\\([%$€£])", r"\1", unit).strip().removesuffix(".").strip()
    unit = re.sub(r" squared$", "^2", re.sub(r" cubed$", "^3", unit))
    return unit[1:-1].strip() if unit[:1] + unit[-1:] in ("()", "{}") else unit


def _is_counted(text: str) -> bool:
    """Whether a text is a product of units, as kg m^2 is, or names what is counted."""
    text = re.sub(r"^(?:square|sq|cubic|cu)\.? ", "", text)
    atoms = [_ATOM.fullmatch(part) for part in re.split(" ?· ?| ", text)]
    if len(atoms) == 1 and (atom := atoms[0]):
        return _is_known(atom[1]) and (int(atom[2] or 1) < 2 or _is_length(atom[1]))
    if all(atom and atom[1] in _FACTORS for atom in atoms) and text[:2] != "K ":
        return True
    *before, noun = _TAIL.sub("", text).split()
    return (
        len(before) < 3
        and _is_known(noun)
        and all(
            re.fullmatch(r"[a-z]{3,}(?:-[a-z]+)*|us", word.casefold())
            and not _changes_value(word.casefold())
            for word in before
        )
    )


def _is_known(word: str) -> bool:
    folded = word.casefold()
    return (
        word in _SYMBOLS or folded in _ANY_CASE or (len(word) > 1 and _is_noun(folded))
    )


def _is_noun(word: str) -> bool:
    """Whether a word in lower case is a known noun, or a plural."""
    if _SCALE.sub("", word) in _NOUNS:
        return True
    return bool(_PLURAL.fullmatch(word)) and not _changes_value(word)


def _is_length(word: str) -> bool:
    """Whether the square of a unit is one, too: 5 s^2 is a formula."""
    plain = _SCALE.sub("", word.casefold())
    return {plain, plain.removesuffix("s")} & _LENGTHS != set() or re.fullmatch(
        f"[{_PREFIXES['m']}]m", word
    ) is not None


def _is_below(text: str, is_word: bool) -> bool:
    """Whether a text is a unit, as s^2 is below a slash; with `is_word`, or any noun."""
    text = text[1:-1] if text[:1] + text[-1:] in ("()", "{}") else text
    atoms = [_ATOM.fullmatch(part) for part in re.split(" ?· ?| ", text)]
    return len(atoms) < 4 and all(
        atom and (_is_known(atom[1]) or (is_word and _is_word(atom[0])))
        for atom in atoms
    )


def _is_word(text: str) -> bool:
    """Whether a text is a word that leaves the number before it as it is."""
    return bool(re.fullmatch("[a-z]{3,}", text)) and not _changes_value(text)


def _changes_value(word: str) -> bool:
    """Whether a word is a numeral, a group, an operator, a function or a constant."""
    return any(
        _NUMERAL.fullmatch(part) or _GROUPS.fullmatch(part) or part in _OPERATORS
        for part in word.split("-")
    )


def _is_value(character: str) -> bool:
    """Whether a character of a unit is rather a number or a variable: 万, π, ⁿ, 𝑥."""
    form = unicodedata.decomposition(character)
    is_variable = character == "π" or form.startswith(("<super>", "<font>"))
    return (character.isnumeric() and not character.isdecimal()) or is_variable


# ------------------------------------------------------------------------- texts


@remembered
def normal(text: str) -> str:
    """A text for comparisons: without LaTeX's styles and escapes, case and padding."""
    if _STYLED.search(text):
        text = _MATH.sub(r"\1", unstyled(text))
        text = re.sub(r"\\([{}%$&#_])", r"\1", text.replace("{,}", ","))
    if not text.isascii():
        text = unicodedata.normalize("NFKC", typed(text)).translate(_SIGNS)
    if "\\" in text:
        text = _WORD.sub(
            lambda word: word[0] if word[0][0] == "\\" else word[0].casefold(), text
        )
    else:
        text = text.casefold().replace("i\u0307", "i")  # of the Turkish İ
        if "_" in text:  # Brownian_motion, the name of a page
            text = _JOINED.sub(" ", text)
    if "," in text:
        text = _COMMAS.sub(lambda match: match[0].replace(",", ""), text)
    text = " ".join(text.split())
    bare = _stripped(text)
    if bare[:1] in "at":
        bare = _ARTICLE.sub("", bare)
    return bare or text


_MATH = re.compile(r"(?<!\\)\$([^$]*)(?<!\\)\$")  # $3$, $-3$ are formulas, no money
_WORD = re.compile(r"\\[A-Za-z]+|[^\\]+|\\")  # \Delta is not \delta
_JOINED = re.compile(r"(?<=[^\W\d_]{2})_(?=[^\W\d_]{2})")
_COMMAS = re.compile(r"(?<![\d.,(\[{])[1-9]\d{0,2}(?:,\d{3})+(?![\d,])")
_FACTOR = re.compile(r"[\d)}\]|']\s*$")  # before the ! of a factorial
_QUOTED = re.compile("""["'“«`《「『](.*)["'”»`》」』]""", re.DOTALL)
_ARTICLE = re.compile(r"^(?:the\s+(?=\S)|an?\s+(?=[^\W\d_]{2}))")


def _stripped(text: str) -> str:
    """A text without quotes around it, and without the marks that end a sentence."""
    if text[-1:] not in " .,;:?!" and text[:1] not in "\"'“«`《「『":
        return text
    for _ in range(_NESTED):
        before, text = text, text.rstrip(" .,;:?")
        if text[-1:] == "!" and not _FACTOR.search(bare := text.rstrip("!")):
            text = bare
        if quoted := _QUOTED.fullmatch(text):
            text = quoted[1].strip()
        if text == before:
            break
    return text


# Spellings of the same formula
_SPELLINGS = [
    (re.compile(r"\\(?:left|right)(?![a-zA-Z])"), ""),
    (re.compile(r"\\[cdt]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)"), r"\\frac{\1}"),
    (re.compile(r"(\\frac\s*\{[^{}]*\})\s*(\d)"), r"\1{\2}"),
    (re.compile(r"\\sqrt\s*(\w)"), r"\\sqrt{\1}"),
    (re.compile(r"([\^_])\s*(\d+|\w)"), r"\1{\2}"),
    (re.compile(r"(?<!\w) | (?!\w)"), ""),  # spaces that part no words
    # Spaces of a product: 2 k, 2 x y
    (re.compile(r"(?<=\d) (?=[^\W\d_])|(?<=\d[a-z]) (?=[a-z](?![^\W\d_]))"), ""),
    (re.compile(r"(?<![^\W\d_])([a-z]) (?=[a-z][\^_])"), r"\1"),
]


def spelled(text: str) -> str:
    """A formula in one of its spellings: \\frac12 as \\frac{1}{2}, x^2 as x^{2}."""
    for pattern, instead in _SPELLINGS:
        text = pattern.sub(instead, text)
    return text


def other_spellings(text: str) -> list[str]:
    """What people write for a text: the number of 9 (pears), 13-2k for $13-2 k$."""
    found, plain = quantity_in(text), _MATH.sub(r"\1", text)
    if plain != text or re.search(r"[\\^_]|\d [a-z](?![^\W\d_])", text):
        plain = re.sub(r"(?<=\d) (?=[a-z])| ?(?:\\,)+ ?", "", plain)
    number = str(found.number) if found else text
    return [plain] * (plain != text) + [number] * same_count(number, text)
