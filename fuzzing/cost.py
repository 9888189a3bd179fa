"""Checks that the work of each request is linear.

    python fuzzing/cost.py [--all] [--api NAME] [--step N] [--planted N]

One array or bytes field of a request grows at a time, with ``--all`` also strings, and in each version: with one name
repeated, with known names, with unknown names. Two figures are checked: the work (counted.py) from the first byte of
the request to the last byte of the response, and the size of the response. They must

- not grow faster than the request (``curved``), for three sizes of it,
- cost the same per element for three sizes of the broker's state (``by state``); a name that is repeated is not looked
  up each time,
- not grow faster than the state if the request names all of it (``state``),
- stay below a bound per byte of the request and per object of the state (``bound``).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

import counted
from planted import PLANTED, Planted

counted.install()

from kwire import APIS, decode, encode, encode_request  # noqa: E402 - imports from here on are counted
from kwire.frames import pack  # noqa: E402
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, resolve  # noqa: E402
from kwire.records.batch import Record as LogRecord  # noqa: E402
from kwire.records.batch import build_batch, read_batch  # noqa: E402

SIZES = (20, 40, 80)  # elements of the field that grows
STATES = (32, 64, 128)  # sizes of the broker's state
POOL = sum(SIZES) + SIZES[0]  # named objects of each kind, so that each request can name others
SLACK = 0.15  # share by which growth may exceed linear growth: hash tables that double, logarithms
SLACK_BY_STATE = 0.05  # the same for the cost of one element in a larger state
ROUNDING = 400  # units that are ignored
BYTES_ROUNDING = 64
STATE_ROUNDING = 3_000  # units of hash tables that double with the state
BOUND = 60  # highest number of units per byte of a request and per object of the state
THINGS = 20  # objects per unit of STATES: partitions, topics, members, ...
SHAPES = ("same", "known", "unknown")
NOW = 10.0
MEMBERS_TIMEOUT = 1_700.0
SUBSCRIPTION = bytes.fromhex("0001 00000001 0003") + b"big" + bytes.fromhex("ffffffff 00000000")
PRODUCER = 5_000  # the id of the producer that has an open transaction

# Values of fields with which a request gets past its first checks; fields with names are in NAMES.
VALUES: dict[str, Any] = {
    "acks": -1,
    "count": 3,
    "enable2_pc": False,
    "endpoint_type": 1,
    "fetch_offset": 0,
    "generation_id": 1,
    "TxnOffsetCommit.generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "iterations": 4096,
    "keep_prepared_txn": False,
    "key_type": 0,
    "max_bytes": 1 << 30,
    "max_num_offsets": 10,
    "mechanism": 1,
    "min_bytes": 0,
    "max_wait_ms": 0,
    "num_partitions": 1,
    "partition_max_bytes": 1 << 20,
    "producer_epoch": 0,
    "producer_id": PRODUCER,
    "protocol_type": "consumer",
    "rebalance_timeout_ms": 600_000,
    "replica_id": -1,
    "replication_factor": 1,
    "resource_type": 2,
    "session_timeout_ms": 1_700_000,
    "session_epoch": -1,
    "timestamp": 1,
    "timeout_ms": 1_000,
    "transaction_timeout_ms": 60_000,
    "v3_and_below_producer_id": PRODUCER,
    "validate_only": False,
    "verify_only": False,
}
EMPTY = ("assignments", "configs", "forgotten_topics_data")  # fields that stay empty, else a request is refused early
NUMBERED = ("partition", "index", "partition_index", "partition_indexes", "partitions")
# Fields with names whose declaration has no entity type: API and field, or field -> kind of the named object.
NAMES: dict[str, str] = {
    "ConsumerGroupDescribe.group_ids": "modernGroup",
    "ConsumerGroupHeartbeat.group_id": "modernGroup",
    "ConsumerGroupHeartbeat.member_id": "unknown member",
    "OffsetCommit.group_id": "emptyGroup",
    "OffsetCommit.member_id": "unknown member",
    "OffsetFetch.member_id": "unknown member",
    "TxnOffsetCommit.group_id": "emptyGroup",
    "TxnOffsetCommit.member_id": "unknown member",
    "FindCoordinator.key": "groupId",
    "FindCoordinator.coordinator_keys": "groupId",
    "resource_name": "topicName",
    "AlterUserScramCredentials.name": "user",
    "DescribeUserScramCredentials.name": "user",
    "member_id": "memberId",
    "JoinGroup.name": "protocol",
    "configs.name": "config",
}
# The broker's objects: one large object of each kind, and small ones.
BIG = {
    "topicName": "big",
    "groupId": "big",
    "emptyGroup": "empty",
    "modernGroup": "modern",
    "transactionalId": "big",
    "user": "user-00000",
    "memberId": "member-00000",
    "unknown member": "",
    "config": "retention.ms",
    "protocol": "x",
}
KNOWN = {
    "topicName": "topic-{:05d}",
    "groupId": "group-{:05d}",
    "modernGroup": "group-{:05d}",
    "transactionalId": "transaction-{:05d}",
    "user": "user-{:05d}",
    "memberId": "member-{:05d}",
}
# Requests in which Kafka answers each repetition of a name: only the response limit bounds their response.
REPEATED = {
    ("DescribeGroups", "groups"),
    ("ConsumerGroupDescribe", "group_ids"),
    ("DescribeProducers", "topics"),
    ("DescribeProducers", "partition_indexes"),
    ("DescribeTransactions", "transactional_ids"),
}


@dataclass(frozen=True)
class Cell:
    """A field that grows in one version of a request. ``path``: the field; ``shape``: one of SHAPES."""

    api_key: int
    version: int
    path: tuple[str, ...]
    shape: str

    def __str__(self) -> str:
        return f"{APIS[self.api_key].name} v{self.version} {'.'.join(self.path) or '(as it is)'}, {self.shape}"


# --- requests -----------------------------------------------------------------------------------------------------


def paths(node: Node, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of fields that can grow."""
    match node:
        case Record(_, slots, _, tagged):
            for slot in (*slots, *tagged):
                yield from paths(slot.node, (*at, slot.name))
        case List(element):
            yield at
            yield from paths(element, at)
        case Maybe(record):
            yield from paths(record, at)
        case Text() | Blob():
            yield at


