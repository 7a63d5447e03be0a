"""Make rows of Wordle for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train 200] [--validation 50]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. A seed always gives the same rows, no word is in two of the
files, and no existing file is replaced without --overwrite.

This file is yours: change tasks() and WORDS.
"""

import random
import sys
from collections.abc import Iterable, Iterator

from env_runtime.rows import Example, main

EXAMPLES = 24  # number of rows in data/example.jsonl

PROMPT = (
    "Play Wordle: find the hidden five-letter word. You have six guesses. Call guess with "
    "one five-letter word at a time; the answer says for each letter whether it is correct "
    "(right letter, right place), present (in the word, elsewhere) or absent. Stop once "
    "the word is solved."
)


def tasks(rng: random.Random) -> Iterator[Example]:
    """Every word once, in random order, as (prompt, task, difficulty)."""
    words = WORDS.split()
    rng.shuffle(words)
    for word in words:
        yield Example(PROMPT, {"target": word}, difficulty(word, words))


def difficulty(word: str, words: Iterable[str]) -> str:
    """How hard the word is to find. Three things make it harder.

    These are a letter that comes twice, a rare letter, and words that differ in only
    one letter (light, might, night), which take a guess each to tell apart.
    """
    twice = len(set(word)) < len(word)
    rare = not set("jkqvwxz").isdisjoint(word)
    alike = sum(_differ_in_one(word, other) for other in words) > 1
    return ("easy", "medium", "hard", "hard")[twice + rare + alike]


def _differ_in_one(word: str, other: str) -> bool:
    return sum(a != b for a, b in zip(word, other, strict=True)) == 1


WORDS = """
about above actor acute admit adopt adult after again agent agree ahead alarm album
alert alike alive allow alone along alter among anger angle angry ankle apart apple
apply arena argue arise arrow aside asset atlas audio avoid awake award aware bacon
badge baker basic basin beach beard beast begin being below bench berry birth black
blade blame blank blast blaze bleak blend bless blind block blood bloom board boost
booth bound brain brake brand brass brave bread break brick bride brief bring broad
broom brown brush buddy build bunch burst buyer cabin cable camel candy canoe cargo
carry catch cause chain chair chalk charm chart chase cheap check cheek cheer chess
chest chief child chill choir chunk civic claim clash class clean clear clerk click
cliff climb cloak clock close cloth cloud clown coach coast cocoa color comet comic
coral couch cough count court cover crack craft crane crash cream creek crest crime
crisp cross crowd crown crust curve cycle daily dairy dance debut decay delay dense
depth diary diner ditch dizzy dough draft drain drama dream dress drift drill drink
drive eager eagle early earth elbow elder empty enemy enjoy enter entry equal error
essay event every exact exist extra fable faith false fancy favor feast fence ferry
fever fiber field fight final flame flash fleet float flock flood floor flour fluid
flute focus force forge frame fresh front frost fruit funny gauge ghost giant glass
globe glove grace grade grain grand grant grape graph grass green greet grief group
grove guard guess guest guide habit happy harsh haste heart heavy hedge hello hobby
honey honor horse hotel house human humor hurry ideal image index inner input issue
ivory jelly jewel joint judge juice jumbo kayak knife knock label labor large laser
later laugh layer learn lemon level lever light limit linen liver local logic loose
lucky lunar lunch magic major mango maple march match maybe mayor medal melon mercy
merge merit metal meter midst minor model money month moral motor mount mouse mouth
movie muddy music nasty nerve never night noble noise north novel nurse ocean offer
olive onion opera orbit order organ other outer oxide paint panel panic paper party
pasta patch pause peace peach pearl pedal penny phase phone photo piano piece pilot
pitch pizza place plain plane plant plate plaza point polar porch pouch pound power
press price pride prime print prize proof proud prove pulse pupil puppy purse queen
query quest quick quiet quilt quite quota quote radar radio raise rally ranch range
rapid razor reach react ready relax reply rider ridge rifle right rival river roast
robin robot rocky rough round route royal rugby ruler rural salad salsa sauce scale
scene scent scope score scout seven shade shake shape share shark sharp sheep sheet
shelf shell shift shine shirt shock shore short shout sight skate skill skirt slate
sleep slice slope small smart smell smile smoke snack snake solar solid solve sound
south space spare spark speak spice spoon sport spray squad stage stair stamp stand
stare start state steam steel stone stool store storm story stove straw strip study
stuff style sugar sunny super swamp sweet swift swing sword table taste teach tenth
thank theme there thick thief think third thorn three throw thumb tiger tight title
toast today token tooth topic torch total touch tough towel tower toxic trace track
trade trail train treat trend trial tribe trick truck trunk trust truth tulip twist
uncle under union unity until upper upset urban usage usual valid value valve vapor
vault video visit vital vivid vocal voice voter wagon waist waste watch water whale
wheat wheel where while white whole widow woman world worry wound wrist write yacht
yield young youth zebra
"""

if __name__ == "__main__":
    sys.exit(main(tasks, EXAMPLES, __doc__))
