"""The operations on topics and records without a client: to create topics, and to append, read and delete records."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from kwire.java import partition_of_key
from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Batch, build_batch, read_batch, restamp
from kwire.records.batch import Record as WireRecord
from kwire.records.record import CONTENTS
from mockbroker.base.effects import Effects
from mockbroker.base.errors import ConflictError, NotFoundError
from mockbroker.base.settings import MAX_PARTITIONS, SettingsError
from mockbroker.base.texts import listed
from mockbroker.broker import failover, paused_replicas
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.completion import complete_delayed_fetches
from mockbroker.topics import configs as topic_configs
from mockbroker.topics.model import OFFSETS_TOPIC, Partition, Topic, legal_topic_name, metric_name
from mockbroker.topics.record_rules import RecordRules, rejection

RECORDS_OF_A_BATCH = 500  # maximum number; consumers fetch whole batches, which should not exceed fetch.max.bytes


class UnknownTopicError(NotFoundError):
    """The error for a topic, or a partition of a topic, that does not exist."""


class TopicExistsError(SettingsError, ConflictError):
    """The error for the creation of a topic that exists already, or whose name collides with an existing topic."""


class InternalTopicError(ConflictError):
    """The error for an operation that is not allowed on an internal topic, such as ``__consumer_offsets``."""


class NotCompactedError(ConflictError):
    """The error for the compaction of a topic without ``cleanup.policy=compact``."""


class RejectedRecordError(ValueError):
    """The error for a record that the configurations of its topic do not allow.

    Args:
        number: index of the record in the list of records.
        text: error message.
    """

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"record {number} is not appended: {text}")
        self.number = number
        self.text = text

    def __reduce__(self) -> tuple[type[RejectedRecordError], tuple[int, str]]:
        """Return how copy and pickle restore the error."""
        return type(self), (self.number, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record that ``produce`` writes or ``records`` returns.

    ``produce`` needs only ``value``, and ignores ``topic`` and ``offset``.

    Attributes:
        value: The value; None is a tombstone.
        key: The key; None for no key.
        headers: Pairs of header name and value.
        timestamp: Milliseconds since 1970; None for the broker's current time.
        topic: Name of the topic; "" in a record that was not read from a topic.
        partition: Index of the partition; None to choose the partition by key or, without a key, round-robin.
        offset: Offset in the partition; -1 in a record that was not read from a topic.
    """

    value: bytes | None = None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int | None = None
    topic: str = ""
    partition: int | None = None
    offset: int = -1


Value = bytes | str | Record | None


def check_topics(topics: Mapping[str, int]) -> None:
    """Check that the topics of a new cluster can be created.

    ``topics``: topic name -> number of partitions.

    Raises: TopicExistsError if the names of two topics collide; SettingsError if ``topics`` is not a mapping, a name is
    illegal, or a number of partitions is out of range.
    """
    if not isinstance(topics, Mapping):
        raise SettingsError(
            f'topics is {topics!r}: expected topic names with numbers of partitions, such as {{"orders": 6}}'
        )
    by_metric = {metric_name(OFFSETS_TOPIC): OFFSETS_TOPIC}
    for name, partitions in topics.items():
        _check_name(name)
        _check_topic(name, partitions, by_metric.get(metric_name(name)))
        by_metric[metric_name(name)] = name


def _check_name(name: str) -> None:
    """Check the name of a new topic. Raises: SettingsError if it is illegal."""
    if not isinstance(name, str) or not legal_topic_name(name):
        raise SettingsError(
            f"topic {name!r}: not a legal topic name (1-249 of the characters a-z, A-Z, 0-9, '.', '_' and '-')"
        )


