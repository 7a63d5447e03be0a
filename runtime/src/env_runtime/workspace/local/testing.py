"""The preparation of this backend for a project's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def prepare_tests(monkeypatch: Any, folder: Path) -> None:
    """Prepare nothing: tests may run without isolation, or use bubblewrap if it works.

    `monkeypatch` is pytest's, and `folder` is empty.
    """
