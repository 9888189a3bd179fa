"""``cluster.faults`` of the two handles, for trio and for threads."""

from __future__ import annotations

import asyncio
from typing import get_args, get_type_hints

import pytest
import trio

from kwire import APIS, ErrorCode
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker import WaitTimeoutError, open_cluster, run_cluster
from mockbroker.api.fault_names import ApiName, ErrorName, MalformName
from mockbroker.api.fault_options import RuleOptions, rule_form
from mockbroker.api.faults import UnknownFaultError
from mockbroker.base.errors import FaultRuleError
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.malformed import FORMS
from mockbroker.faults.parsing import parse_rule, rule_to_json
from mockbroker.faults.rules import RuleExists

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_names_are_those_that_are_served() -> None:
    assert set(get_args(ApiName)) == {APIS[key].name for key in HANDLERS}
    assert set(get_args(ErrorName)) == {code.name for code in ErrorCode} - {"NONE"}
    assert set(get_args(MalformName)) == set(FORMS)


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
        with pytest.raises(RuleExists, match="the rule a exists already"):
            cluster.faults.hold("Heartbeat", name="a")
        cluster.faults.put_rule("a", {"match": {"api": "Heartbeat"}, "action": {"error": "ILLEGAL_GENERATION"}})
        assert [state.name for state in cluster.faults.states()] == ["a", "b"]
        assert first.applied == 0
        assert (await cluster.connect().ask(HEARTBEAT)).error_code == ErrorCode.ILLEGAL_GENERATION


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