def _check_topic(name: str, partitions: int, existing: str | None) -> None:
    """Check that a topic with a legal name can be created.

    Args:
        name: The name of the topic.
        partitions: Number of partitions.
        existing: Name of the existing topic that has the same name in metrics, or None.

    Raises: TopicExistsError if the topic exists, or its name collides with an existing topic; SettingsError if the
    number of partitions is out of range.
    """
    if not isinstance(partitions, int):
        raise SettingsError(f"topic {name}: the number of partitions, {partitions!r}, is not an integer")
    if not 0 < partitions <= MAX_PARTITIONS:
        raise SettingsError(
            f"topic {name}: the number of partitions, {partitions}, is out of range (1-{MAX_PARTITIONS})"
        )
    if existing == name:
        raise TopicExistsError(f"topic {name} already exists")
    if existing is not None:
        raise TopicExistsError(
            f"topic {name} collides with topic {existing}, because names in metrics have '_' instead of '.': "
            "use another name"
        )


def create_topic(broker: Broker, name: str, partitions: int, config: Mapping[str, object] | None = None) -> None:
    """Create a topic with ``default.replication.factor`` replicas.

    Args:
        broker: the state of the cluster.
        name: the name of the topic.
        partitions: number of partitions.
        config: topic configurations by Kafka's names.

    Raises: TopicExistsError; SettingsError if the name, the number of partitions or a configuration is invalid.
    """
    _check_name(name)
    _check_topic(name, partitions, broker.cluster.colliding(name))
    for key in config or {}:
        if not isinstance(key, str):
            raise SettingsError(f"topic {name} has an invalid configuration: the name {key!r} is not a str")
    configs = {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (config or {}).items()
    }
    if problem := topic_configs.configs_error(configs, broker.release):
        raise SettingsError(f"topic {name} has an invalid configuration: {problem}")
    replicas = broker.cluster.place(partitions, broker.settings.default_replication_factor)
    broker.cluster.create_topic(name, replicas, configs)


def delete_topic(broker: Broker, name: str) -> Effects:
    """Delete a topic with its records and committed offsets; return the responses to pending Fetch requests.

    Args:
        broker: The state of the cluster.
        name: The name of the topic.

    Raises: UnknownTopicError; InternalTopicError.
    """
    topic = _not_internal(_topic(broker, name), "deleted")
    broker.delete_topics([topic])
    return complete_delayed_fetches(broker, topic.partitions)


def delete_records(broker: Broker, topic: str, index: int, before: int) -> tuple[int, Effects]:
    """Delete the records of a partition before an offset, as DeleteRecords does.

    Args:
        broker: The state of the cluster.
        topic: Name of the topic.
        index: Index of the partition.
        before: Offset of the first record that is kept; -1 to delete all records.

    Returns:
        The log start offset, and the responses to pending Fetch requests.

    Raises: UnknownTopicError; InternalTopicError; ValueError if the offset is out of range; TypeError if it is not an
    integer.
    """
    target = _partition(_not_internal(_topic(broker, topic), "truncated"), index)
    log = target.log
    if not isinstance(before, int):
        raise TypeError(f"offset {before!r} of {topic}-{index} is not an integer")
    if not -1 <= before <= log.end:
        raise ValueError(
            f"cannot delete the records of {topic}-{index} before offset {before}: expected -1 to {log.end}"
        )
    target.delete_before(log.end if before == -1 else before)
    return log.start, complete_delayed_fetches(broker, [target])


def lose_records(broker: Broker, topic: str, index: int, count: int, now: float) -> tuple[int, Effects]:
    """Elect an unclean leader whose log does not contain the last records of a partition.

    Args:
        broker: The state of the cluster.
        topic: Name of the topic.
        index: Index of the partition.
        count: Number of records to lose. Only whole batches can be lost, so the number of lost records may be greater
            than ``count``.
        now: The broker's time in seconds.

    Returns:
        The log end offset, and the responses to pending Fetch requests.

    Raises: UnknownTopicError; InternalTopicError; ValueError if ``count`` is negative.
    """
    target = _partition(_not_internal(_topic(broker, topic), "truncated"), index)
    if count < 0:
        raise ValueError(f"cannot lose {count} records of {topic}-{index}: expected 0 or more")
    effects = failover.elect_unclean(broker, target, count, now)
    return target.log.end, effects


