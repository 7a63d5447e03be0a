"""Places and ranks that the right answer takes less often than chance would have it."""

from collections.abc import Iterable

from .plan import Plan

CHANCE = 0.001  # of a false alarm, over all that is looked at
SHOWN = 3


def unlikely(hits: int, chances: Iterable[float]) -> float:
    """How likely at most so many hits are, if each row has its chance."""
    ways = [1.0] + [0.0] * hits  # how likely 0, 1, ..., `hits` hits are
    for chance in chances:
        for number in range(hits, 0, -1):
            ways[number] = ways[number] * (1 - chance) + ways[number - 1] * chance
        ways[0] *= 1 - chance
    return sum(ways)


def never(plan: Plan) -> list[str]:
    """Sentences on the places and ranks that right values hardly ever have."""
    found: dict[tuple[object, ...], tuple[float, str]] = {}
    looked = 0
    for name, choice in plan.choices():
        hits: dict[str, int] = {}
        chances: dict[str, list[float]] = {}
        for candidates, places in choice.seen:
            if len(places) != 1:
                continue
            [place] = places
            # Numbers of a text may be of different kinds. Records of a list are of one.
            listed = [one for one in candidates if one.in_list]
            if not candidates[place].in_list or len(listed) < 2:
                continue
            ranks = {rank for one in listed for rank in one.ranks}
            for rank in ranks:
                count = sum(rank in one.ranks for one in listed)
                chances.setdefault(rank, []).append(count / len(listed))
                hits[rank] = hits.get(rank, 0) + (rank in candidates[place].ranks)
        looked += len(chances)
        for rank, some in chances.items():
            likely = unlikely(hits[rank], some) if hits[rank] < sum(some) else 1.0
            text = (
                f"the right `{name}` is the {rank} in {hits[rank]} of {len(some)} rows, "
                f"by chance in {sum(some):.0f}"
            )
            # A number has a name and a place: these are one rank.
            key = (name, hits[rank], sum(some))
            found[key] = min(
                found.get(key, (likely, text)), (likely, text), key=_length
            )
    return [
        text for likely, text in sorted(found.values()) if likely * looked < CHANCE
    ][:SHOWN]


def _length(told: tuple[float, str]) -> int:
    return len(told[1])
