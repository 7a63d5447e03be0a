"""Opens view.py's pages in headless Chromium, as tests/test_view.py runs it.

view_in_chromium.py CHROMIUM PAGE_OF_ONE_FILE PAGE_OF_TWO_FILES
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

chromium, single, compared = sys.argv[1:]

IMAGE = '<img src=x onerror="document.title=1">'
SCRIPT = "</script><script>document.title=2</script><!--"


def of_one_file(page: Page) -> None:
    open_page(page, single)
    lines, count = page.locator("tr.episode"), page.locator("#count")
    expect(count).to_have_text("30 episodes")
    expect(lines).to_have_count(30)
    figures = page.locator("#figures")
    for text in ("0.333 ± 0.088", "out of turns", "5 (17%)"):
        expect(figures).to_contain_text(text)
    expect(page.locator("#change")).to_be_hidden()
    expect(page.locator("img")).to_have_count(0)  # none is made before it is wanted

    def fits(number: int) -> None:
        expect(count).to_have_text(f"{number} of 30 episodes")
        expect(lines).to_have_count(number)

    page.get_by_label("tool errors").check()
    fits(6)
    page.get_by_label("out of turns").check()
    fits(1)
    page.get_by_role("button", name="Clear").click()
    expect(lines).to_have_count(30)
    page.get_by_label("Lowest reward").fill("0.5")
    fits(10)
    page.get_by_label("Lowest reward").fill("")
    page.get_by_role("button", name="Reward 0: 20 episodes").click()
    fits(20)
    page.get_by_role("button", name="Reward 0: 20 episodes").click()
    expect(lines).to_have_count(30)
    page.get_by_label("Search the text").fill("ÉPISODE <7>")
    fits(1)
    # A name from the server's log
    name = "_ng_task_index 2, _ng_rollout_index 0, session 5e5510020000"
    page.get_by_label("Search the text").fill(name)
    fits(1)
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Row").fill("3")
    fits(1)

    lines.first.click()
    detail = page.locator("#detail")
    expect(detail).to_contain_text(f"In the log: {name}")
    expect(detail.get_by_role("heading", name="Row 3")).to_be_visible()
    expect(detail).to_contain_text(f"I write {IMAGE} and {SCRIPT}")
    expect(detail).to_contain_text('guess(word="</script>")')
    expect(detail).to_contain_text(f"error: {SCRIPT}")
    expect(detail).to_contain_text("data:image/svg+xml;base64,PHN2Zy8+")
    images = page.locator("img")
    expect(images).to_have_count(2)  # a tool's and a message's
    for number in range(2):
        images.nth(number).scroll_into_view_if_needed()
        expect(images.nth(number)).to_be_visible()
        assert wait_for_width(page, images.nth(number)) == 2
    long = detail.get_by_role("button", name="Show all 10,000 characters")
    long.click()
    expect(long).to_have_count(0)
    expect(detail).to_contain_text("x" * 10_000)

    # By keyboard alone.
    page.get_by_role("button", name="Clear").click()
    expect(lines).to_have_count(30)
    page.locator("h1").click()
    for key in ("j", "ArrowDown", "ArrowUp", "k", "k"):
        page.keyboard.press(key)
    expect(detail.get_by_role("heading", name="Row 2")).to_be_visible()
    expect(lines.nth(1)).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Search the text")).to_be_focused()


def of_two_files(page: Page) -> None:
    open_page(page, compared)
    lines = page.locator("tr.episode")
    expect(page.locator("#count")).to_have_text("90 episodes")
    expect(page.locator("tr.row")).to_have_count(30)  # each with 2 repeats in B
    expect(lines).to_have_count(60)
    expect(page.locator("#figures")).to_contain_text("reward on 30 common rows, B − A")
    expect(page.locator("#figures")).to_contain_text("pass@2")
    page.get_by_label("Change").select_option("better")
    expect(page.locator("tr.row")).to_have_count(20)
    expect(page.locator("tr.row").first).to_contain_text("0.5 ▲")
    lines.first.click()
    columns = page.locator(".column")
    expect(columns).to_have_count(2)
    expect(columns.nth(0)).to_contain_text("before.jsonl")
    expect(columns.nth(0)).to_contain_text("Reward 0")
    expect(columns.nth(1)).to_contain_text("Reward 0")
    columns.nth(1).get_by_label("Repeat").select_option(label="repeat 2: reward 1")
    expect(columns.nth(1)).to_contain_text("Reward 1")
    expect(columns.nth(1)).to_contain_text("I write")


def open_page(page: Page, path: str) -> None:
    page.goto(Path(path).as_uri())


def wait_for_width(page: Page, image: Locator) -> int:
    """The width in pixels of an image's data; 0 if it cannot be shown."""
    for _ in range(100):
        if image.evaluate("image => image.complete"):
            break
        page.wait_for_timeout(50)
    return image.evaluate("image => image.naturalWidth")


def watched(browser: Browser, check: Callable[[Page], None], scheme: Any) -> None:
    """Run a check, in which the page must make no requests and log no errors."""
    context = browser.new_context(color_scheme=scheme)
    page, seen = context.new_page(), []
    page.on("console", lambda message: seen.append(message.text))
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("request", lambda request: seen.append(request.url))
    check(page)
    assert page.title().startswith("Rollouts: "), page.title()
    wrong = [one for one in seen if not one.startswith(("file:", "data:"))]
    assert not wrong, wrong
    context.close()


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path=chromium, args=["--no-sandbox"]
    )
    for check in (of_one_file, of_two_files):
        for scheme in ("light", "dark"):
            watched(browser, check, scheme)
    browser.close()
print("all is well")
