"""The presets: ready-made fault rules and cluster changes for common failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mockbroker.faults.parsing import ALWAYS
from mockbroker.faults.preset import (
    DURATION,
    FreezeMetadata,
    LoseRecords,
    Parameter,
    Phase,
    Preset,
    RuleForm,
    StopBroker,
    Value,
    Values,
    no_phases,
    no_rules,
)
from mockbroker.faults.sections import INT32_MAX

# Requests of group members, and of producers that commit offsets for a group.
GROUP_APIS = [
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "ConsumerGroupHeartbeat",
    "TxnOffsetCommit",
]
LEADER_APIS = ["Produce", "Fetch", "ListOffsets"]


def _glob(description: str, default: str | None = None, *, required: bool = False) -> Parameter:
    return Parameter(kind="glob", description=description, default=default, required=required)


def _integer(description: str, default: int | None, lowest: int = 0, highest: int = INT32_MAX) -> Parameter:
    return Parameter(kind="integer", description=description, default=default, lowest=lowest, highest=highest)


def _times(default: Value) -> Parameter:
    return Parameter(kind="times", description="requests that each rule applies to", default=default, lowest=1)


GROUP = _glob("group id", "*")
TOPIC = _glob("name of the topic", "*")
CLIENT_ID = _glob("client id")
PARTITION = _integer("index of the partition; all if absent", None)
BROKER = _integer("id of the broker; all if absent", None)
TRANSACTIONAL_ID = _glob("transactional id", "*")
DELAY = _integer("milliseconds of the broker's clock", 500)
JITTER = _integer("upper bound of random milliseconds that are added", 100)


def _rule(values: Values, action: RuleForm, *, suffix: str = "", times: Value | None = None, **match: Any) -> RuleForm:
    """Return the JSON form of a rule of a preset.

    Args:
        values: Values of the preset's parameters. Parameters with the name of a condition become conditions of the
            rule.
        action: The action in JSON form.
        suffix: Suffix of the rule's name.
        times: Number of requests to which the rule is applied; None for the value of the parameter ``times``.
        match: Further conditions.
    """
    conditions = {key: values.get(key) for key in CONDITIONS} | match
    occurrence = {"times": values["times"] if times is None else times} | {
        key: values[key] for key in ("every",) if key in values
    }
    return {
        "name": f"{values['name']}-{suffix}" if suffix else values["name"],
        "match": {key: value for key, value in conditions.items() if value is not None},
        "occurrence": occurrence,
        "action": action,
    }


CONDITIONS = ("group", "topic", "partition", "client_id", "broker", "transactional_id")  # names that match has too


def _rebalance_storm(values: Values) -> list[RuleForm]:
    return [
        _rule(values, {"error": "REBALANCE_IN_PROGRESS"}, suffix="classic", api="Heartbeat"),
        _rule(values, {"error": "FENCED_MEMBER_EPOCH"}, suffix="consumer", api="ConsumerGroupHeartbeat"),
    ]


def _zombie_member(values: Values) -> list[RuleForm]:
    return [_rule(values, {"hold": True, "when": "before"}, api=["Heartbeat", "ConsumerGroupHeartbeat"])]


def _no_sync_group(values: Values) -> list[RuleForm]:
    return [_rule(values, {"hold": True, "when": "before"}, api="SyncGroup")]


def _commit_gap(values: Values) -> list[RuleForm]:
    return [_rule(values, {"disconnect": "after"}, api=["OffsetCommit", "TxnOffsetCommit"])]


def _coordinator_loading(values: Values) -> list[RuleForm]:
    return [_rule(values, {"error": "COORDINATOR_LOAD_IN_PROGRESS"}, api=[*GROUP_APIS])]


def _poison_batch(values: Values) -> list[RuleForm]:
    return [_rule(values, {"malform": values["form"]}, api="Fetch")]


def _duplicate_records(values: Values) -> list[RuleForm]:
    return [_rule(values, {"malform": "duplicate_records", "count": values["count"]}, api="Fetch")]


def _corrupted_values(values: Values) -> list[RuleForm]:
    return [_rule(values, {"malform": "corrupt_values"}, api="Fetch")]


def _invalid_schema_id(values: Values) -> list[RuleForm]:
    return [_rule(values, {"malform": "schema_id", "id": values["id"]}, api="Fetch")]


def _fenced_leader_epoch(values: Values) -> list[RuleForm]:
    return [_rule(values, {"error": "FENCED_LEADER_EPOCH"}, api=["Fetch", "ListOffsets", "OffsetForLeaderEpoch"])]


def _leader_election(values: Values) -> list[RuleForm]:
    return [
        _rule(values, {"error": "NOT_LEADER_OR_FOLLOWER"}, suffix="leader", api=[*LEADER_APIS]),
        _rule(values, {"error": "LEADER_NOT_AVAILABLE"}, suffix="metadata", api="Metadata"),
    ]


def _transaction_coordinator_lost(values: Values) -> list[RuleForm]:
    return [
        _rule(values, {"disconnect": values["point"]}, suffix="disconnect", times=1, api="EndTxn"),
        _rule(values, {"error": "NOT_COORDINATOR"}, suffix="moved", api="EndTxn"),
    ]


def _throttled_producer(values: Values) -> list[RuleForm]:
    return [_rule(values, {"throttle_ms": values["throttle_ms"]}, api="Produce")]


def _broken_broker(values: Values) -> list[RuleForm]:
    return [_rule(values, {"error": "UNKNOWN_SERVER_ERROR"})]


def _delay(values: Values, **match: Any) -> list[RuleForm]:
    return [_rule(values, {"delay_ms": values["delay_ms"], "jitter_ms": values["jitter_ms"]}, **match)]


def _slow_producer(values: Values) -> list[RuleForm]:
    return _delay(values, api="Produce")


def _slow_consumer(values: Values) -> list[RuleForm]:
    return _delay(values, api="Fetch")


def _blackholed_client(values: Values) -> list[RuleForm]:
    return [_rule(values, {"no_response": True, "when": "before"})]


def _rolling_restart(values: Values, brokers: Sequence[int]) -> list[Phase]:
    down, pause = values["down_ms"], values["pause_ms"]
    starts = [number * (down + pause) for number in range(len(brokers))]
    return [Phase(StopBroker(node), at, at + down) for node, at in zip(brokers, starts, strict=True)]


def _stale_metadata(values: Values, _: Sequence[int]) -> list[Phase]:
    return [Phase(FreezeMetadata(values["broker"], values["topic"]), 0, values[DURATION])]


def _unclean_leader_election(values: Values, _: Sequence[int]) -> list[Phase]:
    return [Phase(LoseRecords(values["topic"], values["partition"], values["records"]))]


def _preset(
    name: str,
    description: str,
    build: Callable[[Values], list[RuleForm]] = no_rules,
    phases: Callable[[Values, Sequence[int]], list[Phase]] = no_phases,
    *,
    duration: Parameter | None = None,
    **parameters: Parameter,
) -> Preset:
    own_name = Parameter(kind="name", description="name of the rule, or the start of the names", default=name)
    if build is not no_rules:
        duration = duration or _integer("after so many milliseconds the rules apply no more", None, 1)
    if duration is not None:
        parameters[DURATION] = duration
    return Preset(
        name=name, description=description, parameters={**parameters, "name": own_name}, build=build, phases=phases
    )


_ALL = [
    _preset(
        "rebalance-storm",
        "heartbeats are answered with REBALANCE_IN_PROGRESS, in groups of the consumer protocol with "
        "FENCED_MEMBER_EPOCH: the members rejoin repeatedly",
        _rebalance_storm,
        group=GROUP,
        every=_integer("of the heartbeats, every n-th is answered with the error", 1, 1),
        times=_times(10),
    ),
    _preset(
        "zombie-member",
        "a heartbeat of a member is held, and with it all that follows on the connection, until its session has "
        "expired; release the rule, and its commits arrive late",
        _zombie_member,
        client_id=_glob("client id of the member", required=True),
        group=GROUP,
        times=_times(1),
    ),
    _preset(
        "no-sync-group",
        "SyncGroup is held, as if the member never sent it",
        _no_sync_group,
        group=GROUP,
        client_id=CLIENT_ID,
        times=_times(1),
    ),
    _preset(
        "commit-gap",
        "commits are stored, but the connection is closed in place of the response",
        _commit_gap,
        group=GROUP,
        times=_times(1),
    ),
    _preset(
        "coordinator-loading",
        "requests of group members are answered with COORDINATOR_LOAD_IN_PROGRESS",
        _coordinator_loading,
        group=GROUP,
        times=_times(ALWAYS),
        duration=_integer("milliseconds until the coordinator has loaded the groups", 10_000, 1),
    ),
    _preset(
        "poison-batch",
        "the first batch of a Fetch response is malformed",
        _poison_batch,
        topic=TOPIC,
        partition=PARTITION,
        form=Parameter(
            kind="choice",
            description="form of `malform`",
            default="crc",
            options=("crc", "magic", "record_count", "decompression_bomb"),
        ),
        times=_times(ALWAYS),
    ),
    _preset(
        "duplicate-records",
        "Fetch responses have their batches more than once, with the same offsets",
        _duplicate_records,
        topic=TOPIC,
        partition=PARTITION,
        count=_integer("how many times more", 1, 1, 1_000),
        times=_times(ALWAYS),
    ),
    _preset(
        "corrupted-values",
        "the values of fetched records are changed, with a valid CRC",
        _corrupted_values,
        topic=TOPIC,
        partition=PARTITION,
        times=_times(ALWAYS),
    ),
    _preset(
        "invalid-schema-id",
        "the values of fetched records begin with magic byte 0 and the id of a schema that does not exist",
        _invalid_schema_id,
        topic=TOPIC,
        partition=PARTITION,
        id=_integer("schema id", INT32_MAX),
        times=_times(ALWAYS),
    ),
    _preset(
        "fenced-leader-epoch",
        "Fetch, ListOffsets and OffsetForLeaderEpoch are answered with FENCED_LEADER_EPOCH",
        _fenced_leader_epoch,
        topic=TOPIC,
        partition=PARTITION,
        times=_times(3),
    ),
    _preset(
        "leader-election",
        "Produce, Fetch and ListOffsets are answered with NOT_LEADER_OR_FOLLOWER, Metadata with LEADER_NOT_AVAILABLE",
        _leader_election,
        topic=TOPIC,
        times=_times(5),
    ),
    _preset(
        "transaction-coordinator-lost-at-end-txn",
        "the connection is closed at EndTxn, and the next EndTxn is answered with NOT_COORDINATOR",
        _transaction_coordinator_lost,
        transactional_id=TRANSACTIONAL_ID,
        point=Parameter(
            kind="choice",
            description="whether the first EndTxn is lost before it is processed, or its response after that",
            default="after",
            options=("before", "after"),
        ),
        times=_times(1),
    ),
    _preset(
        "throttled-producer",
        "producers are throttled, as by a quota",
        _throttled_producer,
        client_id=CLIENT_ID,
        throttle_ms=_integer("milliseconds of each throttle", 1_000),
        times=_times(ALWAYS),
    ),
    _preset(
        "broken-broker",
        "every request to a broker is answered with UNKNOWN_SERVER_ERROR",
        _broken_broker,
        broker=BROKER,
        times=_times(ALWAYS),
    ),
    _preset("latency", "every request is delayed", _delay, delay_ms=DELAY, jitter_ms=JITTER, times=_times(ALWAYS)),
    _preset(
        "slow-broker",
        "every request to a broker is delayed",
        _delay,
        broker=Parameter(kind="integer", description="id of the broker", required=True),
        delay_ms=DELAY,
        jitter_ms=JITTER,
        times=_times(ALWAYS),
    ),
    _preset(
        "slow-producer",
        "Produce requests are delayed",
        _slow_producer,
        topic=TOPIC,
        delay_ms=DELAY,
        jitter_ms=JITTER,
        times=_times(ALWAYS),
    ),
    _preset(
        "slow-consumer",
        "Fetch requests are delayed",
        _slow_consumer,
        topic=TOPIC,
        delay_ms=DELAY,
        jitter_ms=JITTER,
        times=_times(ALWAYS),
    ),
    _preset(
        "blackholed-client",
        "requests of a client are not processed, and nothing is answered on its connections",
        _blackholed_client,
        client_id=_glob("client id", required=True),
        times=_times(ALWAYS),
    ),
    _preset(
        "rolling-restart",
        "every broker is stopped and started again, one after the other, in the order of the ids",
        phases=_rolling_restart,
        down_ms=_integer("milliseconds for which a broker is stopped", 3_000, 1),
        pause_ms=_integer("milliseconds until the next broker is stopped", 2_000),
    ),
    _preset(
        "stale-metadata",
        "a broker returns outdated metadata: other replicas now lead its partitions, and clients get "
        "NOT_LEADER_OR_FOLLOWER until they ask another broker for metadata",
        phases=_stale_metadata,
        broker=_integer(
            "id of the broker; if absent, the leader of the first partition that has another replica", None
        ),
        topic=TOPIC,
        duration=_integer("after so many milliseconds the broker returns current metadata again", None, 1),
    ),
    _preset(
        "unclean-leader-election",
        "a partition gets a leader without the last records: the leader epoch increases, the end offset is lower",
        phases=_unclean_leader_election,
        topic=Parameter(kind="text", description="name of the topic", required=True),
        partition=_integer("index of the partition", 0),
        records=_integer("number of records that are lost, in whole batches", 1, 1),
    ),
]
PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in _ALL}
