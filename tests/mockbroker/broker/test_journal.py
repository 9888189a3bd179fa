"""The journal and the JSON form of its events."""

from __future__ import annotations

import pytest

from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment
from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import FREQUENT, EventKind
from mockbroker.broker.journal import Event, Journal

PLAN = ConsumerProtocolAssignment(
    assigned_partitions=[
        ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0, 2]),
        ConsumerProtocolAssignment.TopicPartition(topic="u", partitions=[1]),
    ]
)


@pytest.fixture
def journal() -> Journal:
    return Journal(begin=100.0)


def assigned(data: bytes | None, protocol_type: str = "consumer") -> Note:
    return Note(event=EventKind.ASSIGN, group="g", protocol_type=protocol_type, assignment=data)


def test_events_are_in_order_with_milliseconds_since_the_start(journal):
    journal.record(Note(event=EventKind.JOIN, group="g", member_id="a", client_id="c", reason="r"), 100.0)
    journal.record(Note(event=EventKind.LEAVE, group="g", member_id="a"), 101.2345)
    assert journal.events == [
        Event(time_ms=0, event=EventKind.JOIN, group="g", member_id="a", client="c", reason="r"),
        Event(time_ms=1234, event=EventKind.LEAVE, group="g", member_id="a"),
    ]


def test_listeners_are_called_once_per_event(journal):
    heard: list[Event] = []
    journal.listeners.append(heard.append)
    journal.record(Note(event=EventKind.JOIN, group="g"), 100.0)
    assert heard == journal.events


@pytest.mark.parametrize(
    ("note", "assignment"),
    [
        pytest.param(assigned(encode_stored(PLAN, 0)), {"t": [0, 2], "u": [1]}, id="v0"),
        pytest.param(assigned(encode_stored(PLAN, 3)), {"t": [0, 2], "u": [1]}, id="v3"),
        pytest.param(assigned(b""), {}, id="no assignment"),
        pytest.param(assigned(None), None, id="not an assignment"),
        pytest.param(assigned(b"\xff\xff\xff"), None, id="garbage"),
        pytest.param(assigned(b"\x00"), None, id="too short"),
        pytest.param(assigned(encode_stored(PLAN, 0), "connect"), None, id="another protocol type"),
    ],
)
def test_assignment_is_decoded_if_possible(journal, note, assignment):
    journal.record(note, 100.0)
    assert journal.events[0].assignment == assignment


def test_offsets_are_nested_by_topic(journal):
    journal.record(Note(event=EventKind.COMMIT, group="g", offsets={("t", 0): 5, ("u", 1): 7, ("t", 3): 9}), 100.0)
    assert journal.events[0].offsets == {"t": {0: 5, 3: 9}, "u": {1: 7}}


def test_json_omits_optional_fields_without_a_value(journal):
    journal.record(Note(event=EventKind.JOIN, group="g"), 100.0)
    journal.record(assigned(b""), 100.0)
    journal.record(
        Note(event=EventKind.GENERATION, group="g", generation=1, leader="a", protocol="range", members=("a",)), 100.0
    )
    always = {"time_ms": 0, "group": "g", "client": "", "member_id": "", "generation": -1}
    assert [event.to_json() for event in journal.events] == [
        {**always, "event": "join"},
        {**always, "event": "assign", "assignment": {}},
        {**always, "event": "generation", "generation": 1, "leader": "a", "protocol": "range", "members": ("a",)},
    ]


def test_oldest_events_are_removed_above_max_events():
    journal = Journal(0.0)
    journal.max_events = 10
    for number in range(100):
        journal.record(Note(event=EventKind.JOIN, group=str(number)), 0.0)
    assert 10 <= len(journal.events) <= 20
    assert journal.events[-1].group == "99"


@pytest.mark.parametrize("kind", sorted(FREQUENT))
def test_frequent_events_do_not_remove_a_rebalance(kind: EventKind) -> None:
    journal = Journal(0.0)
    journal.max_events = 100
    rebalance = [EventKind.JOIN, EventKind.REBALANCE, EventKind.GENERATION, EventKind.ASSIGN]
    for each in rebalance:
        journal.record(Note(event=each, group="g"), 0.0)
    for _ in range(20_000):
        journal.record(Note(event=kind, group="g"), 0.0)
    assert [event.event for event in journal.events[:5]] == [*rebalance, kind]
    assert journal.ids[:4] == [1, 2, 3, 4]
    assert journal.ids[4:] == list(range(journal.ids[4], 20_005))
    assert len(journal.events) <= 4 + 2 * 100
    assert (journal.last_id, journal.last_removed) == (20_004, 0)


def test_rebalances_do_not_remove_commits() -> None:
    journal = Journal(0.0)
    journal.max_events = 100
    journal.record(Note(event=EventKind.COMMIT, group="g"), 0.0)
    for _ in range(1_000):
        journal.record(Note(event=EventKind.REBALANCE, group="g"), 0.0)
    assert journal.events[0].event == "commit"
    assert (journal.ids[0], journal.ids[1]) == (1, journal.last_removed + 1)
    assert len(journal.events) <= 1 + 2 * 100


def test_ids_go_on_after_a_restart() -> None:
    journal = Journal(0.0)
    journal.max_events = 2
    for kind in (EventKind.COMMIT, EventKind.JOIN):
        journal.record(Note(event=kind, group="g"), 0.0)
    journal.restart(0.0)
    assert (list(journal.events), journal.ids, journal.last_id, journal.last_removed) == ([], [], 2, 2)
    for _ in range(5):
        journal.record(Note(event=EventKind.COMMIT, group="g"), 0.0)
    assert journal.ids == [6, 7]


def test_an_event_is_made_when_it_is_read_first(journal):
    journal.record(Note(event=EventKind.JOIN, group="g"), 100.0)
    journal.record(Note(event=EventKind.LEAVE, group="g"), 101.0)
    assert journal.events[-1] is journal.events[-1]
    assert [event.event for event in journal.events[0:2]] == ["join", "leave"]
    with pytest.raises(IndexError):
        journal.events[2]


def test_wakers_are_called_after_each_event(journal):
    seen = list[int]()
    journal.wakers.append(lambda: seen.append(len(journal.events)))
    journal.record(Note(event=EventKind.JOIN, group="g"), 100.0)
    journal.record(Note(event=EventKind.LEAVE, group="g"), 101.0)
    assert seen == [1, 2]


def test_json_of_an_event_of_a_transaction(journal):
    note = Note(
        event=EventKind.TXN_PREPARE, group="", transactional_id="x", producer_id=5, producer_epoch=1, reason="commit"
    )
    journal.record(note, 100.5)
    assert journal.events[0].to_json() == {
        "time_ms": 500,
        "event": "txn_prepare",
        "group": "",
        "client": "",
        "member_id": "",
        "generation": -1,
        "reason": "commit",
        "transactional_id": "x",
        "producer_id": 5,
        "producer_epoch": 1,
    }
