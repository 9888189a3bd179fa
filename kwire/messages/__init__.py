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
    15: "describe_groups",
    16: "list_groups",
    17: "sasl_handshake",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    32: "describe_configs",
    37: "create_partitions",
    42: "delete_groups",
    47: "offset_delete",
    60: "describe_cluster",
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
