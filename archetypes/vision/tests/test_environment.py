"""Tests of the desktop's tools, its grader and its rows."""

import sys

import pytest
from env_runtime.testing import NoOracleError, solve, verify_body

from my_env import MyEnv as EnvironmentClass

if problem := EnvironmentClass.missing_requirement():
    pytest.skip(problem, allow_module_level=True)

_domain = sys.modules[EnvironmentClass.__module__]
FORM, SCREEN = _domain.FORM, _domain.SCREEN
CONTROLS = {control["name"]: control for control in FORM["controls"]}
GOAL = {"saved": {"name": "Ada", "subscribe": True}}


@pytest.fixture(scope="module", autouse=True)
def warm():
    """Keeps one episode open, so that a browser is not started for every test."""
    desktop = EnvironmentClass({})
    desktop.screenshot()
    yield
    desktop.close()


def point(desktop, name):
    """The control's place on the screen now."""
    left, top, _, height = CONTROLS[name]["box"]
    view_left, view_top, _, _ = FORM["view"]
    return {
        "x": view_left + left + 12,
        "y": view_top + top - desktop.state()["scroll"] + height // 2,
    }


# ---------------------------------------------------------------------- the tools


def test_every_action_answers_with_the_screen(start):
    desktop = start()
    before = desktop.screenshot()
    assert before.output == "Took a screenshot."
    assert before.image.startswith("data:image/png;base64,")
    assert desktop.screenshot().image == before.image
    clicked = desktop.left_click(**point(desktop, "name"))
    typed = desktop.type("Ada")
    assert len({before.image, clicked.image, typed.image}) == 3


def test_text_goes_to_the_field_that_was_clicked(start):
    desktop = start()
    desktop.type("nowhere")
    desktop.left_click(**point(desktop, "email"))
    desktop.type("ada@example.org")
    assert desktop.state()["focus"] == "email"
    assert desktop.state()["values"]["email"] == "ada@example.org"
    assert desktop.state()["values"]["name"] == ""


def test_a_double_click_selects_a_word(start):
    desktop = start(start={"name": "Grace Hopper"})
    desktop.double_click(**point(desktop, "name"))
    desktop.type("Admiral")
    assert desktop.state()["values"]["name"].split() == ["Admiral", "Hopper"]


def test_an_option_is_chosen_with_keys(start):
    desktop = start(start={"country": "Finland"})
    desktop.left_click(**point(desktop, "country"))
    assert desktop.state()["open"] == "country"
    desktop.key("Up")
    desktop.key("Enter")
    assert desktop.state()["values"]["country"] == "Canada"


def test_scrolling_reveals_the_rest_of_the_form(start):
    desktop = start()
    assert point(desktop, "save")["y"] > FORM["view"][1] + FORM["view"][3]
    desktop.scroll(SCREEN[0] // 2, SCREEN[1] // 2, 4000)
    desktop.left_click(**point(desktop, "save"))
    assert desktop.state()["saved"] == desktop.state()["values"]


def test_enter_saves_and_later_changes_are_not_saved(start):
    desktop = start()
    desktop.left_click(**point(desktop, "name"))
    desktop.type("Ada")
    assert desktop.state()["saved"] is None
    desktop.key("Enter")
    desktop.type(" Lovelace")
    assert desktop.state()["saved"]["name"] == "Ada"
    assert desktop.state()["values"]["name"] == "Ada Lovelace"


@pytest.mark.parametrize("x, y", [(-1, 10), (10, -1), (SCREEN[0], 10), (10, SCREEN[1])])
def test_points_outside_the_screen_are_refused(start, x, y):
    desktop = start()
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
        ("type", {"text": "two\nlines"}, "control characters"),
        ("type", {"text": "x" * 10_000}, "too long"),
        ("scroll", {"x": 0, "y": 0, "dy": 10**9}, "too large"),
        ("wait", {"seconds": -1}, "cannot wait"),
        ("wait", {"seconds": float("nan")}, "cannot wait"),
        ("terminate", {"status": "done"}, "status must be"),
    ],
)
def test_bad_arguments_are_refused(start, tool, arguments, message):
    desktop = start()
    with pytest.raises(ValueError, match=message):
        getattr(desktop, tool)(**arguments)
    assert desktop.status is None


def test_other_spellings_of_keys_are_understood(start):
    desktop = start()
    for keys in ("tab", "Return", "ArrowDown", "Esc", "Control+A", "page_down"):
        desktop.key(keys)


def test_nothing_works_after_terminate(start):
    desktop = start()
    desktop.terminate("failure")
    for act in (desktop.screenshot, lambda: desktop.terminate("success")):
        with pytest.raises(ValueError, match="the episode is over"):
            act()
    assert desktop.status == "failure"


def test_nothing_works_after_close(start):
    desktop = start()
    desktop.left_click(**point(desktop, "name"))
    desktop.close()
    desktop.close()
    assert desktop.state()["focus"] == "name"
    with pytest.raises(ValueError, match="closed"):
        desktop.screenshot()


# ---------------------------------------------------------------------- the grader


