"""The table of all group types, and of the conversions between them.

The group types, and the code of conversions, are imported when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast

from mockbroker.groups.classic import declaration as classic
from mockbroker.groups.consumer import declaration as consumer
from mockbroker.groups.group_type import GroupType, GroupTypes
from mockbroker.groups.share import declaration as share
from mockbroker.groups.streams import declaration as streams


class _ImportedLater:
    """A group type whose module is imported when one of its methods is first used.

    Args:
        name: Name of the type, which is also the name of its folder.
        declaration: The module ``declaration`` of the folder.

    Attributes:
        name: Name of the type.
        states: Names of the states of a group.
        events: Classes of the events that the state machine handles.
        record_keys: Names of the classes of the record keys, in ``kwire.blobs.offsets_topic``.
    """

    def __init__(self, name: str, declaration: Any) -> None:
        self.name = name
        self.states: Sequence[str] = declaration.STATES
        self.events: Sequence[type] = declaration.EVENTS
        self.record_keys: Sequence[str] = declaration.RECORD_KEYS

    def __getattr__(self, method: str) -> Any:
        """Return a method of the group type, and store it. Python calls this only for attributes that are not set."""
        module = import_module(f"mockbroker.groups.{self.name}.group_type")
        value = getattr(getattr(module, f"{self.name.upper()}_TYPE"), method)
        setattr(self, method, value)
        return value


def _later(name: str, declaration: Any) -> GroupType[Any]:
    return cast("GroupType[Any]", _ImportedLater(name, declaration))


def _function(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports a module at the first call, and then calls one of the module's functions.

    Args:
        module: Full name of the module.
        name: Name of the function.
    """

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    return call


GROUP_TYPES = GroupTypes(
    [
        _later(classic.CLASSIC, classic),
        _later(consumer.CONSUMER, consumer),
        _later(share.SHARE, share),
        _later(streams.STREAMS, streams),
    ],
    cross_type_handlers={
        (classic.CLASSIC, consumer.CONSUMER): _function("mockbroker.groups.migration.convert", "upgrade"),
        (consumer.CONSUMER, classic.CLASSIC): _function("mockbroker.groups.migration.mixed", "receive"),
    },
    conversions={consumer.CONSUMER: _function("mockbroker.groups.migration.convert", "downgrade_without")},
)
