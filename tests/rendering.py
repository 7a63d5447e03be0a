"""Copier in this process. What breaks if Copier or Jinja moves is here."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from unittest import mock

import jinja2
from copier import run_copy
from copier.__main__ import CopierApp
from jinja2.exceptions import FilterArgumentError

from projects import COPIER, ROOT, clean_environment, git


def copy_working_tree(folder: Path) -> None:
    """Copies the files that git knows, or would add, as they are now."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


compiled: dict[tuple[Any, ...], Any] = {}
compile_template = jinja2.Environment.compile


def compile_once(
    environment: jinja2.Environment,
    source: Any,
    name: str | None = None,
    *arguments: Any,
    **options: Any,
) -> Any:
    """Compiles a template, or takes what was made of equal text in another clone."""
    if "{% yield" in str(source):  # Copier reads that name from each environment
        return compile_template(environment, source, name, *arguments, **options)
    kind = (type(environment), *environment.extensions, environment.undefined)
    syntax = (environment.trim_blocks, environment.block_start_string)
    key = (kind, syntax, source, name, *options.items())
    if key not in compiled:
        made = compile_template(environment, source, name, *arguments, **options)
        compiled[key] = made
    else:  # Copier's extension forgets the yield tag of the path before
        environment.preprocess(source)
    return compiled[key]


@contextmanager
def fast_copier() -> Generator[None]:
    """Lets Copier in this process compile each of its 450 templates only once.

    That is four fifths of a render. If Jinja renames the method, remove this.
    """
    with mock.patch.object(jinja2.Environment, "compile", compile_once):
        yield


@contextmanager
def output_to(file: IO[str]) -> Generator[None]:
    """Writes to a file what this process prints, and what its children print."""
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        for number in kept:
            os.dup2(file.fileno(), number)
        with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
            yield
    finally:
        for number, copied in kept.items():
            os.dup2(copied, number)
            os.close(copied)


def copier(folder: Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """Runs Copier's command in this process, which takes a third of the time."""
    command = [COPIER, *map(str, arguments)]
    environment = mock.patch.dict(os.environ, clean_environment(), clear=True)
    with tempfile.TemporaryFile("w+", buffering=1) as printed:
        with (
            output_to(printed),
            environment,
            fast_copier(),
            contextlib.chdir(folder),
        ):
            try:
                _, status = CopierApp.run(command, exit=False)
            # An answer that is refused, and a copy over another environment
            except (ValueError, FilterArgumentError):
                traceback.print_exc()
                status = 1
        printed.seek(0)
        return subprocess.CompletedProcess(command, status, printed.read())


def render_project(
    template: Path,
    destination: Path,
    *,
    answers_file: Any = None,
    **answers: Any,
) -> None:
    """Renders a project in this process, without running tasks."""
    with fast_copier():
        run_copy(
            str(template),
            destination,
            data=answers,
            answers_file=answers_file,
            defaults=True,
            skip_tasks=True,
            unsafe=True,
            quiet=True,
        )
