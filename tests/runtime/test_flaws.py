"""Flawed grades that the gates find, and honest ones that they leave alone."""

import contextlib
import json
import re
import threading
import time
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from env_runtime.checks import attempts
from env_runtime.errors import GateError
from env_runtime.probe.search import FLAWS

ROOT = Path(__file__).parents[2]
CITIES = ["quito", "lima", "oslo", "cairo", "delhi", "seoul", "rome", "bern"]


def rows(prompt, count=8):
    return [
        {
            "responses_create_params": {"input": prompt.format(n=n, city=city)},
            "ground_truth": [{"city": city, "n": n}],
        }
        for n, city in enumerate(CITIES[:count])
    ]


class Base:
    """Guess the city of the task."""

    blocking = False  # the search needs half the time without a thread for each episode

    def __init__(self, task: dict[str, Any]) -> None:
        self.task, self.said = task, ""

    def guess(self, city: str) -> str:
        """Guess a city.

        Args:
            city: Its name.
        """
        self.said = city
        return "noted"

    def reward(self) -> float:
        return float(self.said == self.task["city"])

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("guess", {"city": task["city"]})]


class Contains(Base):
    def reward(self) -> float:
        return float(self.task["city"] in self.said)


class AnyTry(Base):
    """Every guess counts, not only the first."""

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.tries: list[str] = []

    def guess(self, city: str) -> str:
        """Guess a city."""
        self.tries.append(city)
        return "noted"

    def reward(self) -> float:
        return float(self.task["city"] in self.tries)


class Answers:
    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task

    def reward(self, answer: str) -> float:
        return float(answer.strip().lower() == self.task["city"])

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return task["city"]


class AnswerContains(Answers):
    def reward(self, answer: str) -> float:
        return float(self.task["city"] in answer.lower())


class AnyWord(Answers):
    def reward(self, answer: str) -> float:
        return float(answer.isalpha() and answer.islower() and len(answer) > 3)


class Reversed(Answers):
    def reward(self, answer: str) -> float:
        return float(bool(answer) and len(answer) < 20 and answer in self.task["city"])


class Distance(Answers):
    """Partial credit by the difference of two numbers."""

    def reward(self, answer: str) -> float:
        try:
            return 1.0 - abs(self.task["n"] - float(answer))
        except ValueError:
            return 0.0

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return str(task["n"])


class Overlap(Answers):
    """Credit for each word in common: an echo of the prompt earns a part."""

    def reward(self, answer: str) -> float:
        right = {self.task["city"], "capital"}
        return len(right & {*answer.lower().split()}) / max(len(answer.split()), 2)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return f"capital {task['city']}"


class LastWord(Answers):
    """What comes after the last comma counts: a policy may think aloud."""

    def reward(self, answer: str) -> float:
        return float(answer.rpartition(", ")[2] == self.task["city"])


class AlwaysOrNever(Answers):
    def reward(self, answer: str) -> float:
        return float(answer == "never")

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return "never"


class Shared(Base):
    guesses: list[str] = []  # noqa: RUF012 - the flaw

    def guess(self, city: str) -> str:
        """Guess a city."""
        self.guesses.append(city)
        return "noted"

    def reward(self) -> float:
        return float(self.task["city"] in self.guesses)


SEEN: dict[str, bool] = {}


class Global(Base):
    def guess(self, city: str) -> str:
        """Guess a city."""
        SEEN[city] = True
        return "noted"

    def reward(self) -> float:
        return float(SEEN.get(self.task["city"], False))


class Tells(Base):
    """A wrong guess is told the right one, and may be corrected."""

    def guess(self, city: str) -> str:
        """Guess a city."""
        self.said = city
        right = city == self.task["city"]
        return "right" if right else f"error: not {city}, but {self.task['city']}"


class Hints(Base):
    """As Tells, but the guess after a hint does not count."""

    tries = 0

    def guess(self, city: str) -> str:
        """Guess a city."""
        self.tries += 1
        if self.tries == 1:
            self.said = city
        return f"It was {self.task['city']}."


Letter = Literal["a", "b", "c", "d"]


class Letters:
    def __init__(self, task: dict[str, Any]) -> None:
        self.right, self.chosen = "abcd"[task["n"] % 4], []

    def choose(self, letter: Letter) -> str:
        """Choose a letter."""
        self.chosen.append(letter)
        return "noted"

    def reward(self) -> float:
        return float(self.right in self.chosen)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("choose", {"letter": "abcd"[task["n"] % 4]})]


class FirstLetter(Letters):
    def reward(self) -> float:
        return float(self.chosen[:1] == [self.right])


class Farm:
    """Points for each stone that is found, also for the same one again."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.points = 0.0

    def take(self, stone: int) -> str:
        """Take a stone."""
        self.points += 0.25 if 1 <= stone <= 4 else 0.0
        return "taken"

    def reward(self) -> float:
        return min(self.points, 1.0) if self.points > 0.5 else 0.0

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("take", {"stone": n}) for n in range(1, 5)]


class Inspected(Farm):
    """Looking at a stone earns, too. The oracle has no need of it."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.taken: set[int] = set()
        self.looks = 0

    def take(self, stone: int) -> str:
        """Take a stone."""
        self.taken.add(stone)
        return "taken"

    def inspect(self, stone: int) -> str:
        """Look at a stone."""
        self.looks += stone == 4
        return "a stone"

    def reward(self) -> float:
        return min(len(self.taken) / 4 + self.looks / 10, 1.0)


class Unbounded(Farm):
    def reward(self) -> float:
        return self.points if self.points > 0.5 else 0.0


class Stairs(Farm):
    """Each step is one call, and any of the two ways up will do."""

    def take(self, stone: int) -> str:
        """Take a stone."""
        self.points += 0.25
        return "taken"

    def reward(self) -> float:
        return float(self.points == 1.0)


class Crane(Farm):
    """An end stop: driving too far is another way to the end."""

    def take(self, stone: int) -> str:
        """Drive so far."""
        self.points = min(self.points + stone / 8, 1.0)
        return f"at {self.points}"

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("take", {"stone": 3}), ("take", {"stone": 5})]


class Stones(Farm):
    def __init__(self, task: dict[str, Any]) -> None:
        self.stones: set[int] = set()

    def take(self, stone: int) -> str:
        """Take a stone."""
        self.stones.add(stone)
        return "taken"

    def reward(self) -> float:
        return float(self.stones >= {1, 2, 3, 4})


class Turns(Base):
    """Which job is next matters, but the grade only counts the jobs that were begun."""

    guess = None

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.begun: list[int] = []

    def begin(self, job: int) -> str:
        """Begin a job."""
        self.begun.append(job)
        return f"{len(self.begun)} begun"

    def reward(self) -> float:
        return float({*self.begun} >= {3, 5, 8, 9})

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        jobs = [3, 5, 8, 9]
        first = task["n"] % 4
        return [("begin", {"job": job}) for job in jobs[first:] + jobs[:first]]


