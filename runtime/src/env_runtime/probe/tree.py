"""A small decision tree over statements that are true of a thing, or not."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

DEPTH = 4
FEWEST = 3  # right ones on one side of a question, so that no leaf is one row's


@dataclass
class Tree:
    """The share of right ones among the things of a node, and its question, if any."""

    right: int
    count: int
    question: str = ""
    yes: "Tree | None" = None
    no: "Tree | None" = None

    @property
    def share(self) -> float:
        """The share of right ones, as if one more had been wrong and half of it right."""
        return (self.right + 0.5) / (self.count + 1.5)

    def leaf(self, true: frozenset[str]) -> "Tree":
        """The leaf of a thing of which these statements are true."""
        node = self
        while node.yes and node.no:
            node = node.yes if node.question in true else node.no
        return node

    def leaves(
        self, path: tuple[str, ...] = ()
    ) -> Iterable[tuple["Tree", tuple[str, ...]]]:
        """The leaves, with what is true of their things. Untrue statements begin with `not `."""
        if self.yes and self.no:
            yield from self.yes.leaves((*path, self.question))
            yield from self.no.leaves((*path, f"not {self.question}"))
        else:
            yield self, path


def grow(things: list[tuple[frozenset[str], bool]]) -> Tree:
    """The tree that tells right things from wrong ones, by their statements.

    A set of things is a number with a bit for each, so that a count is fast.
    """
    masks: dict[str, int] = {}
    right = 0
    for number, (true, is_right) in enumerate(things):
        bit = 1 << number
        right |= bit if is_right else 0
        for statement in true:
            masks[statement] = masks.get(statement, 0) | bit
    # In one order, so that each run grows the same tree: of like questions, the shortest
    common = [
        (one, masks[one])
        for one in sorted(masks, key=lambda one: (len(one), one))
        if masks[one].bit_count() >= FEWEST
    ]
    return _grow((1 << len(things)) - 1, right, common, DEPTH)


def _grow(node: int, right: int, masks: list[tuple[str, int]], depth: int) -> Tree:
    count, good = node.bit_count(), (node & right).bit_count()
    tree = Tree(good, count)
    if depth == 0 or good < FEWEST or good == count:
        return tree
    whole = _entropy(good, count)
    best, gain = None, math.log2(len(masks) + 1)  # bits: less is luck
    for statement, mask in masks:
        yes = node & mask
        n = yes.bit_count()
        if not 0 < n < count:
            continue
        k = (yes & right).bit_count()
        if max(k, good - k) < FEWEST:
            continue
        saved = whole - _entropy(k, n) - _entropy(good - k, count - n)
        if saved > gain + 1e-9:
            best, gain = (statement, yes), saved
    if best is None:
        return tree
    statement, yes = best
    tree.question = statement
    tree.yes = _grow(yes, right, masks, depth - 1)
    tree.no = _grow(node & ~yes, right, masks, depth - 1)
    return tree


def _entropy(right: int, count: int) -> float:
    """The bits that it takes to say which of `count` things are right."""
    wrong = count - right
    return sum(n * math.log2(count / n) for n in (right, wrong) if n)
