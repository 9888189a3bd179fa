"""What a test does to a cluster from inside, without a client: topics made, records written and read back."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kwire.java import partition_of_key
from kwire.records.batch import Record as WireRecord
from kwire.records.batch import batches, build_batch, read_batch
from mockbroker.base.effects import Effects
from mockbroker.base.settings import MAX_PARTITIONS, SettingsError
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.answers import complete_appended
from mockbroker.topics import configs as topic_configs
from mockbroker.topics.model import OFFSETS_TOPIC, Partition, Topic, legal_topic_name

RECORDS_OF_A_BATCH = 500  # a consumer takes whole batches; so many of usual size stay below its limits
EVERYTHING = 2**63 - 1  # bytes


class UnknownTopicError(LookupError):
    """A topic, or a partition of it, that is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record in a topic. Only ``value`` is needed to write one; one read back has everything.

    ``timestamp``: milliseconds since 1970, None for now. ``partition``: None chooses it.
    """

    value: bytes | None = None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int | None = None
    topic: str = ""
    partition: int | None = None
    offset: int = -1


Value = bytes | str | Record | None


def check_topic(name: str, partitions: int, there: Container[str] = (OFFSETS_TOPIC,)) -> None:
    """``there``: names that are taken. Raises: SettingsError if a topic cannot be made."""
    if not legal_topic_name(name):
        raise SettingsError(f"topic {name!r}: not a legal topic name")
    if not 0 < partitions <= MAX_PARTITIONS:
        raise SettingsError(f"topic {name}: {partitions} partitions")
    if name in there:
        raise SettingsError(f"topic {name}: it is there already")


def create_topic(broker: Broker, name: str, partitions: int, config: Mapping[str, object] | None = None) -> None:
    """A topic with the default number of replicas. ``config``: of the topic, by Kafka's names.

    Raises: SettingsError.
    """
    check_topic(name, partitions, broker.cluster.topics)
    given = (config or {}).items()
    configs = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given}
    if text := topic_configs.configs_error(configs, broker.release):
        raise SettingsError(f"topic {name}: {text}")
    replicas = broker.cluster.place(partitions, broker.settings.default_replication_factor)
    broker.cluster.create_topic(name, replicas, configs)


def produce(broker: Broker, topic: str, records: Sequence[Record], now_ms: int) -> tuple[list[int], Effects]:
    """Append records; their offsets, one each, and the answers to fetches that waited for them.

    A record without partition goes where Kafka's producer sends its key, or in turn if it has none. All or nothing:
    Raises: UnknownTopicError.
    """
    found = _topic(broker, topic)
    placed: dict[int, list[tuple[int, WireRecord]]] = {}
    for number, record in enumerate(records):
        index = _choose(found, number, record)
        placed.setdefault(index, []).append((number, _wire(record, now_ms)))
    partitions = {index: _partition(found, index) for index in placed}
    offsets: dict[int, int] = {}
    for index, numbered in placed.items():
        offsets |= _append(partitions[index], numbered)
    effects = complete_appended(broker, partitions.values())
    return [offsets[number] for number in range(len(records))], effects


def read(broker: Broker, topic: str, partition: int | None = None, *, committed: bool = False) -> list[Record]:
    """Every record of a topic or of one partition, by partition and offset.

    ``committed``: only those that a reader of committed records sees: up to the oldest open transaction, none aborted.
    Raises: UnknownTopicError; kwire.WireError if a client wrote a batch that cannot be opened.
    """
    found = _topic(broker, topic)
    wanted = found.partitions if partition is None else [_partition(found, partition)]
    return [record for each in wanted for record in _read_partition(each, committed=committed)]


def as_records(given: Iterable[Value], like: Record) -> list[Record]:
    """Records as they are; of values, records that are otherwise ``like`` this one. Text becomes UTF-8."""
    return [
        each if isinstance(each, Record) else replace(like, value=each.encode() if isinstance(each, str) else each)
        for each in given
    ]


def _topic(broker: Broker, name: str) -> Topic:
    found = broker.cluster.topics.get(name)
    if found is None:
        there = ", ".join(sorted(topic.name for topic in broker.cluster.topics.values() if not topic.internal))
        raise UnknownTopicError(f"there is no topic {name!r}; topics there are: {there or 'none'}")
    return found


def partition(broker: Broker, topic: str, index: int) -> Partition:
    """Raises: UnknownTopicError."""
    return _partition(_topic(broker, topic), index)


def _partition(topic: Topic, index: int) -> Partition:
    found = topic.partition(index)
    if found is None:
        raise UnknownTopicError(f"topic {topic.name} has partitions 0 to {len(topic.partitions) - 1}, no {index}")
    return found


def _choose(topic: Topic, number: int, record: Record) -> int:
    count = len(topic.partitions)
    if record.partition is not None:
        return record.partition
    return number % count if record.key is None else partition_of_key(record.key, count)


def _wire(record: Record, now_ms: int) -> WireRecord:
    timestamp = now_ms if record.timestamp is None else record.timestamp
    return WireRecord(key=record.key, value=record.value, headers=record.headers, timestamp=timestamp)


def _append(partition: Partition, numbered: Sequence[tuple[int, WireRecord]]) -> Iterator[tuple[int, int]]:
    """Write in batches; number and offset of each record."""
    for at in range(0, len(numbered), RECORDS_OF_A_BATCH):
        part = numbered[at : at + RECORDS_OF_A_BATCH]
        batch = read_batch(build_batch([record for _, record in part]))
        base = partition.append(batch)
        yield from ((number, base + delta) for delta, (number, _) in enumerate(part))


def _read_partition(partition: Partition, *, committed: bool) -> Iterator[Record]:
    log = partition.log
    for batch in batches(log.read(log.start, EVERYTHING, at_least_one=True)):
        if batch.control:
            continue  # marks of transactions are not records
        if committed and not partition.is_committed(batch):
            continue
        for record in batch.records():
            yield Record(
                value=record.value,
                key=record.key,
                headers=tuple(record.headers),
                timestamp=record.timestamp,
                topic=partition.topic,
                partition=partition.index,
                offset=record.offset,
            )
