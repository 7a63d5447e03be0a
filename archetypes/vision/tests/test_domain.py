"""The form desktop through its public interface, with whichever backend is installed."""

from __future__ import annotations

import base64
import hashlib
import json
import operator
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rollout import environment_class

Computer = environment_class()
_domain = sys.modules[Computer.__module__]
FORM, SCREEN = _domain.FORM, _domain.SCREEN

_DATA = Path(__file__).parents[1] / "data" / "example.jsonl"
TASKS = [
    json.loads(line)["ground_truth"][0]
    for line in _DATA.read_text(encoding="utf-8").splitlines()
]
CONTROLS = {control["name"]: control for control in FORM["controls"]}

Opener = Callable[..., Computer]


@pytest.fixture(scope="module", autouse=True)
def _backend() -> Iterator[None]:
    """Keep one episode open, so that a shared browser is not started for every test."""
    domain = Computer({})
    try:
        domain.screenshot()
    except RuntimeError as error:  # no Chromium, no key
        pytest.skip(str(error))
    yield
    domain.close()


@pytest.fixture
def open_desktop() -> Iterator[Opener]:
    """Open episodes that are closed at the end of the test."""
    opened: list[Computer] = []

    def open_one(**task: Any) -> Computer:
        opened.append(Computer(task))
        return opened[-1]

    yield open_one
    for domain in opened:
        domain.close()


def point(domain: Computer, name: str) -> dict[str, int]:
    """Where the control is on the screen now."""
    left, top, _, height = CONTROLS[name]["box"]
    view_left, view_top, _, _ = FORM["view"]
    return {
        "x": view_left + left + 12,
        "y": view_top + top - domain.state()["scroll"] + height // 2,
    }


def play(domain: Computer, calls: list[tuple[str, dict]]) -> list[Any]:
    return [getattr(domain, name)(**arguments) for name, arguments in calls]


def pixels(image: str) -> str:
    """Check that image is a PNG of the screen's size; return a digest of its pixel
    data.
    """
    head, _, body = image.partition(",")
    assert head == "data:image/png;base64"
    png = base64.b64decode(body, validate=True)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", png[16:24]) == SCREEN
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        chunk = png[at + 8 : at + 8 + length]
        assert (
            zlib.crc32(kind + chunk)
            == struct.unpack(">I", png[at + 8 + length :][:4])[0]
        )
        data += chunk if kind == b"IDAT" else b""
        at += length + 12
    return hashlib.sha256(zlib.decompress(data)).hexdigest()


# What is seen


def test_screenshot_is_a_png_that_shows_each_action(open_desktop: Opener) -> None:
    desktop = open_desktop()
    before = pixels(desktop.screenshot().image)
    assert pixels(desktop.screenshot().image) == before
    focused = pixels(desktop.left_click(**point(desktop, "name")).image)
    typed = pixels(desktop.type("Ada").image)
    assert len({before, focused, typed}) == 3


def test_same_actions_give_the_same_bytes(open_desktop: Opener) -> None:
    task = TASKS[0]
    calls = Computer.oracle(task)
    first, second = (play(open_desktop(**task), calls) for _ in range(2))
    assert len(first) == len(calls)
    assert all(map(operator.eq, first, second))


def test_screenshots_are_small(open_desktop: Opener) -> None:
    assert len(open_desktop().screenshot().image) < 80_000


# Mouse and keyboard


def test_typing_goes_to_the_clicked_field(open_desktop: Opener) -> None:
    desktop = open_desktop()
    desktop.type("nowhere")
    desktop.left_click(**point(desktop, "email"))
    desktop.type("ada@example.org")
    state = desktop.state()
    assert state["focus"] == "email"
    assert state["values"]["email"] == "ada@example.org"
    assert state["values"]["name"] == ""


