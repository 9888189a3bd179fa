"""Whether the work of each request is linear: ``python fuzzing/cost.py [--all] [--api NAME] [--planted]``.

Arrays and bytes of each request that is served grow, one at a time, and with ``--all`` strings, in each version: one
name repeated, names that are known, names that are not. The work (counted.py) from the first byte of the request to the
last of the response, and the bytes of the response, must

- not grow faster than the request (``curved``): three sizes of it,
- cost the same for each element whatever else the broker has (``by state``): three sizes of the state; what is named
  again and again is not read again and again,
- not grow faster than the state where the request names all of it (``state``),
- stay below a bound for each byte of the request and each thing of the state (``bound``).
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

from kwire import APIS, decode, encode, encode_request  # noqa: E402 - what is imported from here on counts
from kwire.frames import pack  # noqa: E402
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, resolve  # noqa: E402
from kwire.records.batch import Record as LogRecord  # noqa: E402
from kwire.records.batch import build_batch, read_batch  # noqa: E402

SIZES = (20, 40, 80)  # elements of what grows
STATES = (32, 64, 128)  # what the broker has of everything
POOL = sum(SIZES) + SIZES[0]  # of each kind of thing with a name of its own, so that each request may name others
SLACK = 0.15  # by which a difference may be above what is linear: tables that double, logarithms
SLACK_BY_STATE = 0.05  # the same of what one more element costs in a larger state
ROUNDING = 400  # units that do not count
BYTES_ROUNDING = 64
STATE_ROUNDING = 3_000  # units of tables that double with what the broker has
BOUND = 60  # units for each byte of a request and each thing of the state, at most
THINGS = 20  # what each unit of STATES is: partitions, topics, members, ...
SHAPES = ("same", "known", "unknown")
NOW = 10.0
MEMBERS_TIMEOUT = 1_700.0
SUBSCRIPTION = bytes.fromhex("0001 00000001 0003") + b"big" + bytes.fromhex("ffffffff 00000000")
PRODUCER = 5_000  # the id of the producer that has an open transaction

# What is in a field whose value makes a request reach its work; fields that name something are in NAMES.
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
EMPTY = ("assignments", "configs", "forgotten_topics_data")  # what else stops a request early
NUMBERED = ("partition", "index", "partition_index", "partition_indexes", "partitions")
# Fields that name something without saying so in their declaration: API and field, or field, to a kind.
NAMES: dict[str, str] = {
    "ConsumerGroupDescribe.group_ids": "modernGroup",
    "ConsumerGroupHeartbeat.group_id": "modernGroup",
    "ConsumerGroupHeartbeat.member_id": "nobody",
    "OffsetCommit.group_id": "emptyGroup",
    "OffsetCommit.member_id": "nobody",
    "OffsetFetch.member_id": "nobody",
    "TxnOffsetCommit.group_id": "emptyGroup",
    "TxnOffsetCommit.member_id": "nobody",
    "FindCoordinator.key": "groupId",
    "FindCoordinator.coordinator_keys": "groupId",
    "resource_name": "topicName",
    "AlterUserScramCredentials.name": "user",
    "DescribeUserScramCredentials.name": "user",
    "member_id": "memberId",
    "JoinGroup.name": "protocol",
    "configs.name": "config",
}
# What the broker has: the one thing of each kind that is large, and small ones.
BIG = {
    "topicName": "big",
    "groupId": "big",
    "emptyGroup": "empty",
    "modernGroup": "modern",
    "transactionalId": "big",
    "user": "user-00000",
    "memberId": "member-00000",
    "nobody": "",
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
# Requests that Kafka answers as often as something is named, whatever its size: the largest response is the limit.
REPEATED = {
    ("DescribeGroups", "groups"),
    ("ConsumerGroupDescribe", "group_ids"),
    ("DescribeProducers", "topics"),
    ("DescribeProducers", "partition_indexes"),
    ("DescribeTransactions", "transactional_ids"),
}


@dataclass(frozen=True)
class Cell:
    """``path``: the field that grows, ``shape``: how."""

    api_key: int
    version: int
    path: tuple[str, ...]
    shape: str

    def __str__(self) -> str:
        return f"{APIS[self.api_key].name} v{self.version} {'.'.join(self.path) or '(as it is)'}, {self.shape}"


# --- requests -----------------------------------------------------------------------------------------------------


def paths(node: Node, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where something can grow."""
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
    """Makes the request of a cell. ``number``: elements of what grows; ``first``: the number of the first name."""

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
    """A broker that has ``size`` of everything, and a client of it."""

    def __init__(self, size: int) -> None:
        from mockbroker.base.settings import Settings
        from mockbroker.broker.broker import Broker
        from mockbroker.broker.journal import Journal
        from mockbroker.broker.router import Router
        from mockbroker.broker.sasl.users import ScramCredential, Users
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
        from mockbroker.groups.coordinated import session_of

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
                new=False,
            )
            group.add(member)
            group.waits.set(session_of(member_id), NOW + MEMBERS_TIMEOUT)
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
        self.broker.transactions.add("big", Identity(PRODUCER, 0), places, NOW)

    def ask(self, request: Any, version: int) -> tuple[int, int, int]:
        """Units of work, bytes of the request and of the response."""
        from mockbroker.base.effects import Reply
        from mockbroker.net.connection import ClientRequests

        frame = pack(encode_request(request, version, correlation_id=1, client_id="c"))
        session = ClientRequests(next(self._connections), 0, "/127.0.0.1", self.router)
        counted.WORK.units = 0
        out = 0
        session.receive(frame)
        call = session.next_call()
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
    """By state, then by size."""
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
    """What does not hold."""
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
    """All of them; or of the newest version all but strings, and of the oldest one name repeated."""
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
    """Brokers of different sizes, and what requests cost there; each cell has its own process, as it changes them."""

    def __init__(self) -> None:
        self.places = [Place(size) for size in (4, *STATES)]
        gc.collect()
        gc.freeze()

    def check(self, *, every: bool = False, api: str | None = None) -> tuple[list[str], int]:
        """What was found, and in how many cells."""
        chosen = list(cells(self.places[0].router, every=every, api=api))
        found: list[str] = []
        for cell in chosen:
            if not cell.path:  # the first of its version; copies of this process need not make its reader and writer
                request, version = Maker(cell, 1, 0, self.places[0].ids).make(), cell.version
                decode(type(request), encode(request, version), version)
                encode(APIS[cell.api_key].response(), version)
            found += _apart(partial(self._findings, cell))
        return found, len(chosen)

    def _findings(self, cell: Cell) -> list[str]:
        return [str(finding) for finding in judge(cell, measure(cell, self.places))]

    def misses(self, planted: Planted) -> list[str]:
        """Plant slow code in a copy of this process; what came instead of findings, nothing if all is well."""

        def work() -> list[str]:
            counted.plant(planted.module, planted.old, planted.new)
            return self.check(api=planted.api)[0]

        found = _apart(work)
        wrong = [line for line in found if ": work " not in line and ": response bytes " not in line]
        return wrong if found else ["nothing was found"]


def _apart(work: Callable[[], list[str]]) -> list[str]:
    """The same, in a copy of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            try:
                lines = work()
            except Exception:
                lines = [f"failed: {traceback.format_exc()}"]
            with os.fdopen(writing, "w", encoding="utf-8") as pipe:
                json.dump(lines, pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    found: list[str] = json.loads(text)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every version, strings too")
    parser.add_argument("--api", help="only this one")
    parser.add_argument(
        "--planted", type=int, default=0, metavar="N", help="plant N pieces of slow code, and see that each is found"
    )
    given = parser.parse_args()
    oracle = Oracle()
    found, number = oracle.check(every=given.all, api=given.api)
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.write(f"cost: {number} requests, {len(found)} findings\n")
    failed = bool(found)
    for planted in PLANTED[: given.planted]:
        wrong = oracle.misses(planted)
        failed |= bool(wrong)
        sys.stdout.write(f"planted: {planted.what} ({planted.api}): {'MISSED, ' + wrong[0] if wrong else 'found'}\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
