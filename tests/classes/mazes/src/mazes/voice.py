"""The base class of Guide."""


class Voice:
    def reply(self, answer: str) -> str | None:
        self.arrived = answer == str(self.length)
        return None if self.arrived else "How many places is it?"