def produce(broker: Broker, topic: str, records: Sequence[Record], now: float) -> tuple[list[int], Effects]:
    """Append records; return their offsets, and the responses to pending Fetch requests as effects.

    A record without a partition is placed by its key as in Kafka's producer; without a key, round-robin.

    Args:
        broker: The state of the cluster.
        topic: Name of the topic.
        records: The records.
        now: The broker's time in seconds, the timestamp of records whose ``timestamp`` is None.

    Raises: UnknownTopicError; InternalTopicError; EncodeError; RejectedRecordError. They are raised before any record
    is appended.
    """
    target = _not_internal(_topic(broker, topic), "written")
    now_ms = broker.wall_ms(now)
    placed: dict[int, list[tuple[int, WireRecord]]] = {}
    for number, record in enumerate(records):
        index = _choose(target, number, record)
        placed.setdefault(index, []).append((number, _wire(record, now_ms)))
    partitions = {index: _partition(target, index) for index in placed}
    batches = {index: _batches(broker, target, partitions[index], placed[index], now_ms) for index in placed}
    offsets: dict[int, int] = {}
    for index, numbered in placed.items():
        appended = _append(broker, target, partitions[index], batches[index], now)
        offsets |= zip((number for number, _ in numbered), appended, strict=True)
    effects = complete_delayed_fetches(broker, partitions.values())
    return [offsets[number] for number in range(len(records))], effects


def read(broker: Broker, topic: str, partition: int | None = None, *, committed: bool = False) -> list[Record]:
    """Return the records of a topic or of one partition, ordered by partition and offset.

    Args:
        broker: The state of the cluster.
        topic: Name of the topic.
        partition: Index of the partition; None for all.
        committed: True to return only records before the last stable offset, and no records of aborted transactions.

    Raises: UnknownTopicError; kwire.WireError if a client wrote a batch that cannot be decoded.
    """
    source = _topic(broker, topic)
    partitions = source.partitions if partition is None else [_partition(source, partition)]
    return [record for each in partitions for record in _read_partition(each, committed=committed)]


def read_from(
    broker: Broker, topic: str, partition: int | None, first: int, after: tuple[int, int], *, committed: bool
) -> Iterator[Record]:
    """Yield the records of a topic or of one partition from a record on, ordered by partition and offset.

    Only the batches of the records that are used are decoded.

    Args:
        broker: The state of the cluster.
        topic: The name of the topic.
        partition: Index of the partition; None for all.
        first: Smallest offset of the records.
        after: Partition and offset of the record with which to begin.
        committed: True to omit records after the last stable offset, and records of aborted transactions.

    Raises: UnknownTopicError; kwire.WireError if a client wrote a batch that cannot be decoded.
    """
    source = _topic(broker, topic)
    partitions = source.partitions if partition is None else [_partition(source, partition)]
    for each in partitions[:]:
        if each.index >= after[0]:
            offset = max(first, after[1]) if each.index == after[0] else first
            yield from _read_partition(each, committed=committed, first=offset)


def as_records(values: Iterable[Value], template: Record) -> list[Record]:
    """Return a Record for each value.

    A Record is returned unchanged. Any other value is put into a copy of ``template``, with text encoded as UTF-8.

    Raises: TypeError if ``values`` is a single value, or a field of a record has a wrong type.
    """
    single = isinstance(values, (str, bytes, bytearray, Record))  # text and bytes can be iterated too
    if single or not isinstance(values, Iterable):
        raise TypeError(f"produce() expects a list of values, not one {type(values).__name__}: pass [value]")
    records = [
        each if isinstance(each, Record) else replace(template, value=each.encode() if isinstance(each, str) else each)
        for each in values
    ]
    for record in records:
        _check_types(record)
    return records


def _check_types(record: Record) -> None:
    """Check the types of the fields of a record. Raises: TypeError, which names the field."""
    if isinstance(record.headers, (str, bytes, Mapping)) or not isinstance(record.headers, Iterable):
        raise TypeError(f"the headers of a record must be a list of pairs of name and value, not {record.headers!r}")
    for header in record.headers:
        if not isinstance(header, (tuple, list)) or len(header) != 2:
            raise TypeError(f"a header of a record must be a pair of name and value, not {header!r}")
    headers = [(f"header {name!r}", value) for name, value in record.headers]
    for name, content in [("value", record.value), ("key", record.key), *headers]:
        if not isinstance(content, CONTENTS):
            raise TypeError(f"the {name} of a record must be bytes or None, not {type(content).__name__}")
    for name, number in [("timestamp", record.timestamp), ("partition", record.partition)]:
        if number is not None and not isinstance(number, int):
            raise TypeError(f"the {name} of a record must be an integer or None, not {type(number).__name__}")


