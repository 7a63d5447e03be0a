"""The HTML pages of view.py and play.py, which draw episodes alike."""

import base64
import hashlib
import re
from pathlib import Path

FOLDER = Path(__file__).parent


def read_page(path: Path) -> str:
    """The page in a file, with the style and the script that all pages share."""
    page = path.read_text(encoding="utf-8")
    for mark, name in (("/* SHARED */\n", "shared.css"), ("// SHARED\n", "shared.js")):
        page = page.replace(mark, (FOLDER / name).read_text(encoding="utf-8"))
    return page


def digest(page: str, tag: str) -> str:
    """The source of a page's own <script> or <style>, for its Content-Security-Policy."""
    [text] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    hashed = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(hashed).decode()}"
