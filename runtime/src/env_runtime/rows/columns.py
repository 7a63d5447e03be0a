"""The columns of a dataset's first records, and what their names tell."""

import contextlib
import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from shlex import quote
from statistics import median
from typing import Any

from ..errors import RolloutError
from ..graders import Number
from ..notation import normal
from .fields import ONE_OF_PARTS, as_text, is_empty, names_in, parted
from .plan import ALIASES, FIRST, ONE_OF, PARSED, Draft, Path, Unfit, message_key
from .records import Record

FIT = 0.95  # the share of complete records that have to fit
# Answers are labels if there are few of them, each so many times on average.
LABELS, FEWEST = 10, 5
SAME = 0.8  # the share of equal answers that is worth a note
SHORT = 12  # the most words of an answer that is compared as text
# Which people word in their own way: of five words, with a verb of three, or Chinese
SENTENCE = re.compile(
    r"(?:\S+\s+){4,}\S+[.!?]\s*|\S{8,}[。！？]\s*|"
    r"(?=.*\b(?:is|are|was|were|has|have|had|can|will|[Ii]t|[Tt]hey|[Ss]?[Hh]e|[Ww]e|I)\b)(?:\S+\s+){2,3}\S+[.!?]\s*"
)
OFTEN_EMPTY = 0.2  # the share of records that may lack a column of the prompt


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Names of columns in lower case, the most likely first
PROMPTS = words(
    "question question_text problem prompt instruction query input inputs goal question_stem stem ctx puzzle "
    "riddle utterance claim statement sentence front q text task"
)
QUESTIONS = words(
    "question question_text problem prompt instruction query goal question_stem stem puzzle riddle task"
)
CONTEXTS = words(
    "context contexts passage passages article paragraph paragraphs document documents story "
    "input body premise premises background situation scenario dialogue table code snippet abstract transcript "
    "narrative hypothesis sentence1 sentence2 pre_text post_text description ctx task_prefix history"
)
PAIRS = words("premise sentence1 hypothesis")  # of what is compared, without a question
MESSAGES = words("messages conversations conversation chat prompt input")
EXPECTED = words(
    "expected_answer expected gold_answer reference_answer ref_answer standard_answer right_answer final_answer ideal "
    "ground_truth ground_truths answer_text answer answers ans answerkey answer_key correct_answer correct_answer_id correct_option_id correct_choice_id correct_response "
    "correct_option correct_options correct_answers correct gold gold_label reference target targets tgt label_text label_name label "
    "final_decision cop answer_idx answer_index correct_index correct_choice correct_answer_num best_answer back "
    "answers_spans possible_answers solution output outputs response completion intent category summary "
    "highlights"
)
# A word in names of columns whose answer is sure to be the expected one
SURE = {*words("gold golden expected reference ref truth standard")}
TOPICS = ("intent", "category")  # of questions, if there is another answer
# Words in names of columns that have an answer
ANSWERS = {*"_".join(EXPECTED).split("_")} | {
    *words("result results reply key value word term number stars rating score")
}
CLASSES = words("label gold_label target class category intent sentiment")
INDEXES = words(
    "cop answer_idx answer_index correct_index correct_option correct_choice correct_answer_num"
)
OPTIONS = words(
    "options choices endings candidates choice option answer_choices answer_options answer_option_list answers "
    "possible_answers alternatives variants responses"
)
# A list in one of these columns has options if another column names one of them.
PERHAPS_OPTIONS = words("answers possible_answers alternatives variants responses")
# Columns of one option each, such as A, option_b, choice3, opa, sol1, answerA, ending0
OPTION = re.compile(
    r"(|op|opt|option|choice|ending|sol|ans|(?:mc_)?answer|alternative|a(?=_?\d))_?\(?([a-j]|\d)\)?",
    re.IGNORECASE,
)
WRONG = re.compile(
    r"(?:distractor|incorrect|wrong|hallucinated)_?(?:answer|option|choice)?s?_?\d*",
    re.IGNORECASE,
)
# Words in names of columns that have the prompt again, in another form
AGAIN = {
    *words(
        "question questions problem prompt original rephrased formatted clean cleaned tokenized segmented marked highlighted"
    )
}
SPAN = {"text", "answer_start", "answer_end", "start", "end"}
# Words in names of columns that explain an answer, are about a record, or are a model's
EXPLAINS = words(
    "explanation explanations explain rationale rationales exp reason reasons reasoning cot chain thought thinking "
    "solution solutions support supporting proof equation equations formula "
    "annotated decomposition derivation fact combinedfact working step steps feedback revision revised validator "
    "response responses output outputs completion generated generation generations prediction "
    "correct incorrect wrong distractor answer answers gold label labels target truth comment "
    "note estimate confidence verdict verification judge judgment judgement annotation annotations annotator annotators "
    "scoring rubric rubrics guideline guidelines expr s_expression logical_form program chosen rejected fake fakeanswer logical facts expected evidence alias aliases alternative alternatives synonym synonyms "
    "accepted acceptable variants possible justification justifications analysis sparql pred preds predicted programs hallucinated"
)
TOLD = {*EXPLAINS} - {"fact", "facts"}  # which no question asks
# Columns of other spellings of the answer beside it
SPELLED = words(
    "aliases alias answer_aliases accepted_answers acceptable_answers alternative_answers other_answers synonyms"
)
ABOUT = words(
    "id ids idx index sha uid uuid guid qid key hash url urls link source src dataset split subset "
    "subject topic category domain field level difficulty grade type kind tag tags lang "
    "language license author date year time created version title name meta metadata exam "
    "canary score rating count length config concept email file filename path style ability "
    "extra_info data_source word_count tokens unnamed"
)
SOURCES = ("source", "src")  # of a record in a word, or a text to read
DIFFICULTIES = words(
    "easy medium hard difficult low mid high simple challenging beginner intermediate "
    "advanced expert impossible"
)
DIFFICULTY = words("difficulty hardness complexity")
IMAGES = words("image images img picture figure photo")
# Columns of tests, and of rules, that no expected answer stands for
TESTS = ({"test_list"}, {"test", "entry_point"})
PROGRAMS = (
    {"entry_point"},
    {"input_output"},
    {"tests", "code"},
    {"tests", "stop_tokens"},
    {"test", "canonical_solution"},
    {"public_tests"},
    {"public_test_cases"},
    {"private_test_cases"},
)
RULES = (
    {"instruction_id_list"},
    {"constraint_type"},
    {"instruction_id"},
    {"nums", "target"},
    {"numbers", "target"},
)
LONG = 20  # the fewest words, in the median, of a text that is surely read
PASSAGE = 5  # the fewest words, in the median, of a column that is a text to read
FILE = re.compile(
    r"[^\s?<>|]+\.(?:[ct]sv|txt|json|jsonl|html?|xml|pdf|xlsx?|docx?|md|db|sqlite|mp[34]|wav)"
)
ADDRESS = re.compile(r"https?://\S+")
IMAGE = re.compile(r"(?i)\S\.(png|jpe?g|gif|webp|bmp|tiff?)(\?\S*)?$")
SOUND = re.compile(r"(?i)\S\.(wav|mp[34]|flac|ogg|m4a|webm|avi|mov|mkv)(\?\S*)?$")
# Words in names of columns that say what was found of an answer
JUDGES = {
    *words(
        "verdict solvability solvable accuracy correct correctness judgment judgement accurate valid label factual factuality hallucination acceptable"
    )
}
SPLITS = {*words("train test dev valid validation val eval")}
FILES = words("file file_name filename file_path attachment attachments")
NO_ANSWER = {"proof", "notfound"}  # golds that are never an answer, in lower case
# Golds that say that there is none, or are the answer
NOTHING = {"none", "null", "nan", "n/a", "na", "not found", "cannotanswer"} | {
    *words("unanswerable unknown"),
    "no answer",
    "not answerable",
    "not available",
}
SPARQL = re.compile(r"(?is)\s*(?:prefix\s+\w*:|(?:select|ask|construct)\b[^{]*)[^{]*\{")
PROGRAM = re.compile(
    r"(?im)^\s*(select .*\bfrom |def \w+\(|class \w+|import \w|from \w+ import|#include|\w+ = .*\(|print\()"
)
MIDNIGHT = r"(?<=\d{4}-\d\d-\d\d)[ T]00:00:00(?:\.0+)?(?:Z|\+00:00)?"
# The text before the answer in a long solution
BEFORE = {"####": r"####\s*(.+)"}
# Marks around each of the short answers, and the whole of which earns, too
MARKED = {"answer: before it": r"(?is)^(?:the )?(?:(?:final )?answer|a)\s*:\s*(.+)$"}
MARKED["a token behind it"] = r"(?s)^(.+?)\s*(?:<\|\w+\|>|</s>|<eos>|\sEND)\s*$"
MARKED["a heading's mark before it"] = r"^#{1,4}\s+(.+)$"
MARKED["brackets around it"] = r"(?s)^\[\s*([^\[\]]+?)\s*\]$"
# Names, and what some have after them, which may be left out: `Brussel [Bruxelles]`, `Kyiv (Kiev)`
ADDED = r"(?s)^(.*?)(?:(?<=[^\W\d]{2}) [\[(](?:[^\W\d]|[ ',.-])+[\])])?$"
BEFORE["answer:"] = r"(?i)answer\s*(?:is\s*:?|:)\s*(.+)"