def _topic(broker: Broker, name: str) -> Topic:
    topic = broker.cluster.topics.get(name)
    if topic is None:
        names = [each.name for each in broker.cluster.topics.values() if not each.internal]
        raise UnknownTopicError(f"topic {name!r} does not exist; existing topics: {listed(names)}")
    return topic


def _not_internal(topic: Topic, done: str) -> Topic:
    if topic.internal:
        raise InternalTopicError(f"topic {topic.name} cannot be {done}: the coordinators store their records in it")
    return topic


def pause_replica(broker: Broker, topic: str, index: int, node: int) -> None:
    """Stop a follower of a partition from fetching. For the errors, see ``Cluster.pause_replica``.

    Args:
        broker: The state of the cluster.
        topic: Name of the topic.
        index: Index of the partition.
        node: Id of the follower's broker.
    """
    paused_replicas.pause_replica(broker, _partition(_not_internal(_topic(broker, topic), "paused"), index), node)


def resume_replica(broker: Broker, topic: str, index: int, node: int) -> None:
    """Let a paused replica fetch again. For the errors, see ``Cluster.resume_replica``.

    Args:
        broker: The state of the cluster.
        topic: Name of the topic.
        index: Index of the partition.
        node: Id of the replica's broker.
    """
    paused_replicas.resume_replica(broker, _partition(_topic(broker, topic), index), node)


def run_retention(broker: Broker, topic: str | None, now: float) -> tuple[dict[tuple[str, int], int], Effects]:
    """Delete the expired segments of a topic, or of all topics, as Kafka's retention check does.

    Args:
        broker: The state of the cluster.
        topic: Name of the topic; None for all topics.
        now: The broker's time in seconds.

    Returns:
        The new log start offset of each partition with deleted segments, by topic and partition; and the responses to
        pending Fetch requests.

    Raises: UnknownTopicError; InternalTopicError.
    """
    moved = broker.logs.run_retention(_topics(broker, topic, "cleaned"), now)
    starts = {(each.topic, each.index): each.log.start for each in moved}
    return starts, complete_delayed_fetches(broker, moved)


def compaction(broker: Broker, topic: str | None, now: float) -> Generator[None, None, None]:
    """Compact a topic, or all topics with ``cleanup.policy=compact``.

    The generator yields after each part of the work, so that the caller can serve requests between two parts.

    Args:
        broker: The state of the cluster.
        topic: Name of the topic; None for all topics.
        now: The broker's time in seconds.

    Raises: UnknownTopicError; InternalTopicError; NotCompactedError.
    """
    topics = _topics(broker, topic, "compacted")
    if topic is not None and not broker.logs.config(topics[0], topics[0].partitions[0]).compact:
        raise NotCompactedError(f"topic {topic} is not compacted: set its configuration cleanup.policy=compact")
    return broker.logs.compact(topics, now)


def _topics(broker: Broker, topic: str | None, done: str) -> list[Topic]:
    """Return the topic with this name, or all topics that are not internal if the name is None.

    Args:
        broker: the state of the cluster.
        topic: the name, or None.
        done: past participle of the operation for the error message, such as ``compacted``.

    Raises: UnknownTopicError; InternalTopicError.
    """
    if topic is not None:
        return [_not_internal(_topic(broker, topic), done)]
    return [each for each in broker.cluster.topics.values() if not each.internal]


def partition(broker: Broker, topic: str, index: int) -> Partition:
    """Return the partition ``index`` of a topic.

    Raises: UnknownTopicError if the topic or the partition does not exist.
    """
    return _partition(_topic(broker, topic), index)


