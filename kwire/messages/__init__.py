"""The request and response schemas of all APIs. Each API has a module, which is imported on first access to the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from kwire.apikeys import ApiKey
from kwire.schema import Api

MODULES = {key.value: key.name.lower() for key in ApiKey}  # API key to module
NAMES = {key: module.title().replace("_", "") for key, module in MODULES.items()}  # as in APIS, without its imports


class _Apis(Mapping[int, Api]):
    """A mapping of API keys to APIs, ordered by key. The module of an API is imported on first access to its key."""

    def __init__(self) -> None:
        self._loaded: dict[int, Api] = {}

    def __getitem__(self, key: int) -> Api:
        if key not in self._loaded:
            stem = MODULES[key]
            self._loaded[key] = getattr(import_module(f"{__name__}.{stem}"), stem.upper())
        return self._loaded[key]

    def __contains__(self, key: object) -> bool:
        return key in MODULES

    def __iter__(self) -> Iterator[int]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


APIS: Mapping[int, Api] = _Apis()


def api_named(name: str) -> Api:
    """Return the API with a Kafka name, such as ``JoinGroup``; case and underscores are ignored.

    Raises: KeyError for an unknown name.
    """
    stem = name.replace("_", "").lower()
    for key, module in MODULES.items():
        if module.replace("_", "") == stem:
            return APIS[key]
    raise KeyError(name)