class Looked:
    """Records of a dataset, the plan for them, and what was found so far."""

    def __init__(
        self,
        records: list[Record],
        command: str = "",
        given: Mapping[str, str] | None = None,
    ) -> None:
        """`command` and its options `given` are what the user ran, for messages that go on."""
        self.records, self.command, self.given = records, command, given or {}
        self.native = "responses_create_params" in records[0]  # NeMo Gym's own rows
        self._looked_at: tuple[list[Record], list[str]] = [], []
        self.plan = Draft()
        self.reasons: list[str] = []
        self.unused: dict[str, str] = {}  # why columns are left out
        self.why_prompt = ""
        # That prompts of NeMo Gym's rows ask for no box, and whether all do so
        self.form, self.never_boxed = "", False

    @property
    def columns(self) -> list[str]:
        """The columns that have a name, and a value in a record."""
        records, columns = self._looked_at
        if records is not self.records:
            found = {name: False for record in self.records for name in record}
            for record in self.records:
                for name, value in record.items():
                    found[name] = found[name] or not is_empty(value)
            columns = [name for name, has_value in found.items() if has_value and name]
            self._looked_at = self.records, columns
        return columns

    def commands(self, choices: Iterable[dict[str, str]]) -> list[str]:
        """The commands to choose from."""
        lines = []
        for one in choices:
            choice = {**self.given, **one}
            given = " ".join(
                f"--{name} {quote(value)}" for name, value in choice.items()
            )
            copied = " ".join(f"-d {quote(f'{n}={v}')}" for n, v in choice.items())
            lines.append(
                f"  {self.command} {given}    # or copy with {copied}".rstrip()
            )
        return lines

    @property
    def asked_for(self) -> bool:
        """Whether the user named the prompt."""
        return self.why_prompt == "as asked"

    @property
    def says_what_to_do(self) -> bool:
        """Whether the user named messages, or a prompt with words beside its columns."""
        if not self.asked_for or self.plan.is_chat:
            return self.asked_for
        said = self.plan.prompt
        for name in names_in(said):
            said = said.replace(f"{title(name)}: {{{name}}}", "")
        words_beside = re.sub(r"\{[^{}]*\}|\w+:", "", said)
        return bool(words_beside.strip())

    def are_short(self, values: Iterable[Any]) -> bool:
        """Whether nearly all values are compared as texts."""
        return share(map(as_text, values), is_short) >= FIT

    @property
    def main(self) -> str:
        """The column that asks."""
        return next(iter(names_in(self.plan.prompt)), self.plan.prompt)

    def values(self, path: Path) -> list[Any]:
        """The values of the records at a path, those that are empty left out."""
        is_gold = path == self.plan.expected
        said = self.plan.said if is_gold else path.of
        found = [said(record) for record in self.records]
        return [value for value in found if not is_empty(value)]

    def golds(self) -> list[Any]:
        """The golds of the records, as the plan finds them."""
        golds = []
        for record in self.records:
            with contextlib.suppress(Unfit):
                golds.append(self.plan.gold(record))
        return golds

    # ------------------------------------------------------------------ the columns

    def named(self, names: Iterable[str]) -> str:
        """The column with the first of the names, in any case; "" if there is none."""
        by_name = {folded(column): column for column in reversed(self.columns)}
        return next((by_name[name] for name in names if name in by_name), "")

    def first(self, column: str) -> Any:
        """The first value of a column that is not empty."""
        values = (record.get(column) for record in self.records)
        return next((value for value in values if not is_empty(value)), "")

    def starting_with(self, start: str) -> list[str]:
        """The columns whose names start so, in their order."""
        return [name for name in self.columns if name.startswith(start)]

    def is_text(self, name: str) -> bool:
        """Whether the column of a name, in any case, holds text."""
        column = name if name in self.columns else self.named([name])
        return isinstance(self.first(column), str) if column else False

    def is_source(self, column: str) -> bool:
        """Whether a column called source has texts to read, or lists of their sentences."""
        if folded(column) not in SOURCES:
            return False
        texts = [*map(as_text, filter(is_texts, self.values(Path(column))))]
        return bool(texts) and median(map(count_of_words, texts)) > LONG

    def has_objects(self, column: str) -> bool:
        """Whether a column holds lists of objects."""
        value = self.first(column)
        return isinstance(value, list) and isinstance(value[0], Mapping)

    def has_messages(self, column: str) -> bool:
        column = self.named([column])
        if not column or not self.has_objects(column):
            return False
        return bool({"role", "from"} & {*self.first(column)[0]})

    def path(self, column: str) -> Path:
        """The path to a column, or to a part of it, as in `answers.text`."""
        name, _, part = (
            (column, "", "") if column in self.columns else column.partition(".")
        )
        value, path = self.first(name), Path(name)
        if not part and self.has_messages(name) and is_single(value):
            path = path.then(FIRST).then(f".{message_key(value[0])}")
            value = path.of({name: value})
        one = value[0] if isinstance(value, list) and value else value
        if not part and isinstance(one, Mapping):
            if "text" in one and ({*one} <= SPAN or "answer_start" in one):
                part = "text"  # SQuAD's answers
            elif "answer_text" in one:
                part = "answer_text"
            elif {"aliases", "value"} <= {*map(folded, one)}:
                return path.then(ALIASES)
            elif {*one} >= {*ONE_OF_PARTS}:
                return path.then(ONE_OF)
            else:
                part = next((key for key in ("spans", "answer") if key in one), "")
        if part and isinstance(value, list):
            return path.then(f"*.{part}")
        if part:
            for key in part.split("."):
                path = path.then(f".{key}")
        parsed = path.then(PARSED)
        found = [(path.of(record), parsed.of(record)) for record in self.records]
        found = [(text, value) for text, value in found if not is_empty(text)]
        if found and all(isinstance(text, str) for text, _ in found):
            is_json = [isinstance(value, list | Mapping) for _, value in found]
            path = parsed if sum(is_json) >= FIT * len(found) else path
        return path

    def names_splits(self, column: str) -> bool:
        """Whether a column says to which split a record belongs."""
        return {*map(text_of, self.values(Path(column)))} <= SPLITS

    def texts(self) -> list[str]:
        """The columns that a prompt may name."""
        others = {*ABOUT, *TOLD, "gold", "label"} - {"comment"}

        def may_ask(name: str) -> bool:
            return folded(name) not in EXPECTED and not words_in(name) & others

        return [
            name
            for name in self.columns
            if name not in self.plan.lists
            and (self.is_source(name) or (self.is_text(name) and may_ask(name)))
        ]