def _partition(topic: Topic, index: int) -> Partition:
    if not isinstance(index, int):
        raise TypeError(f"partition {index!r} of topic {topic.name} is not an integer")
    partition = topic.partition(index)
    if partition is None:
        raise UnknownTopicError(
            f"topic {topic.name} has no partition {index}; its partitions are 0 to {len(topic.partitions) - 1}"
        )
    return partition


def _choose(topic: Topic, number: int, record: Record) -> int:
    count = len(topic.partitions)
    if record.partition is not None:
        return record.partition
    return number % count if record.key is None else partition_of_key(record.key, count)


def _wire(record: Record, now_ms: int) -> WireRecord:
    timestamp = now_ms if record.timestamp is None else record.timestamp
    return WireRecord(key=record.key, value=record.value, headers=record.headers, timestamp=timestamp)


def _batches(
    broker: Broker, topic: Topic, partition: Partition, numbered: Sequence[tuple[int, WireRecord]], now_ms: int
) -> list[Batch]:
    """Return the batches of a partition as the broker stores them, each with at most RECORDS_OF_A_BATCH records.

    Args:
        broker: The state of the cluster.
        topic: The topic.
        partition: The partition.
        numbered: The records of the partition, each with its index in the list of all records.
        now_ms: The current time in milliseconds since 1970.

    Raises: EncodeError; RejectedRecordError.
    """
    rules = RecordRules.of(topic.configs, broker.settings_of(partition.leader), broker.release)
    limit, setting = min((rules.largest_batch, "max.message.bytes"), (rules.largest_segment, "segment.bytes"))
    place, stored, first = f"{topic.name}-{partition.index}", list[Batch](), 0
    for batch in _split([record for _, record in numbered], limit):
        if len(batch.data) > limit:
            text = f"its batch has {len(batch.data)} bytes, but {setting} of topic {topic.name} is {limit}"
            raise RejectedRecordError(numbered[first][0], text)
        if rules.need_records(batch, now_ms) and (rejected := rejection(batch.records(), batch, rules, place, now_ms)):
            at, text = rejected.records[0]
            raise RejectedRecordError(numbered[first + at][0], text)
        first += batch.count
        if rules.changes_codec(batch):
            batch = rules.recompressed(batch)
        stored.append(restamp(batch, now_ms, log_append_time=True) if rules.append_time else batch)
    return stored


def _split(records: Sequence[WireRecord], limit: int) -> Iterator[Batch]:
    """Yield batches of at most RECORDS_OF_A_BATCH records. Only a batch of one record can exceed the limit.

    Args:
        records: The records.
        limit: Maximum size of a batch in bytes.

    Raises: EncodeError.
    """
    for at in range(0, len(records), RECORDS_OF_A_BATCH):
        part = records[at : at + RECORDS_OF_A_BATCH]
        batch = read_batch(build_batch(part))
        if len(batch.data) <= limit or len(part) == 1:
            yield batch
        else:
            middle = len(part) // 2
            yield from _split(part[:middle], limit)
            yield from _split(part[middle:], limit)


def _append(broker: Broker, topic: Topic, partition: Partition, batches: Sequence[Batch], now: float) -> Iterator[int]:
    """Append batches to a partition; yield the offset of each record.

    Args:
        broker: The state of the cluster.
        topic: The topic.
        partition: The partition.
        batches: The batches.
        now: The broker's time in seconds.
    """
    config = broker.logs.config(topic, partition)
    partition.log.limits = config.limits
    for batch in batches:
        base = partition.append(batch, broker.wall_ms(now))
        broker.logs.appended(topic, partition, config, base, now)
        yield from range(base, base + batch.count)


def _read_partition(partition: Partition, *, committed: bool, first: int = 0) -> Iterator[Record]:
    log = partition.log
    for batch in log.batches(first):
        if batch.control:
            continue  # transaction markers
        if committed and not partition.is_committed(batch):
            continue
        for record in batch.records():
            if record.offset < max(first, log.start):
                continue  # before or deleted, in a batch with records that are wanted
            yield Record(
                value=record.value,
                key=record.key,
                headers=tuple(record.headers),
                timestamp=record.timestamp,
                topic=partition.topic,
                partition=partition.index,
                offset=record.offset,
            )
