"""A class whose tools answer text, an image, an error or a failure."""

from typing import ClassVar, NamedTuple

PIXEL = "data:image/png;base64,iVBORw0KGgo="


class View(NamedTuple):
    output: str
    image: str


class Lamp:
    """Earns 1.0 while it is on."""

    closed: ClassVar[list["Lamp"]] = []

    def __init__(self, task: dict) -> None:
        self.on = False
        self.infrastructure_failure: str | None = None

    def look(self) -> View:
        """Look at the lamp."""
        return View("on" if self.on else "off", PIXEL)

    def switch(self, on: bool) -> str:
        """Switch the lamp."""
        if on == self.on:
            raise ValueError("it is already")
        self.on = on
        return "done"

    def explode(self) -> str:
        """Fail without the policy's doing."""
        self.infrastructure_failure = "the lamp exploded"
        return "bang"

    def reward(self) -> float:
        return float(self.on)

    def close(self) -> None:
        self.closed.append(self)