class Maker:
    """Builds the request of a cell. ``number``: elements of the field; ``first``: number of the first name."""

    def __init__(self, cell: Cell, number: int, first: int, ids: dict[str, UUID]) -> None:
        self.cell, self.number, self.first, self.ids = cell, number, first, ids
        self.api = APIS[cell.api_key]

    def make(self) -> Any:
        return self.of(resolve(self.api.request, self.cell.version), (), None, "", None)

    def of(self, node: Node, at: tuple[str, ...], index: int | None, kind: str, default: Any) -> Any:
        grown = at == self.cell.path and index is None
        match node:
            case Record(cls, slots, _, tagged):
                return cls(
                    **{
                        slot.name: self.of(
                            slot.node,
                            (*at, slot.name),
                            index if self.inside(at) else None,
                            self.kind(slot, at),
                            slot.field.default,
                        )
                        for slot in (*slots, *tagged)
                    }
                )
            case List(element, _, null):
                if grown and self.cell.shape == "null":
                    return None if null else []
                if grown:
                    return [self.of(element, at, number, kind, None) for number in range(self.number)]
                if at[-1] in EMPTY and self.cell.path[: len(at)] != at:
                    return []
                return [self.of(element, at, index, kind, None)]
            case Maybe(record):
                return None if self.cell.path[: len(at)] != at else self.of(record, at, index, kind, None)
            case Text():
                return "x" * (self.number * 16) if grown else self.text(at, index, kind)
            case Blob(records=True):
                return self.records(self.number if grown else 1)
            case Blob():
                return bytes(self.number * 16) if grown else self.blob(at)
            case Fixed(wire):
                return self.fixed(wire, at, index, default)

    def inside(self, at: tuple[str, ...]) -> bool:
        return at[: len(self.cell.path)] == self.cell.path

    def kind(self, slot: Any, at: tuple[str, ...]) -> str:
        of_element = slot.field.of.entity if slot.field.of is not None else ""
        parent = at[-1] if at else ""
        named = (f"{self.api.name}.{slot.name}", f"{parent}.{slot.name}", slot.name)
        return next((NAMES[name] for name in named if name in NAMES), slot.field.entity or of_element)

    def text(self, at: tuple[str, ...], index: int | None, kind: str) -> str | None:
        name = at[-1]
        if name in VALUES and isinstance(VALUES[name], str):
            return str(VALUES[name])
        if name in ("group_instance_id", "instance_id", "subscribed_topic_regex", "server_assignor") and index is None:
            return None
        if self.cell.shape == "unknown":
            return f"unknown-{self.first + (index or 0):05d}"
        if self.cell.shape == "known" and index is not None:
            return KNOWN.get(kind, "known-{:05d}").format(self.first + index)
        return BIG.get(kind, "x")

    def fixed(self, wire: str, at: tuple[str, ...], index: int | None, default: Any) -> Any:
        name = at[-1]
        shape, number = self.cell.shape, self.first + (index or 0)
        if wire == "uuid":
            if shape == "unknown":
                return UUID(int=1 << 100 | number)
            return self.ids["big" if shape == "same" or index is None else f"topic-{number:05d}"]
        if name in NUMBERED and wire == "int32":
            # a partition of the topic that has many, if it is partitions that grow
            inner = (
                shape == "known"
                and index is not None
                and name in (*self.cell.path[-1:], "partition", "index", "partition_index")
                and len(self.cell.path) > 1
            )
            return 1_000_000 + number if shape == "unknown" else STATES[-1] + 2 + number if inner else 0
        for known in (f"{self.api.name}.{name}", name):
            if known in VALUES:
                return VALUES[known]
        if wire == "bool":
            return True
        return default if isinstance(default, (int, float)) else 0

    def records(self, number: int) -> bytes:
        return build_batch([LogRecord(value=b"v" * 16) for _ in range(number)])

    def blob(self, at: tuple[str, ...]) -> bytes:
        return SUBSCRIPTION if at[-1] == "metadata" else b"\0" * 16


