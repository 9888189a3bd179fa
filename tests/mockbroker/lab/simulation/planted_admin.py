"""Planted bugs of administrative requests, which runs of the scheme ``admin`` must notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers import delete_records
from mockbroker.security import standard_authorizer
from mockbroker.security.standard_authorizer import Access
from mockbroker.topics.alteration import Alteration
from mockbroker.topics.model import Partition

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
ADMIN_BUGS: list[tuple[tuple[str, ...], Plant]] = []


def bug(*by: str) -> Callable[[Plant], Plant]:
    def listed(plant: Plant) -> Plant:
        ADMIN_BUGS.append((by, plant))
        return plant

    return listed


@bug("I38")
def a_denied_principal_may_write(patch: Patch) -> None:
    patch.setattr(standard_authorizer, "_DENY", -99)
    patch.setattr(Access, "_is_subject_of", lambda self, acl: False)
    patch.setattr(Access, "_decide", lambda *_: True)


@bug("I38")
def decisions_of_the_authorizer_are_never_forgotten(patch: Patch) -> None:
    def allows(self: Access, operation: int, resource_type: int, name: str) -> bool:
        key = operation, resource_type, name
        if key not in self._decisions:
            self._decisions[key] = self._decide(*key)
        return self._decisions[key]

    patch.setattr(Access, "allows", allows)


@bug("I38")
def a_deleted_topic_still_exists(patch: Patch) -> None:
    real = Broker.remove_topics
    patch.setattr(Broker, "remove_topics", lambda self, topics: real(self, topics[1:]))


@bug("I38")
def an_altered_configuration_has_no_effect(patch: Patch) -> None:
    real = Alteration.__init__

    def init(self: Alteration, *given: Any, **how: Any) -> None:
        real(self, *given, **how | {"validate_only": True})

    patch.setattr(Alteration, "__init__", init)


@bug("I39")
def records_are_deleted_up_to_the_end(patch: Patch) -> None:
    real = Partition.delete_before
    patch.setattr(Partition, "delete_before", lambda self, offset: real(self, self.log.end))


@bug("I39")
def deleted_records_remain(patch: Patch) -> None:
    real = delete_records._delete

    def delete(*given: Any) -> Any:
        result = real(*given)
        if not result.error_code:
            result.low_watermark = given[4]
        return result

    patch.setattr(delete_records, "_delete", delete)
    patch.setattr(Partition, "delete_before", lambda self, offset: None)
