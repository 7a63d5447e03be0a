"""A booking desk for meeting rooms, over a SQLite database in memory."""

from typing import Annotated, Any

from pydantic import BaseModel, Field
from sqlite_utils import Database
from sqlite_utils.db import NotFoundError

Hour = Annotated[int, Field(ge=8, le=18)]


class Booking(BaseModel):
    """A booking of a room for one hour."""

    room: str
    hour: Hour
    name: str


class Task(BaseModel):
    """The bookings at the beginning, and the bookings that are wanted in the end."""

    booked: list[Booking] = []
    wanted: list[Booking] = [Booking(room="Oak", hour=9, name="Ada")]


class Desk:
    """The desk. The policy finds, books and cancels."""

    policy_errors = (NotFoundError,)

    def __init__(self, task: Task) -> None:
        self._wanted = {(each.room, each.hour, each.name) for each in task.wanted}
        self._table = Database(memory=True)["bookings"]
        columns = {"id": int, "room": str, "hour": int, "name": str}
        self._table.create(columns, pk="id")
        self._table.insert_all(each.model_dump() for each in task.booked)
        self._first = self._all()

    def find(self, room: str) -> list[dict[str, Any]]:
        """List the bookings of a room.

        Args:
            room: Its name.
        """
        return list(self._table.rows_where("room = ?", [room], order_by="hour"))

    def book(self, room: str, hour: Hour, name: str) -> dict[str, int]:
        """Book a room for an hour.

        Args:
            room: Its name.
            hour: The hour at which it begins.
            name: Who needs it.
        """
        if self._table.count_where("room = ? and hour = ?", [room, hour]):
            raise ValueError(f"{room} is taken at {hour}")
        row = {"room": room, "hour": hour, "name": name}
        return {"id": self._table.insert(row).last_pk}

    def cancel(self, id: int) -> dict[str, Any]:
        """Cancel a booking.

        Args:
            id: Its number.
        """
        booking = self._table.get(id)
        self._table.delete(id)
        return booking

    def reward(self) -> float:
        """1.0 for exactly the wanted bookings, less for each missing or extra one."""
        now, first = self._all(), self._first
        wrong = len(now ^ self._wanted) / max(len(first ^ self._wanted), 1)
        return max(0.0, 1.0 - wrong)

    def close(self) -> None:
        self._table.db.close()

    @staticmethod
    def oracle(task: Task) -> list[tuple[str, dict[str, Any]]]:
        calls: list[tuple[str, dict[str, Any]]] = []
        for number, booking in enumerate(task.booked, start=1):
            if booking not in task.wanted:
                calls.append(("find", {"room": booking.room}))
                calls.append(("cancel", {"id": number}))
        missing = [each for each in task.wanted if each not in task.booked]
        return calls + [("book", booking.model_dump()) for booking in missing]

    def _all(self) -> set[tuple[str, int, str]]:
        return {(row["room"], row["hour"], row["name"]) for row in self._table.rows}