RENAME = "rename it, without . : ! [ { }, and not a number"
YES_NO = re.compile(
    r"(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should)\b"
)
ASKS = re.compile(  # what to do
    r"(?i)(?:^|[.!?:;,\n]\s*|\bplease )(?:find|name|give|list|compute|calculate|solve|write|translate|"
    r"complete|determine|evaluate|simplify|choose|select|pick|identify|classify|answer|reply|"
    r"respond|sort|tell|state|say|convert|explain|describe|decide|count|expand|factor|fill|"
    r"guess|estimate|output|return|print|read|replace|rewrite|correct|match|who|what|when|"
    r"where|which|why|how|is|are|was|were|do|does|did|can|could|has|have|had|will|would|"
    r"should)\b|_{2,}|\.{3}\s*$|\[(?:mask|blank)\]"
)
PLAIN = ({"yes", "no"}, {"true", "false"})  # labels that need no several records


# Words in names of columns in other languages, without accents
ENGLISH = {
    word: english
    for english, others in {
        "question": "pregunta enunciado frage domanda pergunta vraag pytanie soru pertanyaan вопрос 问题 題目 题目 質問 문제 질문",
        "answer": "respuesta reponse antwort risposta resposta antwoord odpowiedz cevap jawaban ответ 答案 回答 정답 답",
        "options": "opciones optionen opzioni opcoes alternativas choix варианты 选项 選択肢 보기",
        "option": "opcion opzione opcao",
        "correct": "bonne bon correcta correcto richtig richtige corretta corretto correta correto правильный",
        "expected": "attendue attendu esperada esperado erwartet",
        "explanation": "explicacion explication erklarung spiegazione explicacao пояснение 解析 解释 해설",
        "text": "testo texto texte",
        "category": "categoria categorie kategorie категория",
    }.items()
    for word in others.split()
}


