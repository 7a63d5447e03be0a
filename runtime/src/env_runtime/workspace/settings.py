"""Settings of a workspace, from environment variables."""

from __future__ import annotations

from typing import Any, Self

from ..errors import SettingError
from ..settings import PositiveFloat, PositiveInt, Settings
from .errors import WorkspaceError

MIB = 1024 * 1024


class WorkspaceSettings(Settings):
    """Settings that are read when a workspace is made."""

    @classmethod
    def read(cls, **values: Any) -> Self:
        """The settings as they are now. Raises WorkspaceError if a value is wrong.

        A SettingError is a ValueError, which a policy would read as its own mistake.
        """
        try:
            return super().read(**values)
        except SettingError as error:
            raise WorkspaceError(str(error)) from error


class SandboxSettings(WorkspaceSettings):
    """The limits that every backend has."""

    sandbox_seconds: PositiveFloat = 30  # wall time of one call
    sandbox_file_mb: PositiveFloat = 64  # MiB of a file, such as a command's output
    sandbox_output_bytes: PositiveInt = 20_000  # text of one call; the middle is cut

    @property
    def file_bytes(self) -> int:
        return int(self.sandbox_file_mb * MIB)
