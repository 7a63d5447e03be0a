"""The models of a class that asks any, which most classes do not."""

from collections.abc import Callable
from typing import Any

from .episode.declaration import declared


def models_of(
    domain_class: type, connect: Callable[[str], Any] = lambda name: None
) -> Any:
    """The class's models, of which each episode gets its own: `models.client.Models`.

    None if the class asks no models: most servers need nothing of that package. Raises
    SettingError.
    """
    if not declared(domain_class).models:
        return None
    from .models.client import Models

    return Models(domain_class, connect)