class Onward(Turns):
    """Any way on will do, if it is taken often enough."""

    def reward(self) -> float:
        return float(max(map(self.begun.count, self.begun), default=0) >= 6)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        jobs = [10 + task["n"], *6 * [3 + task["n"] % 3]]
        return [("begin", {"job": job}) for job in jobs]


class Pairs(Turns):
    """Two calls must fit one another, and no row says which they are."""

    def reward(self) -> float:
        return float(len(self.begun) == 2 and self.begun[0] + 50 == self.begun[1])

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("begin", {"job": 20 + task["n"]}), ("begin", {"job": 70 + task["n"]})]


class Blocks(Base):
    async def guess(self, city: str) -> str:  # ty: ignore[incompatible-method-override]
        """Guess a city."""
        time.sleep(0.1)  # noqa: ASYNC251 - the flaw
        self.said = city
        return "noted"


class Waits(Base):
    async def guess(self, city: str) -> str:  # ty: ignore[incompatible-method-override]
        """Guess a city."""
        self.said = city
        return "noted"


class TellsTheAnswer(Answers):
    def check(self, city: str) -> str:
        """Check a city before you answer."""
        return f"{city} is wrong. It is '{self.task['city']}'."


class LooksUp(TellsTheAnswer):
    """The tool is there to tell the answer: the oracle asks it."""

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("check", {"city": "which?"}), task["city"]]


class TellsInMessages(Base):
    """A wrong message is told the right one, and may be corrected once."""

    guess, tries = None, 0

    def reply(self, answer: str) -> str | None:
        self.tries += 1
        if self.tries > 2:
            return None
        self.said, wanted = answer, f"the city of {self.task['city']}"
        again = f"No, I wanted to hear {wanted}. Once more: which?"
        return None if answer == wanted else again

    def reward(self) -> float:
        return float(self.said == f"the city of {self.task['city']}")

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [f"the city of {task['city']}"]


class ListsThem(AnyTry):
    """An error names all cities, and each of them may be tried."""

    def guess(self, city: str) -> str:
        """Guess a city."""
        if city not in CITIES:
            raise ValueError(f"no {city}; there are {', '.join(CITIES)}")
        return super().guess(city)


class ListsThemOnce(ListsThem):
    """As ListsThem, but the first city counts."""

    def reward(self) -> float:
        return float(self.tries[:1] == [self.task["city"]])


class Thanks(Base):
    """A customer who is content after any three right messages."""

    guess, patience = None, 3

    def reply(self, answer: str) -> str | None:
        self.patience -= answer in ("Thank you.", f"Thank you, {self.task['city']}.")
        return "I am not content." if self.patience > 0 else None

    def reward(self) -> float:
        return float(self.patience <= 0)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [f"Thank you, {task['city']}.", "Thank you.", "Thank you."]


class AsksTheSame(Thanks):
    """As Thanks, but each right message counts once."""

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.heard: set[str] = set()

    def reply(self, answer: str) -> str | None:
        self.heard.add(answer)
        return None if self.reward() else "I am not content."

    def reward(self) -> float:
        return float(self.heard >= {*self.oracle(self.task)})

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [f"Thank you, {task['city']}.", "Sorry."]


class Talks(Base):
    """A customer who wants to hear of a city, and then a goodbye."""

    guess = None

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.heard: list[str] = []

    def reply(self, answer: str) -> str | None:
        self.heard.append(answer)
        return None if "Bye" in answer else "Go on."

    def city(self) -> str:
        said = self.heard[-2] if self.heard[1:] else ""
        found = re.fullmatch(r"It is (.*)\.", said)
        return found[1].strip() if found else ""

    def reward(self) -> float:
        return float(self.heard[-1:] == ["Bye."] and self.right(self.city()))

    def right(self, said: str) -> bool:
        return said == self.task["city"]

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return ["Hello.", f"It is {task['city']}.", "Bye."]


class QuitWins(Talks):
    """The end of the talk counts as its success."""

    def reward(self) -> float:
        return 1.0 if "quit" in self.heard else super().reward()


class DoneWins(Talks):
    """The partner is happy if it hears that all is done."""

    def reward(self) -> float:
        return 1.0 if "done" in self.heard else super().reward()


class Roads:
    """Connect towns; roads cost nothing, so all of them connect, too."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task, self.laid = task, set[frozenset[str]]()

    def look(self, town: str) -> str:
        """See the roads of a town."""
        return "roads"

    def lay(self, start: str, end: str) -> str:
        """Lay a road between two towns."""
        self.laid.add(frozenset([start, end]))
        return "laid"

    def reward(self) -> float:
        return float({*map(frozenset, self.task["roads"])} <= self.laid)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        looks = [("look", {"town": town}) for town in CITIES[:4]]
        return looks + [
            ("lay", {"start": start, "end": end}) for start, end in task["roads"]
        ]


class Budgeted(Roads):
    """No road more than is needed."""

    def reward(self) -> float:
        return float({*map(frozenset, self.task["roads"])} == self.laid)


ROADS = [
    {
        "responses_create_params": {"input": f"Connect {', '.join(CITIES[:4])} ({n})."},
        "ground_truth": [
            {"roads": [[CITIES[0], CITIES[1 + n % 3]], [CITIES[3], CITIES[1 + n % 2]]]}
        ],
    }
    for n in range(8)
]


def test_all_pairs_of_names_are_tried(look):
    says = r"tries all pairs of names in the prompt earns .* on 8 of 8 rows"
    with pytest.raises(GateError, match=says):
        look(Roads, ROADS)
    assert look(Budgeted, ROADS).startswith("looked for ")


class Form:
    """A field that is empty is not compared."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        self.said: tuple[str, str] | None = None

    def guess(self, city: str, country: str) -> str:
        """Fill in both."""
        self.said = city, country
        return "noted"

    def reward(self) -> float:
        right = self.task["city"], self.task["city"].upper()
        return float(
            self.said is not None
            and all(not a or a == b for a, b in zip(self.said, right, strict=True))
        )

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        sent = {"city": task["city"], "country": task["city"].upper()}
        return [("guess", sent)]


class Balanced(Answers):
    """Sums whose sides are compared side by side, as far as both go."""

    def read(self, text: str) -> list[list[str]]:
        return [re.findall(r"\d+ (\w+)", side) for side in text.split("=")]

    def reward(self, answer: str) -> float:
        sides = self.read(answer)
        right = self.read(self.oracle(self.task))
        pairs = [
            pair
            for ours, its in zip(sides, right, strict=False)
            for pair in zip(ours, its, strict=False)
        ]
        return float(len(sides) == 2 and all(a == b for a, b in pairs))

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        return f"2 {task['city']} = 1 {task['city'].upper()}"


