"""Presets: each makes valid rules for all valid parameters, and has the promised effect in a cluster."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire import DecodeError, ErrorCode
from kwire import ErrorCode as E
from kwire.messages import APIS
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.records import Record, build_batch
from kwire.records.batch import batches
from kwire.records.compression import GZIP
from mockbroker import Cluster, ConnectionClosedError, InProcessConnection, open_cluster
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.matching import Lookups
from mockbroker.faults.parsing import parse_rule, rule_to_json, warnings
from mockbroker.faults.preset import LONGEST_NAME, FreezeMetadata, LoseRecords, Parameter, Phase, Preset, StopBroker
from mockbroker.faults.presets import PRESETS
from mockbroker.faults.rule import Delay, Disconnect, Error, Hold, Malform, NoResponse, Rule, Throttle
from mockbroker.faults.rules import Rules
from mockbroker.faults.sections import InvalidRule, Problem

REQUIRED: dict[str, dict[str, Any]] = {
    "zombie-member": {"client_id": "worker-1"},
    "slow-broker": {"broker": 2},
    "blackholed-client": {"client_id": "worker-1"},
    "unclean-leader-election": {"topic": "t"},
}
BROKERS = (1, 2, 3)


def rules_of(name: str, /, **parameters: Any) -> list[Rule]:
    """Return the parsed rules of a preset, with its required parameters."""
    forms = PRESETS[name].rules(REQUIRED.get(name, {}) | parameters)
    return [parse_rule(json.loads(json.dumps(form)), HANDLERS) for form in forms]


def only_rule(name: str, /, **parameters: Any) -> Rule:
    (rule,) = rules_of(name, **parameters)
    return rule


def problems(name: str, form: object) -> list[Problem]:
    with pytest.raises(InvalidRule) as caught:
        PRESETS[name].rules(form)
    return list(caught.value.problems)


EVERY_PRESET = pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS.keys())


def any_value(parameter: Parameter) -> st.SearchStrategy[Any]:
    integers = st.integers(parameter.lowest, parameter.highest) | st.sampled_from([parameter.lowest, parameter.highest])
    match parameter.kind:
        case "integer":
            return integers
        case "times":
            return integers | st.just("always")
        case "choice":
            return st.sampled_from(parameter.options)
        case "name":
            return st.from_regex(r"\A[A-Za-z0-9._-]{1,80}\Z")
        case "text":
            return st.text(st.characters(codec="utf-8"), max_size=20)
        case _:
            return st.text(st.characters(exclude_characters="\\", codec="utf-8"), max_size=20) | st.just("a\\*?*")


@EVERY_PRESET
@settings(max_examples=25)
@given(st.data())
def test_rules_of_any_valid_parameters_are_valid(preset: Preset, data: st.DataObject) -> None:
    form = {
        name: data.draw(any_value(parameter), label=name)
        for name, parameter in preset.parameters.items()
        if parameter.required or data.draw(st.booleans())
    }
    rules = [parse_rule(each, HANDLERS) for each in preset.rules(form)]
    phases = preset.phases(preset.values(form), BROKERS)
    assert rules or phases
    assert all(phase.ends_ms is None or phase.begins_ms < phase.ends_ms for phase in phases)
    assert len({rule.name for rule in rules}) == len(rules)
    conditions = {"group", "topic", "partition", "client_id", "broker", "transactional_id"}
    for rule in rules:
        assert rule.name.startswith(str(form.get("name", preset.name)))
        assert not warnings(rule) or isinstance(rule.action.effect, Error)
        assert {key: getattr(rule.match, key) for key in form if key in conditions} == {
            key: value for key, value in form.items() if key in conditions
        }
        assert parse_rule(rule_to_json(rule), HANDLERS) == rule


@EVERY_PRESET
def test_name_is_in_kebab_case(preset: Preset) -> None:
    assert preset.name == preset.name.lower()
    assert all(word.isalnum() for word in preset.name.split("-"))
    assert PRESETS[preset.name] is preset


@EVERY_PRESET
def test_default_is_a_valid_value(preset: Preset) -> None:
    defaults = {name: each.default for name, each in preset.parameters.items() if each.default is not None}
    given = REQUIRED.get(preset.name, {})
    assert preset.rules(given | defaults) == preset.rules(given)
    assert {name for name, each in preset.parameters.items() if each.required} == given.keys()


@pytest.mark.parametrize("preset", [each for each in PRESETS.values() if "times" in each.parameters])
def test_times_is_that_of_every_rule(preset: Preset) -> None:
    counted = [rule for rule in rules_of(preset.name, times=7) if not isinstance(rule.action.effect, Disconnect)]
    assert all(rule.occurrence.times == 7 for rule in counted)
    endless = [rule for rule in rules_of(preset.name, times="always") if rule not in rules_of(preset.name, times=7)]
    assert all(rule.occurrence.times is None for rule in endless)
    assert endless


WITH_ONE_RULE = [  # preset, its action, APIs for which it is tested; empty: all
    ("zombie-member", Hold(), {"Heartbeat", "ConsumerGroupHeartbeat"}),
    ("no-sync-group", Hold(), {"SyncGroup"}),
    ("commit-gap", Disconnect(disconnect="after"), {"OffsetCommit", "TxnOffsetCommit"}),
    ("poison-batch", Malform(malform="crc"), {"Fetch"}),
    ("duplicate-records", Malform(malform="duplicate_records", parameters={"count": 1}), {"Fetch"}),
    ("corrupted-values", Malform(malform="corrupt_values"), {"Fetch"}),
    ("invalid-schema-id", Malform(malform="schema_id", parameters={"id": 2_147_483_647}), {"Fetch"}),
    ("throttled-producer", Throttle(throttle_ms=1_000), {"Produce"}),
    ("fenced-leader-epoch", Error(error="FENCED_LEADER_EPOCH"), {"Fetch", "ListOffsets", "OffsetForLeaderEpoch"}),
    ("broken-broker", Error(error="UNKNOWN_SERVER_ERROR"), set()),
    ("blackholed-client", NoResponse(), set()),
]


@pytest.mark.parametrize(("name", "effect", "apis"), WITH_ONE_RULE, ids=[row[0] for row in WITH_ONE_RULE])
def test_action_of_a_preset(name: str, effect: object, apis: set[str]) -> None:
    rule = only_rule(name)
    assert (rule.name, rule.action.effect, set(rule.match.api)) == (name, effect, apis)


@pytest.mark.parametrize("name", ["latency", "slow-broker", "slow-producer", "slow-consumer"])
def test_delay_of_a_preset(name: str) -> None:
    assert only_rule(name).action.delay == Delay(delay_ms=500, jitter_ms=100)
    assert only_rule(name, delay_ms=5, jitter_ms=0).action.delay == Delay(delay_ms=5)
    assert only_rule("slow-broker").match.broker == 2
    assert only_rule("slow-producer", topic="t*").match.topic == "t*"


def test_rebalance_storm_is_for_both_protocols() -> None:
    classic, consumer = rules_of("rebalance-storm", group="billing", every=3)
    assert (classic.name, classic.match.api, classic.action.effect) == (
        "rebalance-storm-classic",
        ("Heartbeat",),
        Error(error="REBALANCE_IN_PROGRESS"),
    )
    assert (consumer.match.api, consumer.action.effect) == (
        ("ConsumerGroupHeartbeat",),
        Error(error="FENCED_MEMBER_EPOCH"),
    )
    assert all(rule.match.group == "billing" and rule.occurrence.every == 3 for rule in (classic, consumer))


def test_leader_election_has_the_errors_of_each_api() -> None:
    leader, metadata = rules_of("leader-election", topic="a")
    assert leader.action.effect == Error(error=ErrorCode.NOT_LEADER_OR_FOLLOWER.name)
    assert (metadata.match.api, metadata.action.effect) == (("Metadata",), Error(error="LEADER_NOT_AVAILABLE"))


def test_coordinator_loading_is_for_all_requests_of_members() -> None:
    rule = only_rule("coordinator-loading")
    members = {APIS[key].name for key in HANDLERS if APIS[key].name in rule.match.api}
    assert members == set(rule.match.api)
    assert rule.action.effect == Error(error="COORDINATOR_LOAD_IN_PROGRESS")
    assert rule.occurrence.times is None


def test_transaction_coordinator_is_lost_and_then_has_moved() -> None:
    lost, moved = rules_of("transaction-coordinator-lost-at-end-txn", point="before", times=4)
    assert (lost.action.effect, lost.occurrence.times) == (Disconnect(disconnect="before"), 1)
    assert (moved.action.effect, moved.occurrence.times) == (Error(error="NOT_COORDINATOR"), 4)


def phases_of(name: str, /, **parameters: Any) -> list[Phase]:
    preset = PRESETS[name]
    return preset.phases(preset.values(REQUIRED.get(name, {}) | parameters), BROKERS)


def test_rolling_restart_stops_one_broker_after_the_other() -> None:
    assert phases_of("rolling-restart", down_ms=10, pause_ms=5) == [
        Phase(StopBroker(1), 0, 10),
        Phase(StopBroker(2), 15, 25),
        Phase(StopBroker(3), 30, 40),
    ]


def test_stale_metadata_lasts_until_the_preset_ends() -> None:
    assert phases_of("stale-metadata") == [Phase(FreezeMetadata(None, "*"))]
    ending = phases_of("stale-metadata", broker=2, topic="a", duration_ms=50)
    assert ending == [Phase(FreezeMetadata(2, "a"), 0, 50)]


def test_unclean_leader_election_happens_at_once() -> None:
    phases = phases_of("unclean-leader-election", topic="a", partition=1, records=4)
    assert phases == [Phase(LoseRecords("a", 1, 4))]


def test_json_form_has_what_each_parameter_needs() -> None:
    form = PRESETS["poison-batch"].to_json()
    assert json.loads(json.dumps(form)) == form
    parameters = form["parameters"]
    assert parameters["form"]["options"] == ["crc", "magic", "record_count", "decompression_bomb"]
    assert parameters["partition"] == {
        "kind": "integer",
        "description": "index of the partition; all if absent",
        "required": False,
        "lowest": 0,
        "highest": 2_147_483_647,
    }
    assert PRESETS["slow-broker"].to_json()["parameters"]["broker"]["required"] is True


def added(name: str, /, **parameters: Any) -> Rules:
    rules = Rules()
    for rule in rules_of(name, **parameters):
        rules.add(rule)
    return rules


def applied(rules: Rules, request: Any, version: int, client_id: str = "worker-1") -> str:
    """Return the name of the rule that applies to a request, or ""."""
    key = next(key for key, api in APIS.items() if api.request is type(request))
    fault = rules.first(Call(Ticket(1, 5, key, version), Client(0, client_id, "/10.0.0.1"), request), Lookups())
    return "" if fault is None else fault.rule.name


def test_end_txn_is_lost_once_and_then_refused_once() -> None:
    rules = added("transaction-coordinator-lost-at-end-txn", name="lost")
    request = EndTxnRequest(transactional_id="t")
    assert [applied(rules, request, 3) for _ in range(3)] == ["lost-disconnect", "lost-moved", ""]


def test_storm_ends_after_ten_heartbeats() -> None:
    rules = added("rebalance-storm", name="storm")
    names = [applied(rules, HeartbeatRequest(group_id="g"), 4) for _ in range(11)]
    assert names == ["storm-classic"] * 10 + [""]
    assert applied(rules, ConsumerGroupHeartbeatRequest(group_id="g"), 0) == "storm-consumer"


def test_every_api_of_a_blackholed_client_is_matched() -> None:
    rules = added("blackholed-client", client_id="worker-*")
    for key in HANDLERS:
        request, version = APIS[key].request(), APIS[key].versions.first
        assert applied(rules, request, version) == "blackholed-client"
        assert applied(rules, request, version, client_id="other") == ""


REFUSED = [  # preset, parameters, path, detail, possible
    ("rebalance-storm", {"times": 0}, "times", "0 is out of range (1 to 2147483647)", ()),
    ("rebalance-storm", {"times": "ever"}, "times", "expected an integer or 'always'", ("always",)),
    ("rebalance-storm", {"times": None}, "times", "expected an integer, got None", ()),
    ("rebalance-storm", {"grup": "a"}, "grup", "unknown key", ("group",)),
    ("rebalance-storm", {"group": 1}, "group", "expected a string, got 1", ()),
    (
        "rebalance-storm",
        {"name": "a b"},
        "name",
        "'a b' is not a valid name: use 1 to 80 of the characters A-Z a-z 0-9 . _ -",
        (),
    ),
    ("zombie-member", {}, "client_id", "this parameter is required", ()),
    ("slow-broker", {"broker": "1"}, "broker", "expected an integer, got '1'", ()),
    ("poison-batch", {"form": "length"}, "form", "unknown value 'length'", ("crc", "magic", "record_count", "decompression_bomb")),
    ("duplicate-records", {"count": 1_001}, "count", "1001 is out of range (1 to 1000)", ()),
    ("latency", [], "", "expected an object, got []", ()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "form", "path", "detail", "possible"), REFUSED)
def test_invalid_parameters_are_refused(name: str, form: Any, path: str, detail: str, possible: Any) -> None:
    assert problems(name, form) == [Problem(path, detail, possible)]


def test_all_invalid_parameters_are_reported() -> None:
    found = problems("slow-broker", {"delay_ms": -1, "times": [], "x" * 3: 1})
    assert [problem.path for problem in found] == ["broker", "delay_ms", "times", "xxx"]


def test_longest_name_leaves_room_for_suffixes() -> None:
    for name in PRESETS:
        assert all(len(rule.name) <= 100 for rule in rules_of(name, name="n" * LONGEST_NAME))
    assert [problem.path for problem in problems("latency", {"name": "n" * (LONGEST_NAME + 1)})] == ["name"]


# --- the effect of each preset in a cluster ---


@asynccontextmanager
async def opened(preset: str, /, **parameters: Any) -> AsyncIterator[Cluster]:
    """Open a cluster of three brokers with a stopped clock, a record in ``t``, and a preset."""
    settings = {
        "mockbroker.join.settle.ms": 0,
        "group.initial.rebalance.delay.ms": 0,
        "default.replication.factor": 3,
        "transaction.state.log.replication.factor": 3,
    }
    async with open_cluster(brokers=3, topics={"t": 1}, clock="manual", config=settings) as cluster:
        cluster.produce("t", ["value"])
        cluster.faults.add_preset(preset, REQUIRED.get(preset, {}) | parameters)
        yield cluster


def leader(cluster: Cluster) -> int:
    partition = cluster._router.broker.cluster.partition("t", 0)
    assert partition is not None
    return partition.leader


def leaders_of(cluster: Cluster, topic: str) -> list[int]:
    return [each.leader for each in cluster._router.broker.cluster.topics[topic].partitions]


def coordinator(cluster: Cluster, client_id: str = "worker-1") -> InProcessConnection:
    return cluster.connect(cluster.coordinator("g"), client_id)


async def heartbeat(cluster: Cluster, member_id: str = "m") -> ErrorCode:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    return ErrorCode((await coordinator(cluster).ask(request)).error_code)


async def joined(connection: InProcessConnection) -> str:
    """Join the group as its only member, which is then in CompletingRebalance; return the member id."""
    protocol = JoinGroupRequest.Protocol(name="range")
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocols=[protocol],
        protocol_type="consumer",
    )
    member_id: str = (await connection.ask(join, 3)).member_id
    return member_id


async def fetched(cluster: Cluster) -> Any:
    partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=100_000)
    topics = [FetchRequest.Topic(topic="t", partitions=[partition])]
    request = FetchRequest(max_bytes=100_000, session_epoch=-1, topics=topics)
    return (await cluster.connect(leader(cluster)).ask(request, 12)).responses[0].partitions[0]


async def values(cluster: Cluster) -> list[bytes | None]:
    records = (await fetched(cluster)).records
    return [record.value for batch in batches(records) for record in batch.records()]


def produce_request() -> ProduceRequest:
    partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
    topic = ProduceRequest.Topic(name="t", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])


def commit(member_id: str = "", generation: int = -1) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequest.Topic(name="t", partitions=[partition])
    return OffsetCommitRequest(
        group_id="g", member_id=member_id, generation_id_or_member_epoch=generation, topics=[topic]
    )


async def test_storm_makes_members_join_again() -> None:
    async with opened("rebalance-storm", times=2) as cluster:
        errors = [await heartbeat(cluster) for _ in range(3)]
        assert errors == [E.REBALANCE_IN_PROGRESS, E.REBALANCE_IN_PROGRESS, E.UNKNOWN_MEMBER_ID]


async def test_zombie_is_evicted_and_its_commit_is_refused() -> None:
    async with opened("zombie-member", duration_ms=20_000) as cluster, trio.open_nursery() as nursery:
        connection = coordinator(cluster)
        member_id = await joined(connection)
        plan = [SyncGroupRequest.Assignment(member_id=member_id, assignment=b"")]
        sync = SyncGroupRequest(
            group_id="g",
            generation_id=1,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=plan,
        )
        assert (await connection.ask(sync)).error_code == E.NONE
        assert cluster.groups()["g"].state == "Stable"
        answers: list[Any] = []

        async def ask(request: Any, version: int) -> None:
            answers.append(await connection.ask(request, version))

        nursery.start_soon(ask, HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id), 3)
        await trio.testing.wait_all_tasks_blocked()
        await cluster.clock.advance(19.0)
        assert (answers, cluster.groups()["g"].state) == ([], "Empty")
        await cluster.clock.advance(1.0)
        await trio.testing.wait_all_tasks_blocked()
        assert answers[0].error_code == E.UNKNOWN_MEMBER_ID
        late = await connection.ask(commit(member_id, 1), 8)
        assert late.topics[0].partitions[0].error_code == E.UNKNOWN_MEMBER_ID
        assert cluster.committed("g") == {}


async def test_group_without_sync_group_stays_in_completing_rebalance() -> None:
    async with opened("no-sync-group") as cluster, trio.open_nursery() as nursery:
        connection = coordinator(cluster)
        member_id = await joined(connection)
        nursery.start_soon(connection.ask, SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id))
        await trio.testing.wait_all_tasks_blocked()
        assert cluster.groups()["g"].state == "CompletingRebalance"
        await cluster.clock.advance(10.0)
        assert cluster.groups()["g"].state == "Empty"
        cluster.faults.remove("no-sync-group")


async def test_commit_is_stored_although_the_client_gets_no_response() -> None:
    async with opened("commit-gap") as cluster:
        with pytest.raises(ConnectionClosedError, match="commit-gap"):
            await coordinator(cluster).ask(commit(), 8)
        assert cluster.committed("g") == {("t", 0): 1}


async def test_coordinator_loads_for_ten_seconds() -> None:
    async with opened("coordinator-loading") as cluster:
        await cluster.clock.advance(9.9)
        assert await heartbeat(cluster) == E.COORDINATOR_LOAD_IN_PROGRESS
        await cluster.clock.advance(0.1)
        assert await heartbeat(cluster) == E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("form", ["crc", "magic", "record_count", "decompression_bomb"])
async def test_poisoned_batch(form: str) -> None:
    async with opened("poison-batch", form=form) as cluster:
        data = (await fetched(cluster)).records
        if form == "decompression_bomb":
            (bomb,) = batches(data)
            assert (bomb.codec, bomb.count, len(data) > 50_000) == (GZIP, 1, True)
        else:
            with pytest.raises(DecodeError):
                list(next(iter(batches(data))).records())


CHANGED_VALUES = [
    ("duplicate-records", [b"value", b"value"]),
    ("corrupted-values", [bytes(byte ^ 0xFF for byte in b"value")]),
    ("invalid-schema-id", [b"\0\x7f\xff\xff\xffvalue"]),
]


@pytest.mark.parametrize(("preset", "expected"), CHANGED_VALUES, ids=[row[0] for row in CHANGED_VALUES])
async def test_values_that_a_consumer_reads(preset: str, expected: list[bytes]) -> None:
    async with opened(preset) as cluster:
        assert await values(cluster) == expected


async def test_fetch_is_fenced_by_its_leader_epoch() -> None:
    async with opened("fenced-leader-epoch") as cluster:
        errors = [(await fetched(cluster)).error_code for _ in range(4)]
        assert errors == [E.FENCED_LEADER_EPOCH] * 3 + [E.NONE]


async def test_no_leader_during_an_election() -> None:
    async with opened("leader-election", times=1) as cluster:
        connection = cluster.connect(leader(cluster))
        produced = await connection.ask(produce_request(), 8)
        assert produced.responses[0].partition_responses[0].error_code == E.NOT_LEADER_OR_FOLLOWER
        metadata = MetadataRequest(topics=[MetadataRequest.Topic(name="t")])
        assert (await connection.ask(metadata, 9)).topics[0].error_code == E.LEADER_NOT_AVAILABLE
        assert (await connection.ask(metadata, 9)).topics[0].error_code == E.NONE
        assert await values(cluster) == [b"value"]


async def test_transaction_coordinator_is_lost_at_the_end() -> None:
    async with opened("transaction-coordinator-lost-at-end-txn") as cluster:
        found = await cluster.connect().ask(FindCoordinatorRequest(coordinator_keys=["x"], key_type=1), 4)
        connection = cluster.connect(found.coordinators[0].node_id)
        producer = await connection.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 2)
        ids = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        topic = Topic(name="t", partitions=[0])
        await connection.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=ids["producer_id"],
                v3_and_below_producer_epoch=ids["producer_epoch"],
                v3_and_below_topics=[topic],
            ),
            3,
        )
        end = EndTxnRequest(transactional_id="x", committed=True, **ids)
        with pytest.raises(ConnectionClosedError):
            await connection.ask(end, 3)
        assert cluster.transactions()["x"].state == "CompleteCommit"  # only the response was lost
        connection = cluster.connect(found.coordinators[0].node_id)
        assert (await connection.ask(end, 3)).error_code == E.NOT_COORDINATOR
        assert (await connection.ask(end, 3)).error_code == E.NONE


async def test_producer_is_told_to_wait() -> None:
    async with opened("throttled-producer", throttle_ms=700) as cluster:
        connection = cluster.connect(leader(cluster))
        assert (await connection.ask(produce_request(), 8)).throttle_time_ms == 700
        assert len(cluster.records("t")) == 2


async def test_broken_broker_answers_with_errors() -> None:
    async with opened("broken-broker", broker=1) as cluster:
        metadata = MetadataRequest(topics=[MetadataRequest.Topic(name="t")])
        assert (await cluster.connect(1).ask(metadata, 9)).topics[0].error_code == E.UNKNOWN_SERVER_ERROR
        assert (await cluster.connect(2).ask(metadata, 9)).topics[0].error_code == E.NONE


DELAYED = [  # preset, parameters, whether Metadata is delayed, whether Produce is delayed
    ("latency", {}, True, True),
    ("slow-broker", {"broker": 0}, True, True),
    ("slow-broker", {"broker": 1}, False, False),
    ("slow-producer", {"topic": "t"}, False, True),
    ("slow-producer", {"topic": "other"}, False, False),
]


@pytest.mark.parametrize(("preset", "parameters", "metadata", "produce"), DELAYED)
async def test_delayed_requests(preset: str, parameters: dict[str, Any], metadata: bool, produce: bool) -> None:
    async with opened(preset, delay_ms=2_000, jitter_ms=0, **parameters) as cluster, trio.open_nursery() as nursery:
        cluster.move_leader("t", 0, 0)
        answered: list[str] = []

        async def ask(request: Any, version: int) -> None:
            await cluster.connect(0).ask(request, version)
            answered.append(type(request).__name__)

        nursery.start_soon(ask, MetadataRequest(topics=None), 9)
        nursery.start_soon(ask, produce_request(), 8)
        await trio.testing.wait_all_tasks_blocked()
        await cluster.clock.advance(1.999)
        at_once = [("MetadataRequest", metadata), ("ProduceRequest", produce)]
        assert sorted(answered) == [name for name, delayed in at_once if not delayed]
        await cluster.clock.advance(0.001)


async def test_fetch_of_a_slow_consumer_is_delayed() -> None:
    async with opened("slow-consumer", delay_ms=2_000, jitter_ms=0) as cluster, trio.open_nursery() as nursery:
        found: list[Any] = []

        async def read() -> None:
            found.extend(await values(cluster))

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        assert found == []
        await cluster.clock.advance(2.0)
        await trio.testing.wait_all_tasks_blocked()
        assert found == [b"value"]


async def test_blackholed_client_gets_no_response() -> None:
    async with opened("blackholed-client") as cluster:
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        with trio.move_on_after(0.05) as scope:
            await coordinator(cluster, "worker-1").ask(request)
        assert scope.cancelled_caught
        assert (await coordinator(cluster, "worker-2").ask(request)).error_code == E.UNKNOWN_MEMBER_ID


async def test_brokers_restart_one_after_the_other() -> None:
    async with opened("rolling-restart", down_ms=1_000, pause_ms=500) as cluster:

        def running() -> list[int]:
            return sorted(cluster._router.broker.cluster.nodes)

        found = [running()]
        for _ in range(9):
            await cluster.clock.advance(0.5)
            found.append(running())
        all_of_them = [0, 1, 2]
        assert found == [
            [1, 2], [1, 2], all_of_them, [0, 2], [0, 2], all_of_them, [0, 1], [0, 1], all_of_them, all_of_them
        ]  # fmt: skip
        assert await values(cluster) == [b"value"]


async def test_brokers_with_different_metadata() -> None:
    async with opened("stale-metadata", duration_ms=1_000) as cluster:

        async def leaders() -> list[int]:
            metadata = MetadataRequest(topics=[MetadataRequest.Topic(name="t")])
            answers = [await cluster.connect(node).ask(metadata, 9) for node in range(3)]
            return [answer.topics[0].partitions[0].leader_id for answer in answers]

        found, now = await leaders(), leader(cluster)
        assert [each == now for each in found].count(False) == 1
        (stale,) = {*found} - {now}
        assert found[stale] == stale, "the former leader still reports itself"
        await cluster.clock.advance(1.0)
        assert await leaders() == [now] * 3


async def test_only_the_stale_broker_loses_partitions() -> None:
    async with opened("latency") as cluster:
        cluster.create_topic("other", partitions=6)
        before = leaders_of(cluster, "other")
        cluster.faults.preset("stale-metadata", broker=2, topic="o*")
        after = leaders_of(cluster, "other")
        assert (2 in before, 2 in after) == (True, False)
        assert [new for new, old in zip(after, before, strict=True) if old != 2] == [old for old in before if old != 2]


async def test_a_partition_with_one_replica_keeps_its_leader() -> None:
    async with open_cluster(brokers=3, topics={"single": 3}, clock="manual") as cluster:
        before = leaders_of(cluster, "single")
        cluster.faults.preset("stale-metadata")
        assert leaders_of(cluster, "single") == before


async def test_unclean_leader_has_a_lower_end_offset() -> None:
    async with opened("latency") as cluster:
        cluster.produce("t", ["a"])
        before = leader(cluster)
        cluster.faults.preset("unclean-leader-election", topic="t")
        assert leader(cluster) != before
        assert [record.value for record in cluster.records("t")] == [b"value"]
        assert cluster.produce("t", ["b"]) == [1]
