"""Planted bugs of groups with members of both protocols, which runs of the scheme ``migration`` must notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mockbroker.groups.consumer.regex import TopicMatches
from mockbroker.groups.consumer.state import (
    ConsumerGroup,
)
from mockbroker.groups.migration import convert, mixed
from mockbroker.groups.offsets import Offsets
from mockbroker.groups.partition_sets import NO_PARTITIONS

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
MIGRATION_BUGS: list[tuple[tuple[str, ...], Plant]] = []


def bug(*by: str) -> Callable[[Plant], Plant]:
    def listed(plant: Plant) -> Plant:
        MIGRATION_BUGS.append((by, plant))
        return plant

    return listed


@bug("I1")
def an_upgrade_frees_the_partitions_of_classic_members(patch: Patch) -> None:
    real = convert._to_consumer_member

    def to_member(*given: Any) -> Any:
        return replace(real(*given), assigned=NO_PARTITIONS)

    patch.setattr(convert, "_to_consumer_member", to_member)


@bug("I1")
def a_classic_member_gets_its_target_at_once(patch: Patch) -> None:
    real = mixed._classic_member

    def classic_member(group: ConsumerGroup, event: Any) -> Any:
        member, classic = real(group, event)
        assigned = frozenset(group.target_of(member.member_id))
        return replace(member, assigned=assigned), classic

    patch.setattr(mixed, "_classic_member", classic_member)


@bug("I2")
def a_downgrade_is_not_written_before_its_rebalance(patch: Patch) -> None:
    real = convert.to_classic_group

    def to_classic(*given: Any) -> Any:
        group = real(*given)
        group.has_record = False
        return group

    patch.setattr(convert, "to_classic_group", to_classic)


@bug("I2")
def a_downgrade_begins_with_generation_1(patch: Patch) -> None:
    real = convert.to_classic_group

    def to_classic(*given: Any) -> Any:
        group = real(*given)
        group.generation = 1
        return group

    patch.setattr(convert, "to_classic_group", to_classic)


@bug("I5", "I4")
def an_upgrade_loses_the_offsets(patch: Patch) -> None:
    real = convert.to_consumer_group

    def to_consumer(*given: Any) -> Any:
        group = real(*given)
        group.offsets = Offsets()
        return group

    patch.setattr(convert, "to_consumer_group", to_consumer)


@bug("I10")
def a_downgrade_starts_no_sessions(patch: Patch) -> None:
    patch.setattr(convert.membership, "renew_session", lambda *_: None)


@bug("I9")
def regular_expressions_miss_a_topic(patch: Patch) -> None:
    real = TopicMatches.matching_topics

    def matching(*given: Any) -> frozenset[str]:
        return frozenset(sorted(real(*given))[1:])

    patch.setattr(TopicMatches, "matching_topics", matching)


@bug("I9", "I2")
def a_resolved_regular_expression_starts_no_epoch(patch: Patch) -> None:
    real = ConsumerGroup.bump_epoch

    def bump(group: ConsumerGroup, reason: str) -> Any:
        note = real(group, reason)
        if reason.startswith("regular expressions match"):
            group.epoch -= 1
        return note

    patch.setattr(ConsumerGroup, "bump_epoch", bump)
