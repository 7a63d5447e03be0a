"""The models that the class asks, for frameworks that start their own processes."""

from collections.abc import Mapping
from typing import Any

from ..errors import SettingError
from ..models.client import model_names
from ..settings import ModelSettings


def model_variables(
    domain_class: type, chosen: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """The environment variables for the class's models, such as JUDGE_MODEL.

    Their values are those of this process. `chosen` overrides them, by the model's name:
    {"judge": {"model": ..., "api_key": ...}}. Raises SettingError.
    """
    names = model_names(domain_class)
    if unknown := sorted(set(chosen) - set(names)):
        raise SettingError(
            f"models: the class asks {', '.join(names) or 'none'}, got "
            f"{', '.join(unknown)}"
        )
    variables = {}
    for name in names:
        own = ModelSettings.read_model(name).model_dump(exclude_unset=True)
        for key, value in {**own, **chosen.get(name, {})}.items():
            if value is not None:
                variables[f"{name}_{key}".upper()] = str(value)
    return variables
