"""Histories of one group id for property tests, captured or generated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from kwire.analysis.columns import Row
from kwire.analysis.events import GroupEvent, error_name
from kwire.analysis.extract import events_of
from kwire.analysis.groups import slices
from kwire.analysis.topics import Watermark, watermarks
from kwire.analysis.transactions import Ending, endings
from kwire.capture import Call, read

CAPTURES = sorted((Path(__file__).parents[1] / "fixtures" / "captures").glob("*.pcap*"))
History = tuple[Sequence[GroupEvent], Sequence[Watermark], Sequence[Ending]]


@cache
def captured(path: Path) -> Mapping[str, History]:
    events: dict[str, list[GroupEvent]] = defaultdict(list)
    marks: list[Watermark] = []
    ended: list[Ending] = []
    for call in read([path]):
        if isinstance(call, Call):
            marks += watermarks(call)
            ended += endings(call)
            for event in events_of(call):
                events[event.group_id].append(event)
    return {group: (own, marks, ended) for group, own in events.items()}


def canonical(rows: Mapping[str, Sequence[Row]]) -> dict[str, list[str]]:
    return {name: sorted(map(repr, some)) for name, some in rows.items()}


MEMBERS, TOPICS = ("m1", "m2", "m3"), ("tea", "milk", "id:x")
SENT = ("join_sent", "sync_sent", "leave", "planned", "owned", "subscribed")
ANSWERED = ("join_done", "join_error", "sync_done", "sync_error", "heartbeat", "heartbeat_error", "assigned")
ANSWERED += ("epoch_change", "fenced", "member_id_given", "coordinator_found")
PLACES = st.tuples(st.sampled_from(TOPICS), st.integers(0, 3))


@st.composite
def histories(draw: Any) -> History:
    events: list[GroupEvent] = []
    kind = ""
    for number in range(draw(st.integers(1, 30))):
        before, kind = kind, draw(st.sampled_from((*sorted(slices.DIVIDED), *SENT, *ANSWERED)))
        common: dict[str, Any] = {
            "ts": draw(st.integers(0, 40)) * 500_000,
            "group_id": "g",
            "protocol": draw(st.sampled_from(("classic", "consumer", "share", None))),
            "event": kind,
            "member_id": draw(st.sampled_from(MEMBERS)),
            "client_id": draw(st.sampled_from("ab")),
            "host": "10.0.0.1",
            "broker": "b:1",
            "conn_id": draw(st.sampled_from(("c1", "c2"))),
            "number": number // 2 if kind != before else 1_000 + number,  # a call has one time for all of one kind
            "generation": draw(st.integers(0, 4)),
            "session_timeout_ms": draw(st.sampled_from((None, 2_000))),
            "error_code": draw(st.sampled_from((0, 0, 0, None, 14, 22, 25, 27))),
        }
        common["error_name"] = error_name(common["error_code"])
        if kind not in slices.DIVIDED:
            owned = draw(st.none() | st.lists(PLACES, max_size=3, unique=True))
            partitions = None if owned is None else sorted(f"{topic}-{partition}" for topic, partition in owned)
            members = [*MEMBERS[: draw(st.integers(0, 3))]] or None
            more = {"leader": draw(st.sampled_from(MEMBERS)), "part": number % 2}
            events.append(GroupEvent(**common, partitions=partitions, members=members, topics=["tea"], **more))
            continue
        producer = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0} if "txn" in kind else {}
        of_share = {"first_offset": 3, "records": 2} if kind in slices.SHARE_RECORDS else {}
        for part, (topic, partition) in enumerate(draw(st.lists(PLACES, min_size=1, max_size=5, unique=True))):
            code = draw(st.sampled_from((common["error_code"], 0)))
            offset = None if of_share else draw(st.integers(0, 9))
            about = {"topic": topic, "partition": partition, "offset": offset, "part": 10 * (number % 2) + part}
            error = {"error_code": code, "error_name": error_name(code)}
            events.append(GroupEvent(**common | error, **about, **producer, **of_share))
    marks = [
        Watermark(draw(st.integers(0, 40)) * 500_000, "c1", "b:1", topic, partition, draw(st.integers(0, 3_000)))
        for topic, partition in draw(st.lists(PLACES, max_size=4))
    ]
    ended = [
        Ending(draw(st.integers(0, 40)) * 500_000, "c1", "b:1", "t", 1, 0, kind)
        for kind in draw(st.lists(st.sampled_from(("commit", "abort")), max_size=2))
    ]
    return events, marks, ended
