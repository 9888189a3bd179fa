"""``cluster.faults`` of the two handles, for trio and for threads."""

from __future__ import annotations

import asyncio
from typing import get_args, get_type_hints

import pytest
import trio

from kwire import APIS, ErrorCode
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker import WaitTimeoutError, open_cluster, run_cluster
from mockbroker.api.fault_names import ApiName, ErrorName, MalformName, PresetName
from mockbroker.api.fault_options import PresetParameters, RuleOptions, rule_form
from mockbroker.api.faults import UnknownFaultError, UnknownPresetError
from mockbroker.api.records import UnknownTopicError
from mockbroker.base.errors import FaultRuleError
from mockbroker.broker.failover import FailoverError
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.malformed import FORMS
from mockbroker.faults.parsing import parse_rule, rule_to_json
from mockbroker.faults.presets import PRESETS
from mockbroker.faults.rules import RuleExists

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_names_are_those_that_are_served() -> None:
    assert set(get_args(ApiName)) == {APIS[key].name for key in HANDLERS}
    assert set(get_args(ErrorName)) == {code.name for code in ErrorCode} - {"NONE"}
    assert set(get_args(MalformName)) == set(FORMS)
    assert get_args(PresetName) == tuple(PRESETS)
    parameters = {name for preset in PRESETS.values() for name in preset.parameters}
    assert set(get_type_hints(PresetParameters)) == parameters


def test_every_option_belongs_to_a_section_of_the_rule() -> None:
    values = {"parameters": {"value": 1}, "name": "n"}
    for option in set(get_type_hints(RuleOptions)) - {"optional"}:
        form = rule_form({option: values.get(option, 1)})
        if option == "name":
            assert form["name"] == "n"
        else:
            assert sum(bool(form[section]) for section in ("match", "occurrence", "action")) == 1, option


def test_options_are_the_json_form() -> None:
    options = {"api": ("Heartbeat", "SyncGroup"), "group": "g*", "times": 2, "error": "REBALANCE_IN_PROGRESS"}
    assert rule_to_json(parse_rule(rule_form({**options, "name": "n"}))) == {
        "name": "n",
        "match": {"api": ["Heartbeat", "SyncGroup"], "group": "g*"},
        "occurrence": {"times": 2},
        "action": {"error": "REBALANCE_IN_PROGRESS"},
    }


async def test_state_is_the_rule_with_its_counters() -> None:
    async with open_cluster() as cluster:
        fault = cluster.faults.error("Heartbeat", "REBALANCE_IN_PROGRESS", name="busy", times=3)
        await cluster.connect().ask(HEARTBEAT)
        assert fault.state.to_json() == {
            "name": "busy",
            "match": {"api": "Heartbeat"},
            "occurrence": {"times": 3},
            "action": {"error": "REBALANCE_IN_PROGRESS"},
            "matched": 1,
            "applied": 1,
            "holding": 0,
            "exhausted": False,
            "warnings": [],
        }


async def test_name_that_exists_is_refused_by_add_and_replaced_by_put() -> None:
    async with open_cluster() as cluster:
        first = cluster.faults.error("Heartbeat", "REBALANCE_IN_PROGRESS", name="a")
        cluster.faults.error("Heartbeat", "UNKNOWN_MEMBER_ID", name="b")
        await cluster.connect().ask(HEARTBEAT)
        with pytest.raises(RuleExists, match="the rule a already exists"):
            cluster.faults.hold("Heartbeat", name="a")
        cluster.faults.put_rule("a", {"match": {"api": "Heartbeat"}, "action": {"error": "ILLEGAL_GENERATION"}})
        assert [state.name for state in cluster.faults.states()] == ["a", "b"]
        assert first.applied == 0
        assert (await cluster.connect().ask(HEARTBEAT)).error_code == ErrorCode.ILLEGAL_GENERATION


async def test_a_negative_number_of_released_requests_is_rejected() -> None:
    async with open_cluster() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.hold("Heartbeat", times="always")
        for _ in range(2):
            nursery.start_soon(cluster.connect().ask, HEARTBEAT)
        await fault.wait_holding(count=2)
        with pytest.raises(ValueError, match=r"count is -1: use an integer of at least 0"):
            fault.release(-1)
        assert (fault.holding, fault.release()) == (2, 2)