def unaccented(text: str) -> str:
    """A text without its accents."""
    parts = unicodedata.normalize("NFKD", text)
    return "".join(each for each in parts if not unicodedata.combining(each))


@functools.cache
def folded(name: str) -> str:
    """A name in lower case with _ between its words: modelAnswer is model_answer.

    Usual words of other languages are English ones: risposta_corretta is correct_answer.
    """
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name.strip())
    name = re.sub(r"[\s._-]+", "_", parted.lower())
    parts = name.split("_")
    found = [ENGLISH.get(part) or ENGLISH.get(unaccented(part), part) for part in parts]
    adjectives = {"correct", "expected"}  # which stand behind the noun
    if found != parts and found[-1] in adjectives:
        found = [found[-1], *found[:-1]]
    return "_".join(found)


def share(values: Iterable[Any], test: Callable[[Any], Any]) -> float:
    """The share of values that pass a test."""
    passed = [bool(test(value)) for value in values]
    return sum(passed) / len(passed) if passed else 0.0


def nearly_all_match(pattern: str, values: Iterable[Any]) -> bool:
    """Whether nearly all values are, as text, what a pattern says."""
    return share(map(str, values), re.compile(pattern).fullmatch) >= FIT


def words_in(name: str) -> set[str]:
    """The words of a column's name, the parts between its _, and the whole."""
    whole = folded(name)
    return {*re.findall("[a-z]+", whole), *whole.split("_"), whole}