def test_text_is_edited_with_keys(open_desktop: Opener) -> None:
    desktop = open_desktop(start={"name": "Grace Hoper"})
    desktop.left_click(**point(desktop, "name"))
    desktop.key("End")
    for _ in range(2):
        desktop.key("Left")
    desktop.type("p")
    assert desktop.state()["values"]["name"] == "Grace Hopper"
    desktop.key("Backspace")
    desktop.key("Delete")
    desktop.key("space")
    assert desktop.state()["values"]["name"] == "Grace Hop r"
    desktop.key("ctrl+a")
    desktop.type("Ada")
    assert desktop.state()["values"]["name"] == "Ada"


def test_double_click_selects_a_word(open_desktop: Opener) -> None:
    desktop = open_desktop(start={"name": "Grace Hopper"})
    desktop.double_click(**point(desktop, "name"))
    desktop.type("Admiral")
    assert desktop.state()["values"]["name"].split() == ["Admiral", "Hopper"]


def test_tab_moves_the_focus_and_wraps(open_desktop: Opener) -> None:
    desktop = open_desktop()
    names = list(CONTROLS)
    desktop.key("Tab")
    assert desktop.state()["focus"] == names[0]
    desktop.key("shift+Tab")
    assert desktop.state()["focus"] == names[-1]
    assert desktop.state()["scroll"] > 0  # the focused control is scrolled into view
    desktop.key("Tab")
    assert desktop.state()["focus"] == names[0]


def test_check_box_toggles_by_click_and_space(open_desktop: Opener) -> None:
    desktop = open_desktop()
    desktop.left_click(**point(desktop, "subscribe"))
    assert desktop.state()["values"]["subscribe"] is True
    desktop.key("space")
    assert desktop.state()["values"]["subscribe"] is False


def test_drop_down_is_chosen_from_by_click(open_desktop: Opener) -> None:
    desktop = open_desktop()
    at = point(desktop, "country")
    desktop.left_click(**at)
    assert desktop.state()["open"] == "country"
    below = CONTROLS["country"]["box"][3] // 2 + FORM["option"] // 2
    desktop.left_click(at["x"], at["y"] + below + 2 * FORM["option"])
    assert desktop.state()["open"] is None
    assert desktop.state()["values"]["country"] == CONTROLS["country"]["options"][2]


def test_drop_down_is_chosen_from_by_keys(open_desktop: Opener) -> None:
    desktop = open_desktop(start={"country": "Finland"})
    desktop.left_click(**point(desktop, "country"))
    desktop.key("Down")
    desktop.key("Escape")
    assert desktop.state()["open"] is None
    assert desktop.state()["values"]["country"] == "Finland"
    desktop.key("Enter")
    desktop.key("Up")
    desktop.key("Enter")
    assert desktop.state()["values"]["country"] == "Canada"


def test_drop_down_closes_when_something_else_is_clicked(open_desktop: Opener) -> None:
    desktop = open_desktop()
    desktop.left_click(**point(desktop, "country"))
    desktop.left_click(**point(desktop, "name"))
    assert desktop.state()["open"] is None
    assert desktop.state()["focus"] == "name"
    assert desktop.state()["values"]["country"] == ""


