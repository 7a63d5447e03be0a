"""A courier whose roads take time: every method is a coroutine."""

import asyncio

ROADS = {
    "depot": ["mill", "port"],
    "mill": ["depot", "farm"],
    "port": ["depot"],
    "farm": ["mill"],
}


class CourierError(Exception):
    """The courier cannot do what was asked."""


class Courier:
    """Carry the parcel to the right place."""

    def __init__(self, task: dict):
        self.goal = task.get("goal", "farm")
        self.place = "depot"
        self.moving = asyncio.Lock()

    async def drive(self, to: str) -> str:
        """Drive to a neighboring place.

        Args:
            to: The name of the place.
        """
        async with self.moving:
            await asyncio.sleep(0)
            if to not in ROADS[self.place]:
                raise CourierError(f"no road leads from {self.place} to {to}")
            self.place = to
        return f"You are at: {self.place}. Roads lead to {', '.join(ROADS[to])}."

    async def reward(self) -> float:
        await asyncio.sleep(0)
        return float(self.place == self.goal)

    async def close(self) -> None:
        await asyncio.sleep(0)

    @staticmethod
    def oracle(task):
        routes = {"mill": ["mill"], "port": ["port"], "farm": ["mill", "farm"]}
        return [("drive", {"to": place}) for place in routes[task["goal"]]]