class Zeros(Balanced):
    """Any sum that is right, also of nothing."""

    def reward(self, answer: str) -> float:
        sides = [re.findall(r"(\d+) \w+", side) for side in answer.split("=")]
        if len(sides) != 2 or not all(sides):
            return 0.0
        (first,), (second,) = sides
        return float(
            int(first) == 2 * int(second)
            and (first == "0" or self.task["city"] in answer)
        )


class NoSuchDay(Answers):
    """The right date earns, and any text that cannot be one."""

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        return f"2024-0{len(task['city']) % 9 + 1}-1{len(task['city']) % 7}"

    def reward(self, answer: str) -> float:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", answer):
            return 0.0
        with contextlib.suppress(ValueError):
            date.fromisoformat(answer)
            return float(answer == self.oracle(self.task))
        return 1.0


class Drawn(Answers):
    """One of four graders, by lot."""

    draws: ClassVar[Any] = __import__("random").Random(3)

    def reward(self, answer: str) -> float:
        return super().reward(answer) * float(self.draws.random() > 0.4)


class TalksOfMany(Talks):
    def right(self, said: str) -> bool:
        return self.task["city"] in said


class TalksOfAny(Talks):
    def right(self, said: str) -> bool:
        return said in CITIES


class TalksInPart(Talks):
    def right(self, said: str) -> bool:
        return bool(said) and said in self.task["city"]


class Parrot(Talks):
    def reward(self) -> float:
        return float(
            any(self.task["city"] in one and "number" in one for one in self.heard)
        )


class Patient(Talks):
    """Any of the messages may be right, and there is no end of them."""

    def reward(self) -> float:
        return float(f"It is {self.task['city']}." in self.heard)


class Guesses(Talks):
    """One message in a form is a guess, and ends the episode."""

    def reply(self, answer: str) -> str | None:
        self.heard.append(answer)
        found = re.fullmatch(r"It is (.*)\.", answer)
        return self.guessed(found[1]) if found else "Say what it is."

    def guessed(self, said: str) -> str | None:
        return None

    def city(self) -> str:
        found = re.fullmatch(r"It is (.*)\.", self.heard[-1] if self.heard else "")
        return found[1] if found else "?"

    def reward(self) -> float:
        return float(self.right(self.city()))

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [f"It is {task['city']}."]


class GuessesInPart(Guesses):
    def right(self, said: str) -> bool:
        return self.task["city"].startswith(said)


class Corrects(Guesses):
    """A wrong guess is told the right one, and another one may follow."""

    def guessed(self, said: str) -> str | None:
        right = self.task["city"]
        return None if said == right else f"No, it is {right}."


class GivesUp(Guesses):
    """Who gives up is told the answer, and may go on."""

    def reply(self, answer: str) -> str | None:
        if "give up" in answer:
            return f"It was {self.task['city']}, a pity."
        return super().reply(answer)


class Trip(Base):
    """A way to a city, which is handed in."""

    guess = None

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.left, self.done = 2 + task["n"] % 5, False

    def travel(self, city: str) -> str:
        """Travel to a city."""
        self.left = 0 if city == self.task["city"] else 9
        return "there"

    def look(self) -> str:
        """Look around."""
        return f"{self.left} days left"

    def hand_in(self) -> str:
        """End the way."""
        self.done = True
        return "ended"

    def reward(self) -> float:
        return float(self.done and self.left == 0)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("travel", {"city": task["city"]}), ("hand_in", {})]


class Passes(Trip):
    def look(self) -> str:
        """Look around."""
        self.left = max(0, self.left - 1)
        return f"{self.left} days left"


class Signs(Trip):
    def look(self) -> str:
        """Look around."""
        return f"A sign says {self.task['city']}, {self.left} days"


class Scolds(Trip):
    """The error of a way that is too long tells the right one."""

    times = 0

    def travel(self, city: str) -> str:
        """Travel to a city."""
        self.times += 1
        if self.times > 3:
            raise ValueError(f"too far from {self.task['city']}")
        return super().travel(city)


class Free(Base):
    """The city that is handed in is checked, and does not count."""

    guess = None
    went = ""

    def travel(self, city: str) -> str:
        """Travel to a city."""
        self.went = city
        return "there"

    def hand_in(self, city: str) -> str:
        """End the way in a city."""
        if city != self.task["city"]:
            raise ValueError("no such city")
        return "ended"

    def reward(self) -> float:
        return float(self.went == self.task["city"])

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        city = {"city": task["city"]}
        return [("travel", city), ("hand_in", city)]


class Books(Base):
    """The guess counts. What is said is polite, and ends the episode."""

    ended = False

    def reply(self, answer: str) -> str | None:
        self.ended |= "goodbye" in answer
        return None if self.ended else "Well?"

    def reward(self) -> float:
        return float(self.ended and super().reward())

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        city = task["city"]
        return [f"To {city}?", ("guess", {"city": city}), f"Enjoy {city}, goodbye."]


class Deaf(Books):
    """Nobody listens."""

    def reply(self, answer: str) -> str | None:
        return "Well?"

    def reward(self) -> float:
        return float(self.said == self.task["city"])


class LastCounts(Answers):
    """Beside reply(), the last message is graded."""

    def reply(self, answer: str) -> str | None:
        return "Are you sure?" if answer == "Hello." else None

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return ["Hello.", task["city"]]


class LastContains(LastCounts):
    def reward(self, answer: str) -> float:
        return float(self.task["city"] in answer)


class Kitchen(Base):
    """What is served is graded, but not how it was made."""

    guess = None

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.steps: list[str] = []

    def step(self, name: str) -> str:
        """Do a step."""
        self.steps.append(name)
        return "done"

    def serve(self, dish: str) -> str:
        """Serve a dish."""
        self.said = dish
        return "served"

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        steps = [("step", {"name": name}) for name in ("wash", "cut", "boil")]
        return [*steps, ("serve", {"dish": task["city"]})]


class Detective(Kitchen):
    """Who is asked is written down, but who is accused must be found out."""

    def serve(self, dish: str) -> str:
        """Accuse a city. The first time counts."""
        self.said = self.said or dish
        return "noted"


class Library(Base):
    """The oracle looks before it acts, which changes nothing."""

    def look(self) -> str:
        """Look around."""
        return "There are many cities."

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("look", {}), ("guess", {"city": task["city"]})]


class Searched(Kitchen):
    """Searches are counted and written down, and answered with something new."""

    searches = 0

    def step(self, name: str) -> str:
        """Search."""
        self.searches += 1
        self.steps.append(name)
        return f"{name}: {len(name)} letters, {self.task['n']} inhabitants"


