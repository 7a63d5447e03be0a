"""The keys of the table [tool.environment] in nemo_gym/pyproject.toml.

`uv run python docs/api.py` makes the table in docs/running.md of these docstrings.
"""

import difflib
import functools
import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from .errors import ProjectError

# The text in a type is part of a message: `floor` must be <text>.
Name = Annotated[str, Field(min_length=1), 'text in quotes, such as "words"']
Text = Annotated[str, "text in quotes"]
Texts = Annotated[list[str], 'a list of texts, such as ["one", "two"]']
Files = Annotated[list[str], 'a list of paths, such as ["words.txt", "boards/*.json"]']
Turns = Annotated[int, Field(gt=0), "a whole number from 1 on"]
Floor = Annotated[
    float | None, Field(allow_inf_nan=False), "a number without quotes, such as 0.2"
]
Switch = Annotated[bool, "true or false, without quotes"]


class ProjectSettings(BaseModel):
    """[tool.environment] of nemo_gym/pyproject.toml."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        validate_by_name=False,
    )

    env_name: Name
    """The environment's name: files in `configs/` have it, and NeMo Gym knows its servers by it."""

    module: Name
    """The module with the environment's class."""

    class_name: Name = Field(alias="class")
    """The class. One object of it plays one episode."""

    folder: Text = ""
    """Where Python finds the module, from the folder of `nemo_gym/` on, such as `src`."""

    models: Texts = []
    """The models that the class asks, each a parameter of its constructor."""

    max_turns: Turns = 20
    """The most answers of a model in one episode, in rollouts, gates, tests and `play.py`, unless `MAX_TURNS` is set."""

    space: Text = ""
    """The Hugging Face Space, `owner/name`, that `env_runtime.deploy` pushes to, unless `--space` names one."""

    data_files: Files = []
    """The files that the class reads, from the project's folder on. Spaces and packages get them."""

    space_files: Files = []
    """Further files that a Space gets."""

    floor: Floor = None
    """The most that a policy without a solution may earn on average, a reward. The rollout gate fails above it."""

    graded: Texts = []
    """Arguments of the oracle's calls, such as `guess.word`, or `answer`. The rollout gate fails if the grade does not depend on one."""

    meant: Texts = []
    """Flaws of the grade that are meant, such as `echo`. The rollout gate does not look for them."""

    one_task: Switch = False
    """Whether all rows are meant to be one task. The rollout gate does not fail then."""

    @classmethod
    def read(cls, file: Path) -> Self:
        """The settings in a pyproject.toml. Raises ProjectError with what is wrong."""
        table = read_tool(file)["environment"]
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            first = error.errors()[0]
            problem = _problem(table, first["type"], *map(str, first["loc"]))
            raise ProjectError(f"{file}: [tool.environment] {problem}") from None


def keys() -> dict[str, FieldInfo]:
    """The fields of the settings by the keys of the table."""
    fields = ProjectSettings.model_fields.items()
    return {field.alias or name: field for name, field in fields}


def expected(field: FieldInfo) -> str:
    """The value that a key must have, in words."""
    return next(text for text in field.metadata if isinstance(text, str))


def _problem(table: Any, kind: str, key: str = "", *_: str) -> str:
    """What pydantic found in the table, and what to do."""
    if not key:
        return f"must be a table, got {table!r}"
    if kind == "missing":
        return f"has no {key}"
    if kind != "extra_forbidden":
        value = json.dumps(table[key], ensure_ascii=False, default=str)
        return f"`{key}` must be {expected(keys()[key])}, got {value}"
    near = difflib.get_close_matches(key.lower().replace("-", "_"), keys(), 1)
    hint = f"did you mean `{near[0]}`? " if near else ""
    return f"has no key `{key}`: {hint}The keys are {', '.join(keys())}"


def read_tool(file: Path) -> dict[str, Any]:
    """The table [tool] of a pyproject.toml; {} if there is no such file.

    It is read once, and again after a change. Raises ProjectError if it is no TOML.
    """
    if not file.is_file():
        return {}
    about = file.stat()
    return _read_tool(file, about.st_mtime_ns, about.st_size)


@functools.lru_cache(maxsize=64)
def _read_tool(file: Path, changed: int, size: int) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except ValueError as error:
        raise ProjectError(f"{file} is not valid TOML: {error}") from None
