"""Make rows of essay questions for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train 200] [--validation 50]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. A seed always gives the same rows, no question is in two of the
files, and no existing file is replaced without --overwrite.

This file is yours. Each fact in TOPICS has what the question asks for, the word that
the judge's stand-in looks for, and a sentence of the sample essay.
"""

import random
import sys
from collections.abc import Iterator

from env_runtime.rows import Example, main

EXAMPLES = 12  # number of rows in data/example.jsonl
MAX_WORDS = 120
LEVELS = {2: "easy", 3: "medium", 4: "hard"}  # the level for a number of criteria

# (what the question asks for, a word of the answer, a sentence that answers it)
Fact = tuple[str, str, str]

TOPICS: dict[str, list[Fact]] = {
    "how green plants make their food": [
        ("the gas that they take in", "carbon dioxide", "They take in carbon dioxide."),
        ("the pigment that catches light", "chlorophyll", "Chlorophyll absorbs light."),
        ("the gas that they give off", "oxygen", "They release oxygen."),
        ("the food that they make", "glucose", "The product is glucose, a sugar."),
        ("where in the cell it happens", "chloroplast", "It happens in chloroplasts."),
        ("what the roots bring in", "water", "The roots bring in water."),
    ],
    "how water moves around the Earth": [
        ("how it enters the air", "evaporation", "Evaporation lifts it into the air."),
        ("how clouds form", "condensation", "By condensation it becomes clouds."),
        ("how it comes down", "precipitation", "It falls as precipitation."),
        ("how plants take part", "transpiration", "Plants add to it by transpiration."),
        (
            "how it gets below the ground",
            "infiltration",
            "Infiltration feeds the soil.",
        ),
        ("what drives it all", "sun", "The heat of the sun drives it."),
    ],
    "how a vaccine protects a person": [
        ("what it shows to the body", "antigen", "It shows an antigen to the body."),
        ("what the body makes", "antibodies", "The body makes antibodies."),
        ("which cells last for years", "memory", "Memory cells last for years."),
        ("who else is protected", "herd", "Others profit by herd immunity."),
        ("why it does not make one ill", "weakened", "The germ is weakened or dead."),
        ("why a second dose helps", "booster", "A booster makes the answer stronger."),
    ],
    "why there are seasons": [
        ("how the Earth's axis stands", "tilted", "The axis of the Earth is tilted."),
        ("how long one turn takes", "year", "One orbit takes a year."),
        ("how it is south of the equator", "opposite", "In the south it is opposite."),
        ("how light falls in winter", "slant", "In winter, light falls at a slant."),
        (
            "the days on which day equals night",
            "equinox",
            "At an equinox they are equal.",
        ),
        (
            "what does not cause them",
            "distance",
            "The distance is not the cause.",
        ),
    ],
    "how a law is made in a parliament": [
        ("what a draft is called", "bill", "A draft is called a bill."),
        ("who looks at the details", "committee", "A committee looks at the details."),
        ("how members decide", "vote", "The members vote."),
        (
            "how it can be changed on the way",
            "amendment",
            "An amendment can change it.",
        ),
        ("what a head of state may do", "veto", "The head of state may veto it."),
        ("who checks it afterward", "court", "A court can check it."),
    ],
    "why prices change in a market": [
        ("what buyers want", "demand", "Demand is what buyers want."),
        ("what sellers offer", "supply", "Supply is what sellers offer."),
        ("what happens if too little is there", "shortage", "A shortage lifts prices."),
        ("where both sides meet", "equilibrium", "They meet at an equilibrium."),
        ("what rivals do", "competition", "Competition keeps prices low."),
        ("what a single seller is", "monopoly", "A monopoly can ask for more."),
    ],
    "how the heart moves blood": [
        ("the lower chambers", "ventricle", "The ventricles pump it out."),
        ("the upper chambers", "atrium", "Each atrium collects blood."),
        ("what keeps it from flowing back", "valve", "Valves stop the way back."),
        ("the vessels that lead away", "arteries", "Arteries lead away."),
        ("the vessels that lead back", "veins", "Veins lead back."),
        ("where it gets oxygen", "lungs", "It gets oxygen in the lungs."),
    ],
    "how a computer runs a program": [
        ("what does the computing", "processor", "The processor does the computing."),
        ("where the program lies meanwhile", "memory", "It lies in memory meanwhile."),
        (
            "what it is made of in the end",
            "instructions",
            "It consists of instructions.",
        ),
        ("how numbers are written", "binary", "Numbers are binary."),
        (
            "what shares the machine",
            "operating system",
            "The operating system shares it.",
        ),
        ("what makes it from source code", "compiler", "A compiler translates it."),
    ],
}


def tasks(rng: random.Random) -> Iterator[Example]:
    """Tasks as (prompt, task, difficulty), without end."""
    while True:
        topic = rng.choice(list(TOPICS))
        facts = rng.sample(TOPICS[topic], rng.choice(list(LEVELS)))
        facts.sort(key=TOPICS[topic].index)
        asked = "; ".join(asked for asked, _, _ in facts)
        question = f"Explain {topic}. Say: {asked}."
        criteria = [
            {"text": f'It says {asked}: "{word}".', "points": 1 + (number == 0)}
            for number, (asked, word, _) in enumerate(facts)
        ]
        task = {
            "question": question,
            "criteria": criteria,
            "max_words": MAX_WORDS,
            "sample": " ".join(sentence for _, _, sentence in facts),
        }
        prompt = f"{question}\n\nWrite at most {MAX_WORDS} words."
        yield Example(prompt, task, LEVELS[len(facts)])


if __name__ == "__main__":
    sys.exit(main(tasks, EXAMPLES, __doc__))