def valid(column: str) -> bool:
    """Whether a template can name a column."""
    with contextlib.suppress(ValueError):
        named = names_in(f"{{{column}}}") == (column,)
        return named and not re.search(r"[.\[]", column) and not column.isdecimal()
    return False


def template_of(column: str) -> str:
    """The template of a column alone. Raises RolloutError if there is none."""
    if not valid(column):
        raise RolloutError(f"no template can name the column {column!r}: {RENAME}")
    return f"{{{column}}}"


def titled(columns: list[str]) -> str:
    """A template of columns, with their names if there are several."""
    if len(columns) == 1:
        return f"{{{columns[0]}}}"
    return "\n\n".join(f"{title(name)}: {{{name}}}" for name in columns)


def title(column: str) -> str:
    """The name of a column, for people."""
    return column.replace("_", " ").strip().capitalize()


def template_names(template: str) -> list[str]:
    """The columns that a template names. Raises RolloutError if it is none."""
    try:
        return [*names_in(template)]
    except ValueError as error:
        raise RolloutError(
            f"the prompt {template!r} is not a template: {error}"
        ) from None


def check_pattern(pattern: str) -> None:
    """Raise RolloutError for a pattern without exactly one group."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise RolloutError(
            f"expected has a wrong pattern {pattern!r}: {error}"
        ) from None
    if groups != 1:
        raise RolloutError(
            f"expected has the pattern {pattern!r}: it needs one group, as in '#### (.*)'"
        )


def text_of(value: Any) -> str:
    return as_text(value).strip().casefold()


def is_texts(value: Any) -> bool:
    """Whether a value is text, or a list of texts."""
    parts = value if isinstance(value, list) else [value]
    return all(isinstance(part, str) for part in parts)


def are_labels(texts: Iterable[str]) -> bool:
    """Whether few texts are there again and again."""
    texts = [*texts]
    return len({*texts}) <= min(LABELS, len(texts) / FEWEST)


def are_joined(texts: list[Any]) -> bool:
    """Whether texts list several, with semicolons, or labels with commas."""
    if not is_texts(texts):
        return False
    listed = re.compile(r"\([^()]+\)(?:,\s*\([^()]+\))*")  # (tin),(zinc)
    if share(texts, listed.fullmatch) >= FIT:
        return share(texts, lambda text: re.search(r"\),\s*\(", text)) > 0.3
    if any(re.search(r"[\\(\[{$=]", text) for text in texts):
        return False
    semicolons = share(texts, lambda text: re.search(r"\w\s*[;；|]\s*\w", text))
    if share(texts, lambda text: "；" in text) >= 1 - FIT:  # of Chinese
        return share(texts, is_short) >= FIT
    if semicolons:
        return semicolons > 0.3 and share(texts, is_short) >= FIT
    lists = [parted(text) for text in texts]
    parts = Counter(part for one in lists for part in one)
    joined = [one for one in lists if len(one) > 1]
    again = all(parts[part] > 1 for one in joined for part in one)
    are_names = all(len(part.split()) < 4 for part in parts)
    several = len({*map(tuple, lists)}) > 1
    are_names = are_names and not any(map(is_number, parts))
    return len(joined) > 1 and again and are_names and several and len(parts) <= LABELS


def are_spellings(texts: list[str]) -> bool:
    """Whether texts are one answer in other words, or of several people.

    Each has the words of another one, or is there twice. Yes and no are not one answer.
    """
    if {text.casefold() for text in texts} in PLAIN:
        return False
    parts = [set(normal(text).split()) for text in texts]
    others = [
        any(one <= other or other <= one for n, other in enumerate(parts) if n != place)
        for place, one in enumerate(parts)
    ]
    return all(others) and any(len(text.strip()) > 1 for text in texts)


def is_single(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 1


def is_short_list(value: Any) -> bool:
    """Whether a value is a list of a few texts, of one or two sentences, as options are."""
    if not isinstance(value, list) or not 1 < len(value) < 11:
        return False
    texts = [each for each in value if isinstance(each, str)]
    return len(texts) == len(value) and max(map(count_of_words, texts)) <= 3 * SHORT


def is_scored(value: Any) -> bool:
    """Whether a value is an object of options: some have the score 1, and the others 0."""
    scores = [*value.values()] if isinstance(value, Mapping) else []
    numbers = all(type(each) in (int, float) for each in scores)
    return numbers and {*scores} == {0, 1}


def is_number(value: Any) -> bool:
    """Whether a value is a number, and not 12 km; `9 (apples)` is ASDiv's."""
    text = re.sub(r"\\[a-z]+|\([^()]*[^\W\d_][^()]*\)$", "", str(value))
    return Number.reads(value) and not re.search(r"[^\W\d_]{2}", text)


def is_read(text: Any) -> bool:
    """Whether a text is one to read, and not a number or a hash."""
    return re.fullmatch(r"[\x21-\x7e]*\d[\x21-\x7e]*", as_text(text).strip()) is None


def is_short(text: str) -> bool:
    return 0 < count_of_words(text) <= SHORT


_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_THAI = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
)  # Lao, Burmese and Khmer, too


def count_of_words(text: str) -> int:
    """The number of words.

    Chinese and Japanese have no spaces, and words of two characters. Those of Thai have four.
    """
    without, characters = _CJK.subn("", text)
    without, letters = _THAI.subn("", without)
    return len(without.split()) + (characters + 1) // 2 + (letters + 3) // 4


def are_calls(value: Any) -> bool:
    """Whether a value is a list of calls, each with a name and arguments."""
    return isinstance(value, list) and all(
        isinstance(call, Mapping) and {"name", "arguments"} <= call.keys()
        for call in value
    )
