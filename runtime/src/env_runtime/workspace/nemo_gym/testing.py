"""The preparation of this backend for a project's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .providers import ProviderSettings


def prepare_tests(monkeypatch: Any, folder: Path) -> None:
    """Use NeMo Gym's provider `local`, which needs nothing, unless another is set.

    `monkeypatch` is pytest's, and `folder` is empty.
    """
    monkeypatch.setenv("SANDBOX_ISOLATION", "none")  # the tests can be trusted
    chosen = ProviderSettings.read().model_fields_set
    if not {"sandbox_provider", "sandbox_config"} & chosen:
        monkeypatch.setenv("SANDBOX_PROVIDER", "local")
