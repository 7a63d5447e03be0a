"""Plays games on play.py's page in headless Chromium, as tests/test_play.py runs it.

play_in_chromium.py CHROMIUM GAMES, where GAMES is JSON: for each game its `name`, the `link`
of its page, the `steps` that solve its first row, and the `reward` that they earn. With a
folder as a third argument, it leaves pictures there.
"""

import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

chromium, games, *folder = sys.argv[1:]
expect.set_options(timeout=30_000)  # a busy machine starts an episode slowly
PHONE: Any = {"width": 390, "height": 844}


def play(page: Page, steps: list[Any]) -> None:
    """Play the steps: calls as [tool, arguments], and messages as text."""
    log = page.locator("#log .entry")
    expect(log.first).to_be_visible()
    for step in steps:
        seen = log.count()
        if isinstance(step, str):
            page.locator("#text").fill(step)
            page.get_by_role("button", name="Send").click()
        else:
            call(page, *step)
        expect(log.nth(seen)).to_be_visible()
        expect(page.locator("body")).not_to_have_attribute("aria-busy", "true")


def call(page: Page, tool: str, arguments: dict[str, Any]) -> None:
    if page.locator("#tools").is_visible():
        page.locator("#tools").get_by_role("button", name=tool, exact=True).click()
    rest = dict(arguments)
    images = page.locator("#log img")
    if {"x", "y"} <= set(rest) and images.count():
        point(page, rest.pop("x"), rest.pop("y"))
        # The click filled in the point: a pixel of the page is more than one of the image.
        for name in ("x", "y"):
            filled = page.get_by_label(name, exact=True).input_value()
            assert abs(int(filled) - arguments[name]) <= 2, (name, filled, arguments)
    for name, value in rest.items():
        field = page.get_by_label(name, exact=True)
        if field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(label=str(value))
        else:
            field.fill(str(value))
    page.locator("#send").click()


def point(page: Page, x: int, y: int) -> None:
    """Click the last image where it shows the pixel (x, y)."""
    image = page.locator("#log img").last
    image.scroll_into_view_if_needed()
    box, width = image.bounding_box(), image.evaluate("image => image.naturalWidth")
    assert box and width
    scale = box["width"] / width
    image.click(position={"x": (x + 0.5) * scale, "y": (y + 0.5) * scale})


def by_keyboard(page: Page, steps: list[Any]) -> None:
    """Play the same row again with the keyboard only: calls with one text each."""
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    log = page.locator("#log .entry")
    expect(log).to_have_count(1)
    for _, arguments in steps:
        [text] = arguments.values()
        seen = log.count()
        expect(page.locator("#fields textarea")).to_be_focused()
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        expect(log.nth(seen + 1)).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    expect(page.locator("#verdict .reward")).to_be_visible()


def picture(page: Page, name: str) -> None:
    if folder:
        page.screenshot(path=Path(folder[0], f"{name}.png"))


def watched(browser: Browser, game: dict[str, Any]) -> None:
    """Play a game. The page must ask nobody but its own server, and log no errors."""
    scheme: Any = game.get("scheme", "light")
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": 1280, "height": 860}
    )
    page, seen = context.new_page(), []
    page.on("console", lambda message: seen.append(message.text))
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("request", lambda request: seen.append(request.url))
    page.goto(game["link"])
    steps, reward = game["steps"], f"{game['reward']:g}"
    play(page, steps[:-1])
    picture(page, f"{game['name']}-middle")
    play(page, steps[-1:])
    if not page.locator("#verdict .reward").is_visible():
        page.locator("#grade").click()
    expect(page.locator("#verdict .reward")).to_have_text(reward)
    expect(page.locator("#kept")).to_contain_text("added to results/")
    picture(page, game["name"])
    if game.get("keep"):
        page.get_by_role("button", name="Keep as oracle").click()
        expect(page.locator("#kept")).to_contain_text("has an oracle of")
    if game.get("again"):
        by_keyboard(page, steps)
        expect(page.locator("#verdict .reward")).to_have_text(reward)
    page.set_viewport_size(PHONE)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"], f"{game['name']} is {width} pixels wide on a phone"
    picture(page, f"{game['name']}-phone")
    wrong = [one for one in seen if not one.startswith((game["link"], "data:"))]
    assert not wrong, wrong
    context.close()


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path=chromium, args=["--no-sandbox"]
    )
    for game in json.loads(games):
        watched(browser, game)
    browser.close()
print("all is well")