@pytest.fixture
def ready_to_save(start):
    """An episode whose form shows what GOAL wants, saved by one more Enter."""
    desktop = start(goal=GOAL)
    desktop.left_click(**point(desktop, "name"))
    desktop.type("Ada")
    desktop.left_click(**point(desktop, "subscribe"))
    return desktop


def test_a_saved_record_that_is_reported_earns_one(ready_to_save):
    ready_to_save.key("Enter")
    assert ready_to_save.reward() == 0.0
    ready_to_save.terminate("success")
    assert ready_to_save.reward() == 1.0


def test_a_saved_record_that_is_reported_as_a_failure_earns_nothing(ready_to_save):
    ready_to_save.key("Enter")
    ready_to_save.terminate("failure")
    assert ready_to_save.reward() == 0.0


def test_a_record_that_is_not_saved_earns_nothing(ready_to_save):
    ready_to_save.terminate("success")
    assert ready_to_save.reward() == 0.0


def test_a_wrong_value_earns_nothing(ready_to_save):
    ready_to_save.key("space")  # the box is no longer checked
    ready_to_save.key("Enter")
    ready_to_save.terminate("success")
    assert ready_to_save.reward() == 0.0


@pytest.mark.parametrize("task", [{}, {"goal": None}, {"goal": {}}, {"goal": 7}])
def test_without_a_goal_nothing_is_solved(start, task):
    desktop = start(**task)
    desktop.terminate("success")
    assert desktop.reward() == 0.0


def test_the_state_is_a_copy(start):
    desktop = start(goal={"values": {"name": "Ada"}})
    desktop.state()["values"]["name"] = "Ada"
    assert desktop.state()["values"]["name"] == ""


def crash(*_, **__):
    raise OSError("the browser died")


def test_a_crash_of_the_desktop_is_not_the_policys_fault(start, monkeypatch):
    desktop = start(goal=GOAL)
    desktop.screenshot()
    monkeypatch.setattr(_domain.Desktop, "click", crash)
    with pytest.raises(RuntimeError, match="the desktop failed: the browser died"):
        desktop.left_click(1, 1)
    monkeypatch.undo()  # the desktop stays failed: its screen is lost
    with pytest.raises(RuntimeError, match="the browser died"):
        desktop.terminate("success")
    assert "the browser died" in desktop.infrastructure_failure
    assert desktop.status is None
    assert desktop.reward() == 0.0


def test_a_desktop_that_does_not_start_is_not_the_policys_fault(start, monkeypatch):
    monkeypatch.setattr(_domain, "Desktop", crash)
    desktop = start(goal=GOAL)
    with pytest.raises(RuntimeError, match="the browser died"):
        desktop.screenshot()
    assert "the browser died" in desktop.infrastructure_failure


# ------------------------------------------------------------ the grader, through HTTP


@pytest.fixture
def row(rows):
    return rows[0]


@pytest.fixture
def player(client, row, tools):
    """A client whose session has played all of the row but the last call: terminate."""
    try:
        *calls, last = solve(row, tools)
    except NoOracleError as error:
        pytest.skip(str(error))
    assert last == ("terminate", {"status": "success"})
    client.post("/seed_session", json=row)
    for tool, arguments in calls:
        answer = client.post(f"/{tool}", json=arguments).json()
        assert answer["image"].startswith("data:image/png;base64,")
    return client


def test_a_reached_goal_earns_one(player, row, verify):
    player.post("/terminate", json={"status": "success"})
    assert verify(player, row) == 1.0


def test_a_reached_goal_without_terminate_earns_nothing(player, row, verify):
    assert verify(player, row) == 0.0


@pytest.mark.parametrize("status", ["unsuccessful", "Success", ""])
def test_another_status_is_refused(player, status):
    assert player.post("/terminate", json={"status": status}).status_code == 422


def test_a_crash_masks_the_sample(player, row, monkeypatch):
    """NeMo Gym 0.7 leaves a masked sample out of its scores."""
    monkeypatch.setattr(_domain.Desktop, "screenshot", crash)
    answer = player.post("/terminate", json={"status": "success"}).json()
    assert answer == {"output": "error: the desktop failed: the browser died"}
    answer = player.post("/verify", json=verify_body(row)).json()
    assert answer["reward"] == 0.0
    assert answer["mask_sample"] is True
    assert "the browser died" in answer["failure_reason"]


# ---------------------------------------------------------------------- the rows


def test_saving_the_form_as_it_opens_solves_no_row(start, rows):
    for row in rows:
        desktop = start(**row["ground_truth"][0])
        desktop.scroll(SCREEN[0] // 2, SCREEN[1] // 2, 4000)
        desktop.left_click(**point(desktop, "save"))
        assert desktop.state()["saved"] == desktop.state()["values"]
        desktop.terminate("success")
        assert desktop.reward() == 0.0


def test_rows_name_only_what_the_form_has(rows):
    types = {"text": str, "choice": str, "check": bool}
    for row in rows:
        task = row["ground_truth"][0]
        for record in (task.get("start", {}), task["goal"]["saved"]):
            for name, value in record.items():
                control = CONTROLS[name]
                assert type(value) is types[control["kind"]]
                assert value in ["", *control.get("options", [value])]