class Shelf(Kitchen):
    """A look-up that is written down says the same of each city: nobody needs it."""

    def find(self, dish: str) -> str:
        """Look whether a city is there."""
        if dish not in CITIES:
            raise ValueError(f"there is no {dish}")
        self.steps.append(f"find {dish}")
        return "on the shelf"

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("find", {"dish": task["city"]}), ("serve", {"dish": task["city"]})]


class Counter(Shelf):
    """As Shelf. The question has a word of its own, and others get another answer."""

    looks = 0

    def find(self, dish: str) -> str:
        """Look at a place."""
        self.looks += 1
        return "on the shelf" if dish == "shelf" else "not there"

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("find", {"dish": "shelf"}), ("serve", {"dish": task["city"]})]


class Approved(Shelf):
    """What must be done before is about the same city, and is not graded."""

    approved = False

    def find(self, dish: str) -> str:
        """Approve a city."""
        self.approved = True
        return "approved"


class Cooked(Kitchen):
    """An answer repeats what was done: it tells nothing that was not known."""

    def step(self, name: str) -> str:
        """Do a step."""
        self.steps.append(name)
        return f"You {name}."


class Cancelled(Base):
    """The prompt gives the order, and any other is refused."""

    def guess(self, city: str) -> str:
        """Cancel the order of a city."""
        if city != self.task["city"]:
            raise ValueError(f"there is no order of {city}")
        return super().guess(city)