def test_scrolling_reveals_the_rest_of_the_form(open_desktop: Opener) -> None:
    desktop = open_desktop()
    top = pixels(desktop.screenshot().image)
    assert point(desktop, "save")["y"] > FORM["view"][1] + FORM["view"][3]
    middle = {"x": SCREEN[0] // 2, "y": SCREEN[1] // 2}
    bottom = pixels(desktop.scroll(**middle, dy=4000).image)
    assert bottom != top
    assert desktop.state()["scroll"] == FORM["height"] - FORM["view"][3]
    desktop.left_click(**point(desktop, "save"))
    assert desktop.state()["saved"] == desktop.state()["values"]
    desktop.scroll(**middle, dy=-4000)
    assert desktop.state()["scroll"] == 0


def test_scrolling_beside_the_window_does_nothing(open_desktop: Opener) -> None:
    desktop = open_desktop()
    desktop.scroll(x=5, y=5, dy=400)
    assert desktop.state()["scroll"] == 0


def test_enter_saves_and_later_changes_are_not_saved(open_desktop: Opener) -> None:
    desktop = open_desktop()
    desktop.left_click(**point(desktop, "name"))
    desktop.type("Ada")
    assert desktop.state()["saved"] is None
    desktop.key("Enter")
    desktop.type(" Lovelace")
    assert desktop.state()["saved"]["name"] == "Ada"
    assert desktop.state()["values"]["name"] == "Ada Lovelace"


def test_text_from_a_task_is_only_text(open_desktop: Opener) -> None:
    text = '</script><b>"quoted" \\ & __DATA__'
    desktop = open_desktop(start={"note": text})
    desktop.screenshot()
    assert desktop.state()["values"]["note"] == text


# Bad calls


@pytest.mark.parametrize("x, y", [(-1, 10), (10, -1), (SCREEN[0], 10), (10, SCREEN[1])])
def test_points_outside_the_screen_are_refused(
    open_desktop: Opener, x: int, y: int
) -> None:
    desktop = open_desktop()
    for act in (
        desktop.left_click,
        desktop.double_click,
        lambda x, y: desktop.scroll(x, y, 40),
    ):
        with pytest.raises(ValueError, match="outside the screen"):
            act(x, y)


@pytest.mark.parametrize(
    "tool, arguments, message",
    [
        ("key", {"keys": "ctrl+alt+delete"}, "unknown key"),
        ("key", {"keys": ""}, "unknown key"),
        ("type", {"text": "two\nlines"}, "control characters"),
        ("type", {"text": "x" * 10_000}, "too long"),
        ("scroll", {"x": 0, "y": 0, "dy": 10**9}, "too large"),
        ("wait", {"seconds": -1}, "cannot wait"),
        ("wait", {"seconds": 3600}, "cannot wait"),
        ("wait", {"seconds": float("nan")}, "cannot wait"),
        ("terminate", {"status": "done"}, "status must be"),
    ],
)
def test_bad_arguments_are_refused(
    open_desktop: Opener, tool: str, arguments: dict, message: str
) -> None:
    desktop = open_desktop()
    with pytest.raises(ValueError, match=message):
        getattr(desktop, tool)(**arguments)
    assert desktop.status is None


def test_key_names_are_forgiving(open_desktop: Opener) -> None:
    desktop = open_desktop()
    for keys in ("tab", "Return", "ArrowDown", "Esc", "Control+A", "page_down"):
        desktop.key(keys)


def test_nothing_can_be_done_after_the_end(open_desktop: Opener) -> None:
    desktop = open_desktop()
    desktop.terminate("failure")
    for act in (
        desktop.screenshot,
        lambda: desktop.type("x"),
        lambda: desktop.terminate("success"),
    ):
        with pytest.raises(ValueError, match="episode is over"):
            act()
    assert desktop.status == "failure"


def test_close_is_idempotent_and_final(open_desktop: Opener) -> None:
    desktop = open_desktop()
    desktop.left_click(**point(desktop, "name"))
    desktop.close()
    desktop.close()
    assert desktop.state()["focus"] == "name"
    with pytest.raises(ValueError, match="closed"):
        desktop.screenshot()


def test_episodes_run_side_by_side_and_from_any_thread(open_desktop: Opener) -> None:
    names = ("Ada", "Grace", "Mary")
    desktops = [open_desktop(goal={"saved": {"name": name}}) for name in names]

    def run(desktop: Computer, task: dict) -> None:
        for name, arguments in Computer.oracle(task):
            with ThreadPoolExecutor(1) as thread:  # a new one for each call
                thread.submit(getattr(desktop, name), **arguments).result()

    with ThreadPoolExecutor(len(names)) as pool:
        list(
            pool.map(
                run, desktops, [{"goal": {"saved": {"name": name}}} for name in names]
            )
        )
    assert [desktop.solved() for desktop in desktops] == [True] * len(names)
    assert [desktop.state()["saved"]["name"] for desktop in desktops] == list(names)


# Tasks and their grade


@pytest.mark.parametrize("task", TASKS, ids=range(len(TASKS)))
def test_oracle_solves_the_task(open_desktop: Opener, task: dict) -> None:
    desktop = open_desktop(**task)
    observations = play(desktop, Computer.oracle(task))
    assert desktop.solved()
    assert observations[-1].output == task["expected_output"]
    desktop.close()
    assert desktop.solved()


@pytest.mark.parametrize("task", TASKS, ids=range(len(TASKS)))
def test_doing_nothing_solves_no_task(open_desktop: Opener, task: dict) -> None:
    desktop = open_desktop(**task)
    assert not desktop.solved()
    desktop.terminate("success")
    assert desktop.status == "success"
    assert not desktop.solved()


@pytest.mark.parametrize("task", TASKS, ids=range(len(TASKS)))
def test_saving_the_form_as_it_opens_solves_no_task(
    open_desktop: Opener, task: dict
) -> None:
    desktop = open_desktop(**task)
    desktop.scroll(SCREEN[0] // 2, SCREEN[1] // 2, 4000)
    desktop.left_click(**point(desktop, "save"))
    assert desktop.state()["saved"] == desktop.state()["values"]
    desktop.terminate("success")
    assert not desktop.solved()


@pytest.mark.parametrize("task", TASKS, ids=range(len(TASKS)))
def test_tasks_name_only_what_the_form_has(task: dict) -> None:
    fields = {
        name: control
        for name, control in CONTROLS.items()
        if control["kind"] != "button"
    }
    types = {"text": str, "choice": str, "check": bool}
    for record in (task.get("start", {}), task["goal"]["saved"]):
        assert record.keys() <= fields.keys()
        for name, value in record.items():
            assert type(value) is types[fields[name]["kind"]]
            assert value in ["", *fields[name].get("options", [value])]


GOAL = {"saved": {"name": "Ada", "subscribe": True}}


@pytest.fixture
def ready_to_save(open_desktop: Opener) -> Computer:
    """An episode whose form shows what GOAL wants, saved by one more Enter."""
    desktop = open_desktop(goal=GOAL)
    desktop.left_click(**point(desktop, "name"))
    desktop.type("Ada")
    desktop.left_click(**point(desktop, "subscribe"))
    return desktop


def test_saved_and_reported_is_solved(ready_to_save: Computer) -> None:
    ready_to_save.key("Enter")
    assert not ready_to_save.solved()
    ready_to_save.terminate("success")
    assert ready_to_save.solved()


def test_reported_as_failure_is_not_solved(ready_to_save: Computer) -> None:
    ready_to_save.key("Enter")
    ready_to_save.terminate("failure")
    assert not ready_to_save.solved()


def test_typed_but_not_saved_is_not_solved(ready_to_save: Computer) -> None:
    ready_to_save.terminate("success")
    assert not ready_to_save.solved()


def test_a_wrong_value_is_not_solved(ready_to_save: Computer) -> None:
    ready_to_save.key("space")
    ready_to_save.key("Enter")
    ready_to_save.terminate("success")
    assert not ready_to_save.solved()


@pytest.mark.parametrize(
    "task", [{}, {"goal": None}, {"goal": {}}, {"goal": 7}, {"goal": ["x"]}]
)
def test_without_a_goal_nothing_is_solved(open_desktop: Opener, task: dict) -> None:
    desktop = open_desktop(**task)
    assert not desktop.solved()
    desktop.terminate("success")
    assert not desktop.solved()


def test_the_state_is_a_copy(open_desktop: Opener) -> None:
    desktop = open_desktop(goal={"values": {"name": "Ada"}})
    desktop.state()["values"]["name"] = "Ada"
    assert json.loads(json.dumps(desktop.state()))["values"]["name"] == ""
