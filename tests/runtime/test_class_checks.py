"""The import gate: what is wrong with a class is told with file and line."""

import asyncio

import pytest
from plumbing import inspection
from plumbing.inspection import inspect_class
from plumbing.records import GateError
from session_server import SessionServer


class Base:
    def __init__(self, task: dict):
        self.task = task

    def look(self, at: str = "x") -> str:
        """Look."""
        return at


@pytest.fixture
def inspect(monkeypatch):
    """Runs the gate over a class whose server serves the named tools."""

    def gate(domain, tools="look", asked=()):
        class Server(SessionServer):
            domain_class = domain

            def setup_webserver(self):
                app = super().setup_webserver()
                for name in tools.split():
                    app.post(f"/{name}")(self.tool(getattr(domain, name)))
                return app

        monkeypatch.setattr(inspection, "EnvironmentClass", domain)
        monkeypatch.setattr(inspection, "find_server", lambda: Server)
        return inspect_class(list(asked))

    return gate


def test_a_class_that_fits(inspect):
    assert inspect(Base) == "test_inspection.Base has look"


def test_a_class_that_needs_a_task(inspect):
    class Needy(Base):
        def __init__(self, task: dict):
            self.size = task["size"]

    assert inspect(Needy).startswith("test_inspection.Needy has look (needs a task")


def complaint(inspect, *arguments, **options):
    with pytest.raises(GateError) as caught:
        inspect(*arguments, **options)
    text = str(caught.value)
    assert "test_inspection.py, line " in text
    return text


def test_a_constructor_without_a_task(inspect):
    class Wrong(Base):
        def __init__(self, size, seed):
            pass

    text = complaint(inspect, Wrong)
    assert "Wrong must be made of one argument, the task" in text


def test_a_tool_that_an_attribute_hides(inspect):
    class Wrong(Base):
        def __init__(self, task: dict):
            self.look = task

    assert "the tool look is hidden by an attribute" in complaint(inspect, Wrong)


def test_a_tool_without_a_line(inspect):
    class More(Base):
        def wave(self) -> str:
            return "hello"

    assert inspect(More) == (
        "test_inspection.More has look; not served: wave "
        '(to serve it, add app.post("/wave")(self.tool(More.wave)))'
    )
    with pytest.raises(GateError, match="serves no tool.*self.tool.More.look"):
        inspect(More, "")


def test_a_docstring_of_another_parameter(inspect):
    class Wrong(Base):
        def look(self, at: str = "x") -> str:
            """Look.

            Args:
                where: Renamed.
            """
            return at

    assert "the docstring of look describes 'where', which it" in inspect(Wrong)


def test_a_line_without_an_annotation(inspect):
    class Wrong(Base):
        def wave(self):
            return "hello"

    text = complaint(inspect, Wrong, "look wave")
    assert "Wrong.wave is a tool in server.py, but it is not annotated" in text


def test_a_line_whose_method_is_gone(inspect):
    with pytest.raises(GateError, match="has no attribute 'wave'.*has: look"):
        inspect(Base, "look wave")


def take_self_less(at: str) -> str:
    return at


def take_unannotated(self, at) -> str:
    return at


def take_many(self, *at: str) -> str:
    return "".join(at)


def take_keywords(self, **at: str) -> str:
    return "".join(at)


def take_position(self, at: str, /) -> str:
    return at


def take_a_callable(self, at: asyncio.AbstractEventLoop) -> str:
    return str(at)


def take_what_is_undefined(self, at: "Nowhere") -> str:  # noqa: F821
    return str(at)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (take_self_less, "has no parameter `self`"),
        (take_unannotated, "the parameter 'at' has no type: write `at: str`"),
        (take_many, "takes `*at: str`"),
        (take_keywords, "takes `**at: str`"),
        (take_position, "the parameter 'at' is positional-only"),
        (take_a_callable, "takes what cannot come out of JSON"),
        (take_what_is_undefined, "an annotation of take_what_is_undefined cannot be"),
    ],
)
def test_a_signature_that_does_not_do(inspect, function, text):
    wrong = type("Wrong", (Base,), {"look": function, "__module__": __name__})
    assert text in complaint(inspect, wrong)


def test_a_coroutine_that_nobody_awaits(inspect):
    class Wrong(Base):
        @staticmethod
        async def oracle(task):
            return []

    assert "Wrong.oracle is never awaited" in complaint(inspect, Wrong)


def test_a_hook_that_wants_arguments(inspect):
    class Wrong(Base):
        def reward(self, task) -> float:
            return 0.0

    assert "reward is called without arguments" in complaint(inspect, Wrong)


def test_an_oracle_that_is_not_static(inspect):
    class Wrong(Base):
        def oracle(self, task):
            return []

    assert "put @staticmethod above it" in complaint(inspect, Wrong)


def asked(*parameters):
    return [{"name": "look", "given": True, "parameters": list(parameters)}]


def test_a_signature_is_compared_with_the_method(inspect):
    assert inspect(Base, asked=asked('at: str = "x"'))
    text = complaint(inspect, Base, asked=asked("at: int"))
    assert "look takes (at: str = 'x'), but the answer to `tools` was (at: int)" in text
