"""The stock of a warehouse."""


class OutOfStock(Exception):
    """An exception whose text is meant for the policy."""


class Stock:
    def __init__(self, count: int):
        self.count = count

    def take(self, count: int) -> None:
        if not 0 <= count <= self.count:
            raise OutOfStock(f"only {self.count} are left")
        self.count -= count
