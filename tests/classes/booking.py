"""Table bookings: bounds on numbers, and a list of models as an argument."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field


class Guest(BaseModel):
    name: str = Field(min_length=2, description="As it is on the card.")
    diet: Literal["any", "vegan"] = "any"


class Booking:
    """Book the table that the row asks for. Without reward(), its text is graded."""

    def __init__(self, task: dict):
        self._table = task.get("table", 4)

    def book(
        self,
        table: Annotated[int, Field(ge=1, le=12, description="Number of the table.")],
        guests: Annotated[list[Guest], Field(min_length=1, max_length=6)],
        tip: Annotated[float, Field(gt=0, lt=1)] = 0.1,
    ) -> str:
        """Book a table.

        Args:
            guests: Everybody who comes.
            tip: Share of the bill.
        """
        vegan = sum(guest.diet == "vegan" for guest in guests)
        if table != self._table:
            return f"Table {table} is taken."
        return f"Booked.\nSee you at table {table}, {vegan} vegan, tip {tip:.0%}!"

    @staticmethod
    def oracle(task):
        guests = [{"name": "Ada", "diet": "vegan"}, {"name": "Bob"}]
        return [("book", {"table": task["table"], "guests": guests})]