async def test_put_releases_what_the_old_rule_holds() -> None:
    async with open_cluster() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.hold("Heartbeat", name="a")
        nursery.start_soon(cluster.connect().ask, HEARTBEAT)
        await fault.wait_holding()
        cluster.faults.put_rule("a", {"match": {"api": "SyncGroup"}, "action": {"hold": True}})


async def test_rule_that_was_never_applied_is_unused_unless_optional() -> None:
    async with open_cluster() as cluster:
        cluster.faults.error("Heartbeat", "REBALANCE_IN_PROGRESS", name="used")
        cluster.faults.error("SyncGroup", "REBALANCE_IN_PROGRESS", name="unused")
        cluster.faults.error("LeaveGroup", "UNKNOWN_MEMBER_ID", name="optional", optional=True)
        cluster.faults.error("LeaveGroup", "UNKNOWN_MEMBER_ID", name="removed").remove()
        await cluster.connect().ask(HEARTBEAT)
        assert {state.name for state in cluster.faults.unused()} == {"unused", "removed"}


async def test_initial_rules_are_restored_by_reset() -> None:
    given = [
        {"api": "Heartbeat", "error": "REBALANCE_IN_PROGRESS"},
        {"name": "gate", "match": {"api": "SyncGroup"}, "action": {"hold": True}, "optional": True},
    ]
    async with open_cluster(faults=given) as cluster:
        assert [state.name for state in cluster.faults.states()] == ["fault-1", "gate"]
        await cluster.connect().ask(HEARTBEAT)
        assert cluster.faults.state("fault-1").exhausted
        cluster.faults.remove()
        cluster.faults.hold("LeaveGroup")
        cluster.reset()
        assert [(state.name, state.applied) for state in cluster.faults.states()] == [("fault-1", 0), ("gate", 0)]
        assert [state.name for state in cluster.faults.unused()] == ["fault-1"]


async def test_remove_takes_a_glob() -> None:
    async with open_cluster() as cluster:
        for name in ("t1-a", "t1-b", "t2"):
            cluster.faults.hold("Heartbeat", name=name)
        assert cluster.faults.remove("t1-*") == ["t1-a", "t1-b"]
        assert [state.name for state in cluster.faults.states()] == ["t2"]


async def test_wait_reports_the_rule_when_it_times_out() -> None:
    async with open_cluster() as cluster:
        fault = cluster.faults.hold("Heartbeat", name="gate")
        with pytest.raises(
            WaitTimeoutError, match=r"waiting for fault rule gate to be applied 1 times: it has matched 0"
        ):
            await fault.wait_applied(0.01)
        fault.remove()
        with pytest.raises(UnknownFaultError):
            await fault.wait_applied(0.01)


def test_thread_handle_has_the_same_operations() -> None:
    with run_cluster() as cluster:
        with cluster.faults.add(on="connect", delay_ms=1, optional=True) as fault:
            assert (fault.matched, fault.applied, fault.holding, fault.exhausted) == (0, 0, 0, False)
            with pytest.raises(WaitTimeoutError, match="to hold 1 requests"):
                fault.wait_holding(0.01)
            with pytest.raises(WaitTimeoutError):
                asyncio.run(fault.wait_applied_async(0.01))
            with pytest.raises(WaitTimeoutError):
                asyncio.run(fault.wait_holding_async(0.01))
        with pytest.raises(UnknownFaultError):
            fault.release()


def test_error_of_the_caller_has_no_traceback_of_the_broker() -> None:
    with run_cluster() as cluster, pytest.raises(FaultRuleError, match="possible: REBALANCE_IN_PROGRESS") as raised:
        cluster.faults.add(api="Heartbeat", error="REBALANCE")  # type: ignore[typeddict-item]
    assert all("/faults/" not in str(entry.path) for entry in raised.traceback)


async def test_preset_adds_its_rules() -> None:
    async with open_cluster() as cluster:
        names = cluster.faults.preset("rebalance-storm", name="storm", group="g", times=2)
        assert names == ["storm-classic", "storm-consumer"]
        assert [state.name for state in cluster.faults.states()] == names
        assert [preset.name for preset in cluster.faults.presets()] == list(PRESETS)


def test_preset_on_the_thread_handle() -> None:
    with run_cluster() as cluster:
        assert cluster.faults.preset("latency", delay_ms=1) == ["latency"]
        assert cluster.faults.presets()[0].name == "rebalance-storm"
        assert cluster.faults.remove("latency") == ["latency"]


