"""Every API by key, each in a file of its own that is imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from kwire.schema import Api

MODULES = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    18: "api_versions",
    19: "create_topics",
    22: "init_producer_id",
}


class _Apis(Mapping[int, Api]):
    """APIs in key order; a module is loaded with the first look at its key."""

    def __getitem__(self, key: int) -> Api:
        stem = MODULES[key]
        api: Api = getattr(import_module(f"{__name__}.{stem}"), stem.upper())
        return api

    def __iter__(self) -> Iterator[int]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


APIS: Mapping[int, Api] = _Apis()


def api_named(name: str) -> Api:
    """The API with Kafka's name, such as ``JoinGroup``; case and underscores do not matter. Raises: KeyError."""
    stem = name.replace("_", "").lower()
    for key, module in MODULES.items():
        if module.replace("_", "") == stem:
            return APIS[key]
    raise KeyError(name)
