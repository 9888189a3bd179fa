"""The clock of the broker."""

from __future__ import annotations

from tools.control_api import control_api

from kwire.messages.join_group import JoinGroupRequest


async def test_the_clock_is_stopped_and_resumed() -> None:
    async with control_api() as api:
        assert (await api.get("/v1/clock"))["mode"] == "real"
        assert (await api.post("/v1/clock", {"mode": "manual"}))["mode"] == "manual"
        first = await api.get("/v1/clock")
        assert await api.get("/v1/clock") == first
        assert (await api.post("/v1/clock", {"mode": "real"}))["mode"] == "real"


async def test_a_real_clock_cannot_be_advanced() -> None:
    async with control_api() as api:
        assert await api.status("POST", "/v1/clock", {"advance_ms": 1}) == 409


async def test_an_advance_answers_after_every_timer_has_run() -> None:
    async with control_api(clock="manual") as api:
        protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        await api.cluster.connect().ask(join, 3)
        begun = (await api.get("/v1/clock"))["time_ms"]
        clock = await api.post("/v1/clock", {"advance_ms": 9_000.5})
        assert [event["kind"] for event in clock["events"]] == []
        assert clock["time_ms"] in (begun + 9_000, begun + 9_001)
        clock = await api.post("/v1/clock", {"advance_ms": 50_000})
        assert [event["kind"] for event in clock["events"]] == ["expire", "rebalance", "empty"]
        assert (await api.get("/v1/groups/g"))["members"] == []