async def test_preset_is_applied_completely_or_not_at_all() -> None:
    async with open_cluster() as cluster:
        cluster.faults.hold("Heartbeat", name="leader-election-metadata")
        with pytest.raises(RuleExists, match="the rule leader-election-metadata already exists"):
            cluster.faults.preset("leader-election")
        with pytest.raises(FaultRuleError, match="topic: this parameter is required"):
            cluster.faults.preset("unclean-leader-election")
        with pytest.raises(UnknownTopicError):
            cluster.faults.preset("unclean-leader-election", topic="nope")
        with pytest.raises(UnknownPresetError, match="preset nope does not exist"):
            cluster.faults.preset("nope")  # type: ignore[arg-type]
        assert [state.name for state in cluster.faults.states()] == ["leader-election-metadata"]


async def test_preset_needs_a_name_of_its_own() -> None:
    async with open_cluster(topics={"t": 1}) as cluster:
        cluster.faults.preset("stale-metadata")
        with pytest.raises(RuleExists, match="the preset stale-metadata is already active"):
            cluster.faults.preset("stale-metadata")
        cluster.faults.preset("stale-metadata", name="second")


async def test_preset_is_used_if_one_of_its_rules_was_applied() -> None:
    async with open_cluster() as cluster:
        cluster.faults.preset("rebalance-storm", name="used")
        cluster.faults.preset("rebalance-storm", name="optional", group="other", optional=True)
        cluster.faults.preset("commit-gap", name="unused")
        await cluster.connect().ask(HEARTBEAT)
        assert [state.name for state in cluster.faults.unused()] == ["unused"]
        cluster.faults.remove("*")
        assert [state.name for state in cluster.faults.unused()] == ["unused"]


async def test_name_of_a_preset_removes_all_its_rules() -> None:
    async with open_cluster() as cluster:
        cluster.faults.preset("leader-election")
        assert cluster.faults.remove("leader-election") == ["leader-election-leader", "leader-election-metadata"]
        cluster.faults.preset("leader-election")
        for name in ("leader-election-leader", "leader-election-metadata"):
            cluster.faults.remove(name)
        cluster.faults.preset("leader-election")  # the name can be used again


async def test_rules_of_a_preset_end_after_its_duration() -> None:
    async with open_cluster(clock="manual") as cluster:
        (name,) = cluster.faults.preset("coordinator-loading")
        connection = cluster.connect()
        assert (await connection.ask(HEARTBEAT)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await cluster.clock.advance(9.999)
        assert not cluster.faults.state(name).exhausted
        await cluster.clock.advance(0.001)
        assert (await connection.ask(HEARTBEAT)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        state = cluster.faults.state(name)
        assert (state.applied, state.exhausted) == (1, True)


async def test_reset_forgets_presets() -> None:
    async with open_cluster(brokers=2, clock="manual") as cluster:
        cluster.faults.preset("rolling-restart")
        cluster.reset()
        await cluster.clock.advance(60.0)
        assert cluster.events() == []
        cluster.faults.preset("rolling-restart")


async def test_removed_preset_starts_the_broker_that_it_has_stopped() -> None:
    async with open_cluster(brokers=2, clock="manual") as cluster:
        cluster.faults.preset("rolling-restart")
        with pytest.raises(FailoverError, match="broker 0 is not running"):
            cluster.stop_broker(0)
        assert cluster.faults.active_presets() == ["rolling-restart"]
        assert cluster.faults.remove("rolling-restart") == []
        assert cluster.faults.active_presets() == []
        await cluster.clock.advance(60.0)
        assert [event.reason for event in cluster.events()] == ["broker 0 is stopped", "broker 0 is started"]


async def test_step_that_is_not_possible_is_reported_in_the_journal() -> None:
    async with open_cluster(brokers=2, clock="manual") as cluster:
        cluster.faults.preset("rolling-restart", name="restart")
        cluster.stop_broker(1)
        await cluster.clock.advance(60.0)
        assert [(event.fault, event.reason) for event in cluster.events() if event.event == "fault"] == [
            ("restart", "broker 0 is stopped"),
            ("restart", "broker 0 is started"),
            ("restart", "broker 1 is not running: start it first"),
        ]