# --- the broker ---------------------------------------------------------------------------------------------------


class Place:
    """A broker whose state has ``size`` units, and a client of it."""

    def __init__(self, size: int) -> None:
        from mockbroker.base.settings import Settings
        from mockbroker.broker.broker import Broker
        from mockbroker.broker.journal import Journal
        from mockbroker.broker.router import Router
        from mockbroker.security.users import ScramCredential, Users
        from mockbroker.topics.model import Node as BrokerNode

        numbers = count(1)
        settings = Settings.parse({"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0})
        scram = {
            (f"user-{number:05d}", "SCRAM-SHA-256"): ScramCredential(b"salt" * 4, 4096, b"s" * 32, b"k" * 32)
            for number in range(POOL + size)
        }
        node = BrokerNode(0, "127.0.0.1", 9092)
        self.broker = Broker([node], settings, lambda: UUID(int=next(numbers)), users=Users({}, scram))
        self.router = Router(self.broker, Journal(0.0))
        self.size = size
        self._connections = count(1)
        self._fill(size)
        self.broker.write_changes(NOW)

    def _fill(self, size: int) -> None:
        cluster = self.broker.cluster
        for name, partitions in [("big", 10 * size), *((f"topic-{number:05d}", 1) for number in range(POOL + size))]:
            cluster.create_topic(name, cluster.place(partitions, 1))
        self.ids = {name: topic.topic_id for name, topic in cluster.topics.items()}
        big = cluster.topics["big"].partitions[0]
        for number in range(size):
            big.append(
                read_batch(
                    build_batch(
                        [LogRecord(value=b"v", timestamp=number)], producer_id=number, producer_epoch=0, base_sequence=0
                    )
                )
            )
        self._groups(size)
        self._transactions(size)

    def _groups(self, size: int) -> None:
        from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
        from kwire.messages.offset_commit import OffsetCommitRequest
        from mockbroker.groups.classic.state import ClassicGroup, Member, State
        from mockbroker.groups.coordinated import session_timer

        for name, offsets in [
            ("big", size),
            ("empty", size),
            *((f"group-{number:05d}", 1) for number in range(POOL + size)),
        ]:
            partition = OffsetCommitRequest.Topic.Partition
            topic = OffsetCommitRequest.Topic(
                name="big", partitions=[partition(partition_index=n, committed_offset=1) for n in range(offsets)]
            )
            self.ask(OffsetCommitRequest(group_id=name, generation_id_or_member_epoch=-1, topics=[topic]), 7)
        group = self.broker.groups["big"]
        assert isinstance(group, ClassicGroup)
        for member_id in (f"member-{number:05d}" for number in range(POOL + size)):
            member = Member(
                member_id=member_id,
                client_id="c",
                client_host="/h",
                session_timeout=MEMBERS_TIMEOUT,
                rebalance_timeout=600.0,
                protocols=(("x", SUBSCRIPTION),),
                is_new=False,
            )
            group.add_member(member)
            group.timers.set(session_timer(member_id), NOW + MEMBERS_TIMEOUT)
        group.state, group.protocol, group.protocol_type, group.generation, group.leader = (
            State.STABLE,
            "x",
            "consumer",
            1,
            "member-00000",
        )
        for number in range(size // 4):
            beat = ConsumerGroupHeartbeatRequest(
                group_id="modern",
                member_id=f"m-{number}",
                member_epoch=0,
                rebalance_timeout_ms=600_000,
                subscribed_topic_names=["topic-00000", "big"] if number == 0 else ["topic-00001"],
                topic_partitions=[],
            )
            self.ask(beat, 1)

    def _transactions(self, size: int) -> None:
        from kwire.messages.init_producer_id import InitProducerIdRequest
        from mockbroker.transactions.state import Identity

        for name in ["big", *(f"transaction-{number:05d}" for number in range(POOL + size))]:
            self.broker.transaction_coordinator(name)
            self.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
        big = self.broker.transactions["big"]
        big.producer_id, big.epoch = PRODUCER, 0
        places = [("big", number) for number in range(size)]
        self.broker.transactions.add("big", Identity(PRODUCER, 0), places, NOW, kip890=True)

    def ask(self, request: Any, version: int) -> tuple[int, int, int]:
        """Send a request; return the units of work, and the bytes of request and response."""
        from mockbroker.base.effects import Reply
        from mockbroker.faults.errors import finished
        from mockbroker.net.connection import ClientRequests, Undecoded

        frame = pack(encode_request(request, version, correlation_id=1, client_id="c"))
        session = ClientRequests(next(self._connections), 0, "/127.0.0.1", self.router)
        counted.WORK.units = 0
        out = 0
        session.receive(frame)
        call = session.next_call()
        if isinstance(call, Undecoded):
            call = finished(call.steps)
        assert call is not None
        for outcome in self.router.run(self.router.step(call, NOW), NOW):
            if isinstance(outcome, Reply) and outcome.ticket is call.ticket:
                out += len(session.answer(outcome))
        return counted.WORK.units, len(frame), out


# --- what must hold -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    kind: str
    what: str
    cell: Cell
    figures: Sequence[int]

    def __str__(self) -> str:
        return f"{self.cell}: {self.what} {self.kind}: {', '.join(map(str, self.figures))}"


def measure(cell: Cell, places: Sequence[Place]) -> list[list[tuple[int, int, int]]]:
    """Return the figures of a cell by state and size."""
    sizes = SIZES if cell.path and cell.shape != "null" else (1,)
    firsts = [(number, sum(sizes[:at])) for at, number in enumerate(sizes)]
    table = []
    warm, *places = places
    for number, first in firsts:  # readers and writers are made when they are first needed, hashes are kept
        warm.ask(Maker(cell, number, first, warm.ids).make(), cell.version)
    for place in places:
        row = []
        if len(sizes) > 1:
            place.ask(Maker(cell, sizes[0], sum(SIZES), place.ids).make(), cell.version)
        for number, first in firsts:
            row.append(place.ask(Maker(cell, number, first, place.ids).make(), cell.version))
        table.append(row)
    return table


def judge(cell: Cell, table: list[list[tuple[int, int, int]]]) -> Iterator[Finding]:
    """Return the rules that the figures of a cell violate."""
    for column, what, rounding in ((0, "work", ROUNDING), (2, "response bytes", BYTES_ROUNDING)):
        figures = [[entry[column] for entry in row] for row in table]
        if len(figures[0]) == 3:
            for row in figures:
                one, two, three = row
                if three - two > 2 * (two - one) * (1 + SLACK) + rounding:
                    yield Finding("curved", what, cell, row)
                    break
            if cell.shape == "same" and (APIS[cell.api_key].name, cell.path[-1]) in REPEATED:
                continue
            steps = [row[2] - row[1] for row in figures]
            if steps[2] > steps[0] * (1 + SLACK_BY_STATE) + 2 * rounding:
                yield Finding("by state", what, cell, steps)
        of_state = [row[min(1, len(row) - 1)] for row in figures]
        if of_state[2] - of_state[1] > 2 * (of_state[1] - of_state[0]) * (1 + SLACK) + STATE_ROUNDING:
            yield Finding("state", what, cell, of_state)
        units, size, _ = table[-1][-1]
        if column == 0 and units > BOUND * (size + THINGS * STATES[-1]):
            yield Finding("bound", what, cell, [units, size])


def cells(router: Any, *, every: bool, api: str | None) -> Iterator[Cell]:
    """Yield all cells if ``every``; else arrays and bytes in the newest version, and repeated names in the oldest."""
    for key, versions in router.broker.advertised_versions.items():
        if api is not None and APIS[key].name != api:
            continue
        served = [version for version in range(versions.first, (versions.last or 0) + 1) if router.serves(key, version)]
        for version in served if every else sorted({served[0], served[-1]}):
            yield Cell(key, version, (), "same")
            layout = resolve(APIS[key].request, version)
            for path in dict.fromkeys(paths(layout)):
                match _at(layout, path):
                    case List() if not every and version != served[-1]:
                        yield Cell(key, version, path, "same")
                    case List():
                        yield from (Cell(key, version, path, shape) for shape in (*SHAPES, "null"))
                    case Blob() if every or version == served[-1]:
                        yield Cell(key, version, path, "same")
                    case _ if every:
                        yield Cell(key, version, path, "same")


def _at(node: Node, path: tuple[str, ...]) -> Node:
    for name in path:
        while not isinstance(node, Record):
            node = node.element if isinstance(node, List) else node.record  # type: ignore[union-attr]
        node = next(slot.node for slot in (*node.slots, *node.tagged) if slot.name == name)
    return node


class Oracle:
    """Brokers with states of different sizes; each cell is measured in a forked process, because it changes them."""

    def __init__(self) -> None:
        self.places = [Place(size) for size in (4, *STATES)]
        gc.collect()
        gc.freeze()

    def check(self, *, every: bool = False, api: str | None = None, step: int = 1) -> tuple[list[str], int]:
        """Return the findings, and the number of cells. ``step``: measure one of so many cells."""
        chosen = list(cells(self.places[0].router, every=every, api=api))
        findings: list[str] = []
        measured = 0
        for number, cell in enumerate(chosen):
            if not cell.path:  # the first cell of a version: builds its decoder and encoder before processes fork
                request, version = Maker(cell, 1, 0, self.places[0].ids).make(), cell.version
                decode(type(request), encode(request, version), version)
                encode(APIS[cell.api_key].response(), version)
            if number % step == 0:
                findings += _apart(partial(self._findings, cell), str(cell))
                measured += 1
        return findings, measured

    def _findings(self, cell: Cell) -> list[str]:
        return [str(finding) for finding in judge(cell, measure(cell, self.places))]

    def misses(self, planted: Planted) -> list[str]:
        """Plant slow code in a forked process, and check the requests of its API.

        Returns: errors: findings that are not of work or response bytes, or that there was no finding.
        """

        def work() -> list[str]:
            counted.plant(planted.module, planted.old, planted.new)
            return self.check(api=planted.api)[0]

        findings = _apart(work, planted.what)
        wrong = [line for line in findings if ": work " not in line and ": response bytes " not in line]
        return wrong if findings else ["no finding was reported"]


def _apart(work: Callable[[], list[str]], what: str) -> list[str]:
    """Return the result of ``work`` in a forked process; an error if it raises an exception.

    Args:
        work: function that returns findings.
        what: description of the work, such as a cell, for the error.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            try:
                lines = work()
            except Exception:
                lines = [f"{what} failed: {traceback.format_exc()}"]
            with os.fdopen(writing, "w", encoding="utf-8") as pipe:
                json.dump(lines, pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    lines_read: list[str] = json.loads(text)
    return lines_read


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every version, strings too")
    parser.add_argument("--api", help="only this one")
    parser.add_argument("--step", type=int, default=1, metavar="N", help="measure one of N requests")
    parser.add_argument(
        "--planted",
        type=int,
        default=0,
        metavar="N",
        help="plant N pieces of slow code, and check that each is reported",
    )
    given = parser.parse_args()
    oracle = Oracle()
    findings, number = oracle.check(every=given.all, api=given.api, step=given.step)
    sys.stdout.write("".join(f"{line}\n" for line in findings))
    sys.stdout.write(f"cost: {number} requests, {len(findings)} findings\n")
    failed = bool(findings)
    for planted in PLANTED[: given.planted]:
        wrong = oracle.misses(planted)
        failed |= bool(wrong)
        sys.stdout.write(f"planted: {planted.what} ({planted.api}): {'MISSED, ' + wrong[0] if wrong else 'found'}\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
