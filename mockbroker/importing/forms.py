"""Imported groups as JSON and as a table."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.errors import WireError
from kwire.json.objects import uuid_text
from mockbroker.base.settings import Settings
from mockbroker.broker.journal import readable
from mockbroker.groups.classic.state import ClassicGroup, Member
from mockbroker.groups.consumer.state import ConsumerGroup, ConsumerMember, Share
from mockbroker.groups.consumer.target import assignor_of
from mockbroker.groups.offsets import Committed
from mockbroker.importing.groups import WALL, Imported

HEADINGS = ("GROUP", "TYPE", "STATE", "GENERATION", "MEMBERS", "OFFSETS", "WAITING")
NUMBERS_FROM = 3  # columns of numbers are flushed right
Names = Mapping[UUID, str]


def json_lines(found: Imported, settings: Settings) -> Iterator[dict[str, Any]]:
    """An object for each group, by id; last one that has ``topics``, ``passed_over``, ``notes`` and ``problems``.

    Bytes are base64; times are milliseconds since 1970 or null. Partitions stand by topic, by the topic's id where no
    file says which name it has.
    """
    names = {topic.topic_id: name for name, topic in found.topics.items() if topic.topic_id is not None}
    for group_id, group in sorted(found.groups.items()):
        told = _consumer(group, names, settings) if isinstance(group, ConsumerGroup) else _classic(group)
        waiting = [
            {
                "producer_id": producer_id,
                "offsets": [_offset(*place, each) for place, (_, each) in sorted(held.items())],
            }
            for producer_id, held in sorted(group.offsets.pending.items())
        ]
        offsets = [_offset(*place, committed) for place, committed in sorted(group.offsets.committed.items())]
        yield {"group_id": group_id, **told, "offsets": offsets, "waiting": waiting}
    yield {
        "topics": {
            name: {"topic_id": topic.topic_id and uuid_text(topic.topic_id), "partitions": topic.partitions}
            for name, topic in sorted(found.topics.items())
        },
        "passed_over": {kind: sorted(ids) for kind, ids in sorted(found.passed_over.items())},
        "notes": found.notes,
        "problems": [{"file": str(p.path), "byte": p.position, "text": p.text} for p in found.problems],
    }


def table(found: Imported) -> list[str]:
    """A line for each group below a line of headings; ``WAITING``: offsets of transactions that are open."""
    rows = [
        (
            group_id,
            "consumer" if isinstance(group, ConsumerGroup) else "classic",
            group.state_name,
            str(group.epoch if isinstance(group, ConsumerGroup) else group.generation),
            str(len(group.members)),
            str(len(group.offsets.committed)),
            str(sum(map(len, group.offsets.pending.values()))),
        )
        for group_id, group in sorted(found.groups.items())
    ]
    shown = [HEADINGS, *([_shown(name), *rest] for name, *rest in rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(HEADINGS))]
    return ["  ".join(_aligned(row, widths)).rstrip() for row in shown]


def _shown(name: str) -> str:
    """Fit for a terminal; all of it, since it is what the group is asked for by."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name) or "''"


def _aligned(row: Iterable[str], widths: Iterable[int]) -> Iterator[str]:
    for at, (text, width) in enumerate(zip(row, widths, strict=True)):
        yield text.rjust(width) if at >= NUMBERS_FROM else text.ljust(width)


def _classic(group: ClassicGroup) -> dict[str, Any]:
    return {
        "type": "classic",
        "state": group.state_name,
        "state_timestamp_ms": WALL.ms(group.since) if group.since else None,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader or None,
        "members": [_classic_member(group, member) for member in group.members.values()],
    }


def _classic_member(group: ClassicGroup, member: Member) -> dict[str, Any]:
    subscription = member.metadata(group.protocol or "")
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": round(member.session_timeout * 1000),
        "rebalance_timeout_ms": round(member.rebalance_timeout * 1000),
        "subscribed_topics": _topics(group.protocol_type, subscription),
        "subscription_bytes": _text(subscription),
        "assignment": _sorted(readable(group.protocol_type, member.assignment)),
        "assignment_bytes": _text(member.assignment),
    }


def _topics(protocol_type: str, subscription: bytes) -> list[str] | None:
    if protocol_type != "consumer":
        return None
    try:
        return list(decode_stored(ConsumerProtocolSubscription, subscription)[0].topics)
    except WireError:  # the bytes are the clients' own
        return None


def _consumer(group: ConsumerGroup, names: Names, settings: Settings) -> dict[str, Any]:
    return {
        "type": "consumer",
        "state": group.state_name,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": assignor_of(group, settings),
        "members": [_consumer_member(group, member, names) for member in group.members.values()],
    }


def _consumer_member(group: ConsumerGroup, member: ConsumerMember, names: Names) -> dict[str, Any]:
    classic = member.classic
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack_id": member.rack_id,
        "session_timeout_ms": None if classic is None else round(classic.session_timeout * 1000),
        "rebalance_timeout_ms": round(member.rebalance_timeout * 1000),
        "subscribed_topics": sorted(member.topics),
        "subscribed_regex": member.regex or None,
        "server_assignor": member.assignor,
        "speaks": "consumer" if classic is None else "classic",
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "state": member.state.name,
        "assignment": _named(member.assigned, names),
        "pending_revocation": _named(member.revoking, names),
        "target": _sorted(
            {_name(topic, names): which for topic, which in group.target.get(member.member_id, {}).items()}
        ),
    }


def _name(topic_id: UUID, names: Names) -> str:
    return names.get(topic_id) or uuid_text(topic_id)


def _named(share: Share, names: Names) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic_id, index in share:
        found.setdefault(_name(topic_id, names), []).append(index)
    return _sorted(found) or {}


def _sorted(assignment: Mapping[str, list[int]] | None) -> dict[str, list[int]] | None:
    return None if assignment is None else {topic: sorted(which) for topic, which in sorted(assignment.items())}


def _offset(topic: str, partition: int, committed: Committed) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": committed.offset,
        "leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "commit_timestamp_ms": WALL.ms(committed.at),
        "expire_timestamp_ms": None if committed.expires is None else WALL.ms(committed.expires),
    }


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