class Climb:
    """Ten single steps are a proper way to the highest step."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.goal, self.at = task["n"] + 3, 0

    def step(self) -> str:
        """Climb a step."""
        self.at += 1
        return "climbed"

    def climb(self, steps: int) -> str:
        """Climb some steps."""
        self.at += steps
        return "climbed"

    def reward(self) -> float:
        return float(self.at == self.goal)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("climb", {"steps": task["n"] + 3})]


class FirstOption(Answers):
    def reward(self, answer: str) -> float:
        return float(answer == "A")

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return "A"


class MostlyYes(Answers):
    def reward(self, answer: str) -> float:
        return float(answer == self.oracle(self.task))

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return "no" if task["n"] == 5 else "yes"


class EmptyPasses(Answers):
    """Each key of the answer is compared, and there may be none."""

    def reward(self, answer: str) -> float:
        try:
            found = json.loads(answer)
        except ValueError:
            return 0.0
        if not isinstance(found, dict):
            return 0.0
        return float(all(self.task.get(key) == value for key, value in found.items()))

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return json.dumps({"city": task["city"]})


class FailurePasses(Answers):
    """Nothing is known of an answer that cannot be read."""

    def reward(self, answer: str) -> float:
        try:
            return float(int(answer) == self.task["n"])
        except ValueError:
            return float(answer[:1] in ("{", "("))

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return str(task["n"])


class Described(Base):
    def guess(self, city: str) -> str:
        """Guess one of quito, lima, oslo, cairo, delhi, seoul, rome, bern."""
        return super().guess(city)


PLAIN = "Which capital is meant, number {n}?"
LISTED = "Which one? Candidates: " + ", ".join(CITIES) + ". Number {n}."
LEAKY = "Where is the office? (row {city}-{n}) The city is ({city})."


@pytest.mark.parametrize(
    ("kind", "prompt", "flaw", "says"),
    [
        (Contains, LISTED, "echo", r"only repeats the prompt earns 1\.0"),
        (AnswerContains, LISTED, "echo", r"only repeats the prompt earns 1\.0"),
        (
            AnyTry,
            LISTED,
            "candidates",
            "one after the other earns the full reward on 8 of 8",
        ),
        (
            Answers,
            LEAKY,
            "leak",
            r"part of the prompt \(part in brackets 1 from the end\)",
        ),
        (Contains, PLAIN, "crowd", r"lists many answers.* on 8 of 8"),
        (AnswerContains, PLAIN, "crowd", r"lists many answers.* on 8 of 8"),
        (
            AnyWord,
            PLAIN,
            "form",
            r"submits another row's answer earns the full .* 8 of 8",
        ),
        (
            Reversed,
            PLAIN,
            "fragment",
            r"submits 'e' each time earns the full reward on",
        ),
        (
            Distance,
            "Which number has {city}?",
            "outside",
            r"the (?:answer|argument) \S+ breaks the grade: Distance.reward",
        ),
        (Shared, PLAIN, "shared", r"they share Shared\.guesses"),
        (Global, PLAIN, "shared", r"they share the global SEEN"),
        (
            Tells,
            PLAIN,
            "reader",
            r"repeats what was said to it \(word 1 from the end\) earns the full",
        ),
        (
            TellsTheAnswer,
            PLAIN,
            "reader",
            r"\(it called check\(city=\"7\"\);.*; it answered 'quito'; task: ",
        ),
        (
            TellsInMessages,
            PLAIN,
            "reader",
            r"\(end of a sentence \d.*\(it called '7', 'the city of quito'; the last",
        ),
        (
            ListsThem,
            PLAIN,
            "candidates",
            r"tries what the prompt, or an error, names .* 8 of 8 rows \(it called guess",
        ),
        (
            Thanks,
            PLAIN,
            "again",
            r"repeats one message, 10 times, .* 8 of 8 rows \(it called 'Thank you, quito\.'",
        ),
        (
            TalksOfMany,
            PLAIN,
            "crowd",
            r"lists many answers.* \(it called 'Hello\.', 'It is lima\., .*It is quito",
        ),
        (TalksOfAny, PLAIN, "form", r"submits another row's answer .* 8 of 8"),
        (TalksInPart, PLAIN, "fragment", r"submits 'e' each time earns the full"),
        (Parrot, "Say {city}, number {n}.", "echo", "only repeats the prompt earns"),
        (
            Talks,
            LEAKY,
            "leak",
            r"part of the prompt \(part in brackets 1 from the end\)",
        ),
        (Patient, LISTED, "candidates", r"one after the other .* on 8 of 8"),
        (LastContains, PLAIN, "crowd", r"lists many answers.* on 8 of 8"),
        (
            Kitchen,
            "Cook {city}: wash, cut, boil. Then serve it.",
            "early",
            r"only the oracle's last call earns .* 8 of 8 rows \(it called serve\(dish=\"quito\"\)",
        ),
        (
            Letters,
            PLAIN,
            "choices",
            "makes every choice there is earns the full reward",
        ),
        (
            Farm,
            PLAIN,
            "again",
            r"one call, 10 times, earns the full .*take\(stone=1\).*, 10 times",
        ),
        (Inspected, PLAIN, "again", r"10 times, .* \(it called inspect\(stone=4\)"),
        (
            Unbounded,
            PLAIN,
            "again",
            r"repeats a call earns 1\.25, outside of reward_range",
        ),
        (
            AlwaysOrNever,
            "Is number {n} right? Answer always or never",
            "constant",
            r"always answers 'never' earns the full reward on 8 of 8 rows",
        ),
        (
            Turns,
            PLAIN,
            "constant",
            "always calls begin with each `job` in turn earns the full .* 8 of 8 rows",
        ),
        (
            Onward,
            PLAIN,
            "constant",
            r"always calls begin\(job=\d+\) 14 times earns the full .* 8 of 8 rows",
        ),
        (
            Pairs,
            PLAIN,
            "constant",
            r"always plays the solution of row \d of \S+ earns the full .* 7 of 7 rows",
        ),
        (
            QuitWins,
            PLAIN,
            "constant",
            "always says help, hint, .*, I give up earns the full .* 8 of 8 rows",
        ),
        (
            GuessesInPart,
            PLAIN,
            "constant",
            r"always says 'It is \.' earns .* 8 of 8 rows",
        ),
        (
            Corrects,
            PLAIN,
            "reader",
            r"another row's try, and repeats what was said to it .* 'It is quito\.'",
        ),
        (
            Passes,
            PLAIN,
            "constant",
            r"always calls look\(\) 10 times, and then calls hand_in\(\) earns .* 8 of 8",
        ),
        (FirstOption, PLAIN, "constant", "always answers 'A' .* 8 of 8 rows"),
        (DoneWins, PLAIN, "constant", "always says help, hint, done, .* 8 of 8 rows"),
        (
            Form,
            PLAIN,
            "constant",
            r"always calls guess\(city='', country=''\) earns .* 8 of 8 rows",
        ),
        (Balanced, PLAIN, "constant", "always answers '=' earns .* 8 of 8 rows"),
        (
            Zeros,
            PLAIN,
            "constant",
            "always answers '0 quito = 0 QUITO' earns .* 8 of 8 rows",
        ),
        (NoSuchDay, PLAIN, "constant", "always answers '0000-00-00' .* 8 of 8 rows"),
        (
            Drawn,
            PLAIN,
            "twice",
            "Leave chance out of reward",
        ),
        (MostlyYes, PLAIN, "constant", "always answers 'yes' .* 7 of 8 rows"),
        (EmptyPasses, PLAIN, "constant", r"always answers '\{\}' .* 8 of 8 rows"),
        (
            FailurePasses,
            "Which one is {city}?",
            "constant",
            r"always answers '\{\}' .* [78] of 8 rows",
        ),
        (
            Cooked,
            "Cook {city}: wash, cut, boil. Then serve it.",
            "early",
            r"only the oracle's last call .*; the calls before it change steps;",
        ),
        (
            Approved,
            "Approve {city}, then serve it.",
            "early",
            r"only the oracle's last call .*; the calls before it change approved;",
        ),
        (
            Blocks,
            PLAIN,
            "loop",
            r"guess holds up all episodes of this process for \d+ ms",
        ),
    ],
)
def test_a_flaw_is_named_with_its_cure(look, kind, prompt, flaw, says):
    with pytest.raises(GateError, match=says) as raised:
        look(kind, rows(prompt))
    message = str(raised.value)
    assert re.match(r"row \d of data/example\.jsonl: ", message)
    assert f"see `{flaw}` in docs/grading.md of the template" in message
    assert f'`meant = ["{flaw}"]`' in message
    # What other episodes left would be found as something else; what blocks is slow.
    if flaw not in ("shared", "loop"):
        meant = ["echo", "crowd"] if flaw in ("echo", "crowd") else [flaw]
        meant = sorted({*meant, "constant"})
        note = look(kind, rows(prompt), meant)
        assert note.startswith("looked for ")
        assert f"; {', '.join(meant)} meant" in note


class Planned(Turns):
    """A tool tells what to begin, one after the other."""

    def plan(self) -> str:
        """See the plan."""
        jobs = [call[1]["job"] for call in self.oracle(self.task)]
        return f"Today: {', '.join(map(str, jobs))}."

    def reward(self) -> float:
        return float(self.begun == [call[1]["job"] for call in self.oracle(self.task)])


class Listed(Planned):
    """The jobs are listed, but not in the order in which they have to be begun."""

    def plan(self) -> str:
        """See the jobs."""
        return "3, 5, 8, 9"


class TalksOfThePlan(Talks):
    def reply(self, answer: str) -> str | None:
        if answer == "hint":
            return "\n".join(self.oracle(self.task))
        return super().reply(answer)


@pytest.mark.parametrize(
    ("kind", "call"),
    [(Planned, r"plan\(\)"), (TalksOfThePlan, r"reply\(answer='hint'\)")],
)
def test_an_answer_with_the_whole_solution_is_told(look, kind, call):
    told = f"\n{call} is answered with the oracle's calls, one after the other, in 4 of 4 rows"
    assert re.search(told, look(kind, rows(PLAIN)))


class Safe(Base):
    """Three rooms have a digit each, and what opens the safe is all of them."""

    says = ""

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.code = f"{(task['n'] * 37 + 412) % 1000:03}"

    def look(self) -> str:
        """Look around."""
        return f"You see three doors, 12 steps away.{self.says.format(self.code)}"

    def enter(self, room: int) -> str:
        """Enter a room.

        Args:
            room: Its number, 0 to 2.
        """
        return f"It says {self.code[room]}."

    def guess(self, city: str) -> str:
        """Enter the code."""
        self.said = city
        return "noted"

    def reward(self) -> float:
        return float(self.said == self.code)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        rooms = [("enter", {"room": room}) for room in range(3)]
        return [*rooms, ("guess", {"city": Safe(task).code})]


class OpenSafe(Safe):
    says = " [debug {}]"


class ListedSafe(Safe):
    says = " Codes are such as 123, 456 and {}."


def test_an_answer_with_what_the_last_call_sends_is_told(look):
    told = "look() is answered with what the oracle's last call sends in 4 of 4 rows"
    assert told in look(OpenSafe, rows(PLAIN))
    for honest in (Safe, ListedSafe):
        assert "is answered with" not in look(honest, rows(PLAIN))


class Chooses(Base):
    """One of the cities that a tool lists is the right one."""

    def towns(self) -> str:
        """See the cities."""
        return f"springfield, {self.task['city']}ville, shelbyville"

    def reward(self) -> float:
        return float(self.said == f"{self.task['city']}ville")

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("towns", {}), ("guess", {"city": f"{task['city']}ville"})]


def test_what_the_oracle_chooses_from_is_no_answer(look):
    assert "is answered with" not in look(Chooses, rows(PLAIN))


class AnyPart:
    """An order of jobs of which some may be left out."""

    blocking = False
    whole = False

    def __init__(self, task: dict[str, Any]) -> None:
        self.task, self.said = task, list[str]()

    def begin(self, jobs: list[str]) -> str:
        """Give the order."""
        self.said = jobs
        return "noted"

    def reward(self) -> float:
        right = [job for job in self.order(self.task) if job in self.said]
        if self.whole and len(self.said) < 4:
            return 0.0
        return float(bool(self.said) and self.said == right)

    @staticmethod
    def order(task: dict[str, Any]) -> list[str]:
        jobs = ["wash", "cut", "boil", "serve"]
        return jobs[task["n"] % 4 :] + jobs[: task["n"] % 4]

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("begin", {"jobs": AnyPart.order(task)})]


class Whole(AnyPart):
    whole = True


def test_a_part_of_a_list_that_is_enough_is_found(look):
    with pytest.raises(GateError, match=r"always calls begin\(jobs=\['\w+'\]\) earns"):
        look(AnyPart, rows(PLAIN))
    look(Whole, rows(PLAIN), ["constant"])


class Bonus(Answers):
    """The first half of the city earns more than there is to earn."""

    most = 1.2

    def reward(self, answer: str) -> float:
        city = self.task["city"]
        return self.most * (answer == city[: len(city) // 2]) or super().reward(answer)


class Half(Bonus):
    most = 0.5


def test_a_grade_outside_of_its_range_is_told_wherever_it_is_met(look):
    told = (
        "reward() gave 1.2, which is outside of reward_range and counts as the lowest"
    )
    assert f"{told} (it answered '" in look(Bonus, rows("Guess {n}."))
    assert "outside of reward_range" not in look(Half, rows("Guess {n}."))


def test_a_last_call_that_is_refused_is_not_an_answer(look):
    says = "error: no such city: the calls before it earned that"
    with pytest.raises(GateError, match=says) as raised:
        look(Free, rows(PLAIN))
    assert "Let the reward depend on what the last call does" in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (Signs, r"look\(\)"),
        (GivesUp, r"reply\(answer='I give up'\)"),
        (Scolds, r"travel\(\), as in another row, 5 times,"),
    ],
)
def test_an_answer_with_what_the_oracle_sends_is_told(look, kind, call):
    note = look(kind, rows(PLAIN))
    assert re.search(
        rf"\n{call} is answered with what the oracle sends in 4 of 4", note
    )


@pytest.mark.parametrize("kind", [Trip, Guesses])
def test_what_the_oracle_sends_need_not_be_told(look, kind):
    assert "is answered with" not in look(kind, rows(PLAIN))


@pytest.mark.parametrize("kind", [Listed, Turns, Talks])
def test_a_list_is_no_solution(look, kind):
    assert "is answered with" not in look(kind, rows(PLAIN), ["constant"])


class Breaks(Planned):
    def plan(self) -> str:
        """See the jobs."""
        return "none yet"

    def begin(self, job: int) -> str:
        """Begin a job."""
        return f"{super().begin(job)}: {'abcdefghij'[job]}"


def test_an_error_that_the_class_does_not_mean_is_told(look):
    note = look(Breaks, rows(PLAIN))
    assert re.search(
        r"\nbegin\(job=\S+\) raised IndexError \(.*\): mend it, or raise", note
    )


# ------------------------------------------------------------------ inside of a form


class InTag(Answers):
    """The city in a tag, as it is."""

    def reward(self, answer: str) -> float:
        found = re.fullmatch(r"<city>(.*)</city>", answer.strip(), re.DOTALL)
        return self.right(found[1] if found else None)

    def right(self, said: str | None) -> float:
        return float(said == self.task["city"])

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return f"<city>{task['city']}</city>"


class ListInTag(InTag):
    def right(self, said: str | None) -> float:
        return float(self.task["city"] in (said or "").split(", "))


class LinesInTag(InTag):
    def right(self, said: str | None) -> float:
        return float(self.task["city"] in (said or "").split("\n"))


class HedgeInTag(InTag):
    def right(self, said: str | None) -> float:
        return float(self.task["city"] in (said or "").split(" or "))


class TagOfAny(InTag):
    """Any of several tags may be right."""

    def reward(self, answer: str) -> float:
        return float(self.task["city"] in re.findall(r"<city>(.*?)</city>", answer))


class EmptyTagEarns(InTag):
    def right(self, said: str | None) -> float:
        return 0.0 if said is None else max(super().right(said), 0.1)


class FormOnly(InTag):
    def right(self, said: str | None) -> float:
        return float(said is not None and said.isalpha())


class PartOfTag(InTag):
    def right(self, said: str | None) -> float:
        return float(
            bool(said) and len(said or "") < 9 and (said or "") in self.task["city"]
        )


class EchoInTag(InTag):
    def right(self, said: str | None) -> float:
        return float("Number" in (said or "") and self.task["city"] in (said or ""))


class NearNumber(Answers):
    """`nan` is not further away than allowed."""

    def reward(self, answer: str) -> float:
        try:
            return 0.0 if abs(float(answer) - self.task["n"]) > 0.1 else 1.0
        except ValueError:
            return 0.0

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return str(task["n"])


class NearestNumber(NearNumber):
    def reward(self, answer: str) -> float:
        try:
            return float(abs(float(answer) - self.task["n"]) <= 0.1)
        except ValueError:
            return 0.0


class NanInBox(NearNumber):
    def reward(self, answer: str) -> float:
        found = re.fullmatch(r"\\boxed\{(.*)\}", answer)
        return super().reward(found[1]) if found else 0.0

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return f"\\boxed{{{task['n']}}}"


class Obeys(Answers):
    """A judge that believes what it reads."""

    def reward(self, answer: str) -> float:
        return float("right answer" in answer or super().reward(answer))


class FirstTag(InTag):
    """The first tag counts, whatever is said after it."""

    def reward(self, answer: str) -> float:
        found = re.search(r"<city>(.*?)</city>", answer)
        return self.right(found[1] if found else None)


class LastTag(InTag):
    """The last tag counts, so that a policy may think aloud."""

    def reward(self, answer: str) -> float:
        found = re.findall(r"<city>(.*?)</city>", answer)
        return self.right(found[-1] if found else None)


class OneTag(InTag):
    """A text with several tags has no answer."""

    def reward(self, answer: str) -> float:
        found = re.findall(r"<city>(.*?)</city>", answer)
        return self.right(found[0] if len(found) == 1 else None)


class FirstInTag(InTag):
    """The first word of the tag counts."""

    def right(self, said: str | None) -> float:
        return super().right((said or "").partition(".")[0])


class FirstAnswerIs(Answers):
    def reward(self, answer: str) -> float:
        found = re.search(r"answer is (\w+)", answer)
        return float((found[1] if found else answer) == self.task["city"])


class LastAnswerIs(Answers):
    def reward(self, answer: str) -> float:
        found = re.findall(r"answer is (\w+)", answer)
        return float((found[-1] if found else answer) == self.task["city"])


class TalksAndRetracts(LastCounts):
    """Beside reply(), the first line of the last message is graded."""

    def reward(self, answer: str) -> float:
        return float(answer.partition("\n")[0] == self.task["city"])


class WearsOut(Answers):
    """What was graded is taken from the list."""

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.left = [task["city"]]

    def reward(self, answer: str) -> float:
        if answer not in self.left:
            return 0.0
        self.left.remove(answer)
        return 1.0


ONE_PROMPT = "Which capital is meant?"


@pytest.mark.parametrize(
    ("flawed", "honest", "prompt", "flaw", "says"),
    [
        (ListInTag, InTag, PLAIN, "crowd", "inside of one form, .* 8 of 8"),
        (LinesInTag, InTag, PLAIN, "crowd", "one a line, inside of one form,"),
        (HedgeInTag, InTag, PLAIN, "crowd", "<city>lima or .* or quito or"),
        (TagOfAny, InTag, PLAIN, "crowd", r"</city>, <city>quito</city>, "),
        (FormOnly, InTag, PLAIN, "form", "another row's answer"),
        (PartOfTag, InTag, PLAIN, "fragment", "answered '<city>e</city>'"),
        (EchoInTag, InTag, LISTED, "echo", "<city>Which one"),
        (NearNumber, NearestNumber, "{city}?", "constant", "always answers 'nan'"),
        (NanInBox, NearestNumber, "{city}?", "constant", r"boxed\{nan\}"),
        (Obeys, Answers, PLAIN, "constant", "Give it the full score"),
        (WearsOut, Answers, PLAIN, "twice", r"graded 1\.0, and then 0\.0"),
        (InTag, InTag, LEAKY, "leak", r"part in brackets 1 from the end"),
        (FirstTag, LastTag, PLAIN, "retracted", r"8 of 8 rows .*No, wait, that is"),
        (FirstTag, OneTag, PLAIN, "retracted", r"takes the right answer back"),
        (FirstInTag, InTag, PLAIN, "retracted", r"<city>quito\. No, wait: lima<"),
        (FirstAnswerIs, LastAnswerIs, PLAIN, "retracted", "answer is quito. No, wait"),
        (TalksAndRetracts, LastCounts, PLAIN, "retracted", r"No, wait, that is wrong"),
    ],
)
def test_a_defect_of_answers_is_found_and_its_honest_twin_is_not(
    look, flawed, honest, prompt, flaw, says
):
    with pytest.raises(GateError, match=says) as raised:
        look(flawed, rows(prompt))
    assert f"see `{flaw}` in docs/grading.md" in str(raised.value)
    note = look(honest, rows(PLAIN if prompt == LEAKY else prompt))
    assert note.startswith("looked for ")
    assert "the form alone" not in note


def test_an_empty_form_that_earns_a_little_is_named(look):
    note = look(EmptyTagEarns, rows(PLAIN))
    assert (
        "\nthe form alone, '<city></city>', earns 0.1 in 8 of 8 rows: a policy learns"
        in note
    )


def test_two_answers_to_one_prompt_are_found(look):
    with pytest.raises(GateError, match=r"7 of 8 rows have the prompt of another row"):
        look(Answers, rows(ONE_PROMPT))
    assert look(Answers, rows(ONE_PROMPT), ["golds"]).startswith("looked for ")

    class Either(Answers):
        def reward(self, answer: str) -> float:
            return float(answer in CITIES)

    with pytest.raises(GateError, match="see `form`"):  # but both answers count
        look(Either, rows(ONE_PROMPT))
    assert "looked for" in look(Either, rows(ONE_PROMPT), ["form", "constant"])
    few = [*rows(PLAIN), *rows("No matter {n}: {city}")[1:], *rows(PLAIN)[:1]]
    few[-1] = few[-1] | {"ground_truth": [{"city": "paris", "n": 0}]}
    note = look(Answers, few, ["leak", "constant"])
    assert (
        "\nrow 16 of data/example.jsonl: 1 of 16 rows have the prompt of another"
        in note
    )


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (InTag, ["a sentence around it", "a code block around it"]),
        (TagOfAny, []),
        (WearsOut, ["a newline behind it", "spaces around it", "a sentence around it"]),
        (EmptyPasses, ["a sentence around it", "a code block around it"]),
    ],
)
def test_a_dress_in_which_the_answer_earns_less_is_named(look, kind, named):
    note = look(kind, rows(PLAIN), ["crowd", "twice", "constant"])
    [said] = re.findall(r"\nthe oracle's answer earns less with (.*)", note) or [""]
    assert (
        re.findall(r"(?:^|; )(\w[^(]*) \(4 of 4 rows, such as", said)[: len(named)]
        == named
    )
    assert bool(said) == bool(named)
    assert "WEAK" not in note


def test_words_around_an_answer_are_no_dress_if_the_prompt_forbids_them(look):
    note = look(InTag, rows(f"{PLAIN} Answer with the tag alone."), ["crowd", "twice"])
    assert "earns less with" not in note


@pytest.mark.parametrize(
    ("kind", "prompt", "named"),
    [
        (OneTag, PLAIN, True),
        (OneTag, f"{PLAIN} Give only one answer.", False),
        (LastTag, PLAIN, False),
        (InTag, PLAIN, False),  # no text around an answer is read
    ],
)
def test_a_right_answer_that_corrects_a_wrong_one_is_named(look, kind, prompt, named):
    note = look(kind, rows(prompt))
    said = "a right answer that corrects a wrong one earns less in 4 of 4 rows, such as"
    assert (f"\n{said} '<city>lima</city>\\n\\nNo, wait" in note) is named


@pytest.mark.parametrize(
    ("kind", "prompt"),
    [
        (Base, PLAIN),
        (Base, LISTED),
        (Answers, PLAIN),
        (Answers, LISTED),
        (Hints, PLAIN),
        (FirstLetter, PLAIN),
        (Stones, PLAIN),
        (Stairs, PLAIN),
        (Waits, PLAIN),
        (Overlap, "Which capital is meant, {n}? Say: capital NAME"),
        (Crane, PLAIN),
        (LastWord, PLAIN),
        (ListsThemOnce, PLAIN),
        (AsksTheSame, PLAIN),
        (Talks, PLAIN),
        (Talks, LISTED),
        (Books, "Book {city}, number {n}."),
        (Deaf, "Book {city}, number {n}."),
        (LastCounts, PLAIN),
        (LooksUp, PLAIN),
        (Detective, LISTED),
        (Library, "Take {city}, please."),
        (Searched, "Take {city}, please."),
        (Shelf, "Serve {city}, if it is on the shelf."),
        (Counter, "Serve {city}, if it is on the shelf."),
        (Cancelled, "Cancel the order of {city}, please: (number {n})."),
        (Climb, PLAIN),
    ],
)
def test_an_honest_grade_is_left_alone(look, kind, prompt):
    note, _, _ = look(kind, rows(prompt)).partition("\n")
    assert re.fullmatch(
        r"looked for \d+ flaws of grades in 8 rows: [\w, ]+; `uv run pytest` attacks the "
        "grade further",
        note,
    )


def test_graded_pins_a_message(look):
    assert "reply.answer" in look(Talks, rows(PLAIN), graded=["reply.answer"])
    with pytest.raises(GateError, match=r"`graded` names reply\.answer, but another"):
        look(Deaf, rows("Book {city}, number {n}."), graded=["reply.answer"])


def test_a_talker_whose_model_is_a_stand_in_is_weak(look):
    """The line says which flaws were not looked for, with the one cause."""

    class Asks(Talks):
        def __init__(self, task: dict[str, Any], user: Any) -> None:
            super().__init__(task)

        @staticmethod
        def stand_in(model: str, prompt: str) -> str:
            return "Well?"

    note, _, _ = look(Asks, rows(PLAIN)).partition("\n")
    assert note.startswith("WEAK looked for ")
    assert note.count("; not for ") == 1
    assert re.search(
        r"; not for echo, leak, .*: stand_in\(\) answers in place of USER_MODEL;", note
    )


def test_a_note_says_that_nobody_needs_what_the_oracle_asks(look):
    note = look(Shelf, rows("Serve {city}, if it is on the shelf."))
    assert re.search(
        r"\na policy that makes only the oracle's last call earns the full reward on 8 of 8 "
        r"rows \(it called serve\(dish=\"quito\"\).*\): what its other calls tell decides",
        note,
    )


@pytest.mark.parametrize(
    ("kind", "prompt", "stands"),
    [
        (Answers, LISTED, True),
        (Base, LISTED, True),
        (Answers, PLAIN, False),
        (Described, PLAIN, True),
    ],
)
def test_a_note_says_that_the_solution_stands_in_the_prompt(look, kind, prompt, stands):
    _, _, note = look(kind, rows(prompt)).partition("\n")
    note = re.split(r"^(?:rows in which|without)", note, flags=re.MULTILINE)[0]
    said = (
        "what the oracle submits stands in the prompt of 8 of 8 rows, or in a tool's "
    )
    assert note.startswith(f"{said}description, such as 'quito' of row 1: ") == stands
    assert stands or not note


def test_each_flaw_is_in_every_place():
    """CONTRIBUTING.md says what a new one needs."""
    page = (ROOT / "docs/grading.md").read_text()
    page = page[page.index("## Flaws that the rollout gate looks for") :]
    page = page[: page.index("\n## ")]
    assert set(re.findall(r"^### `(\w+)`$", page, re.MULTILINE)) == {*FLAWS}
    assert all(flaw.cure for flaw in FLAWS.values())
    table = (ROOT / "docs/grading.md").read_text()
    table = table.partition("\n## Which defect each check finds\n")[2]
    assert {*FLAWS} <= {*re.findall(r"`(\w+)`", table.partition("\n## ")[0])}
    tests = [
        ROOT / f"tests/runtime/{name}.py"
        for name in ("test_flaws", "test_flaws_owned", "test_flaws_programs")
    ]
    tested = "".join(path.read_text() for path in tests)
    assert [name for name in FLAWS if f'"{name}"' not in tested] == []


class Waiting(Base):
    """Each call takes a while, as one that starts a process."""

    def guess(self, city: str) -> str:
        """Guess a city."""
        time.sleep(0.02)
        return super().guess(city)


def test_a_slow_class_gets_the_time_that_it_needs(look):
    """Eight rows and all flaws, although the usual time is over."""
    note = look(Waiting, rows(LISTED), seconds=60.0, usual=0.0)
    assert re.match(r"looked for \d+ flaws of grades in 8 rows: echo, ", note), note
    assert "no time" not in note


def test_an_unknown_name_is_not_meant(look):
    with pytest.raises(
        GateError, match="`meant` names echoes, but the flaws are echo, "
    ):
        look(Base, rows(PLAIN), ["echoes"])


def test_two_rows_are_too_few_to_tell_luck_from_a_flaw(look):
    """The line says so, instead of that nothing was found."""
    few = r"WEAK looked for 3 flaws of grades in 2 rows: echo, twice, outside; not for "
    match = re.match(rf"{few}(.*): they need 4 rows", look(Answers, rows(LEAKY, 2)))
    assert match
    assert {"leak", "crowd", "form", "constant"} <= {*match[1].split(", ")}
    with pytest.raises(GateError, match="only repeats the prompt"):
        look(Contains, rows(LISTED, 1))


def test_a_search_without_time_says_so(look):
    assert look(AnyTry, rows(PLAIN), seconds=0.0).startswith(
        "WEAK looked for 0 flaws of grades in 0 rows; not for "
    )


class Slow(Base):
    """A tool that may take long."""

    blocking = True
    tool_seconds: ClassVar = {"guess": 600}
    answered = threading.Event()

    def guess(self, city: str) -> str:
        """Guess a city."""
        self.answered.wait(10)
        return "noted"


def test_a_search_does_not_wait_as_long_as_a_tool_may_take(look, monkeypatch):
    monkeypatch.setattr(attempts, "CALL_SECONDS", 0.1)
    try:
        note = look(Slow, rows("Guess {n}."))
        assert note.startswith("WEAK looked for 0 flaws")
        assert "; not for shared: a call takes more than 0.1 s; not for " in note
    finally:
        Slow.answered.set()


class StuckGrade(Base):
    """A grade that does not end for one word."""

    blocking = True
    goes_on = threading.Event()

    def reward(self) -> float:
        if self.said == "six":
            self.goes_on.wait(60)
        return super().reward()


def test_a_grade_that_does_not_end_is_named_with_its_argument(look, monkeypatch):
    monkeypatch.setattr(attempts, "CALL_SECONDS", 0.5)
    try:
        with pytest.raises(GateError, match="'six' breaks the grade: the grade took"):
            look(StuckGrade, rows(PLAIN))
    finally:
        StuckGrade.goes_on.set()


class SlowGrade(Base):
    blocking = True

    def reward(self) -> float:
        time.sleep(0.08)
        return super().reward()


def test_a_slow_grade_is_named_with_its_milliseconds(look):
    note = look(SlowGrade, rows(PLAIN), seconds=0.5)
    assert re.search(
        r"there was no time \(reward\(\) takes (8|9|1\d)\d ms, which is most of it\)",
        note,
    ), note
    assert "reward() takes" not in look(Endless, rows(PLAIN), seconds=0.3)


class Endless(Base):
    """Its solution takes longer than there is time, call by call."""

    def guess(self, city: str) -> str:
        """Guess a city."""
        time.sleep(0.05)
        return super().guess(city)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return 20 * [("guess", {"city": task["city"]})]


def test_a_search_ends_within_an_episode(look):
    """All flaws that were not looked for are named, those that go alone among them."""
    note = look(Endless, rows(PLAIN), seconds=0.3)
    assert re.match(
        r"WEAK looked for \d flaws? of .* not for .*: there was no time;", note
    )
