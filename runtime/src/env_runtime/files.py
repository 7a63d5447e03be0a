"""Files that are written whole, and how source files are named in messages."""

import contextlib
import os
import sysconfig
import tempfile
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import IO

from .errors import loop_hint

RUNTIME = str(Path(__file__).parent)
STDLIB = sysconfig.get_path("stdlib")


@contextlib.contextmanager
def write_atomically(path: Path) -> Generator[IO[bytes]]:
    """Open a file that replaces `path` at the end of the with block.

    If the block raises, `path` stays as it was. Missing folders are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(beside, path.stat().st_mode if path.exists() else 0o644)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise


def source_name(path: str) -> str:
    """The name of a source file: `my_env.py`, or `my_env/model.py` in a package."""
    file = Path(path)
    in_package = (file.parent / "__init__.py").is_file()
    return f"{file.parent.name}/{file.name}" if in_package else file.name


def raised_at(error: BaseException) -> str:
    """The source line that raised an exception: `my_env.py, line 3`.

    If a library raised it, or this package, that is the line of the user's code that
    called it.
    "" if only Python's import system raised it: no source line would help.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = [n for n, each in enumerate(frames) if each.filename.startswith(RUNTIME)]
    called = frames[ours[0] + 1 :] if ours else frames
    users = [frame for frame in called if not _is_library(frame.filename)]
    called = frames[ours[-1] + 1 :] if ours else frames
    frame = (users or called or frames)[-1]
    if frame.filename.startswith("<frozen "):
        return ""
    return f"{source_name(frame.filename)}, line {frame.lineno}"


def _is_library(path: str) -> bool:
    return "site-packages" in path or path.startswith((RUNTIME, STDLIB, "<frozen "))


def fault_of(error: BaseException) -> str:
    """The exception of a bug, without its text: `raised KeyError (my_env.py, line 3)`."""
    place = raised_at(error) if error.__traceback__ else ""
    place = place and f" ({place})"
    return f"raised {type(error).__name__}{place}{loop_hint(error)}"


def raised(error: BaseException) -> str:
    """An exception and its place: `KeyError in my_env.py, line 3: 'word'`."""
    if isinstance(error, SyntaxError):
        return syntax_problem(error)
    place = raised_at(error)
    text = f"{type(error).__name__}{place and f' in {place}'}: {error}"
    return f"{text}{loop_hint(error)}"


def syntax_problem(error: SyntaxError) -> str:
    """Where a source file is malformed, and why: an update may have left a conflict."""
    place = f"{source_name(error.filename or '?')}, line {error.lineno}"
    if (error.text or "").startswith(("<<<<<<< ", "=======\n", ">>>>>>> ")):
        return (
            f"{place}: an update left a conflict there: keep one of the two versions, "
            "and remove the lines that start with <<<<<<<, ======= and >>>>>>>"
        )
    return f"{place}: {type(error).__name__}: {error.msg}"


def file_of(root: Path, module: str) -> Path | None:
    """The file of a module in `root`; None if it is elsewhere, or is not a module."""
    place = root.joinpath(*module.split("."))
    files = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((file for file in files if file.is_file()), None)
