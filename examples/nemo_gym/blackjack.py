"""NeMo Gym's blackjack: hit or stand against a dealer who draws to 17."""

import random
import re
from typing import Any

POINTS = {str(number): number for number in range(2, 11)}
POINTS |= {"J": 10, "Q": 10, "K": 10, "A": 11}
DEALER_STANDS = 17
ACTION = re.compile(r"<action>\s*(hit|stand)\s*</action>", re.IGNORECASE)


def value(hand: list[str]) -> int:
    """The points of a hand. An ace counts 11, or 1 if the hand would go over 21."""
    points = sum(POINTS[card] for card in hand)
    for _ in range(hand.count("A")):
        points -= 10 if points > 21 else 0
    return points


class Blackjack:
    """One hand. `player` and `dealer` list their first cards, in the order of the deal.

    A row of NeMo Gym has neither. All further cards are drawn at random, by `seed` if the
    task has one.
    """

    blocking = False
    deterministic = False
    reward_range = (-1.0, 1.0)

    def __init__(self, task: dict[str, Any]) -> None:
        self._random = random.Random(task.get("seed"))
        self._deck = {who: list(task.get(who, [])) for who in ("player", "dealer")}
        self._hands: dict[str, list[str]] = {"player": [], "dealer": []}
        self._stood = False
        for who in ("player", "player", "dealer", "dealer"):
            self._draw(who)

    def observation(self) -> str:
        hand, shown = self._hands["player"], self._hands["dealer"][0]
        points = value(hand)
        return f"Your hand: [{', '.join(hand)}] = {points}\nDealer shows: {shown}"

    def hit(self) -> str:
        """Draw a card. The hand loses if it goes over 21."""
        self._check()
        self._draw("player")
        return self.observation()

    def stand(self) -> str:
        """Keep the hand. The dealer then draws."""
        self._check()
        self._stood = True
        while value(self._hands["dealer"]) < DEALER_STANDS:
            self._draw("dealer")
        hand = self._hands["dealer"]
        return f"Dealer: [{', '.join(hand)}] = {value(hand)}"

    def reward(self) -> float:
        """1.0 for a win, 0.0 for a draw, -1.0 for a loss or a hand without a stand."""
        player, dealer = (value(self._hands[who]) for who in ("player", "dealer"))
        if not self._stood or player > 21:
            return -1.0
        if dealer > 21:
            return 1.0
        return float((player > dealer) - (player < dealer))

    def _check(self) -> None:
        if self._stood or value(self._hands["player"]) > 21:
            raise ValueError("the hand is over")

    def _draw(self, who: str) -> None:
        deck = self._deck[who]
        card = deck.pop(0) if deck else self._random.choice(list(POINTS))
        self._hands[who].append(card)


class TalkingBlackjack(Blackjack):
    """The same hand, with actions in messages, as in NeMo Gym."""

    def reply(self, answer: str) -> str | None:
        """Return what the policy sees after a card; None ends the hand."""
        action = ACTION.search(answer)
        if action is None:
            raise ValueError("write <action>hit</action> or <action>stand</action>")
        if action[1].lower() == "stand":
            self.stand()
            return None
        shown = self.hit()
        return None if value(self._hands["player"]) > 21 else shown
