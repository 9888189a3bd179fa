"""The history of the lag of groups, with committed offsets of a cluster without sockets."""

from __future__ import annotations

from typing import Any

from tools.broker_harness import BrokerHarness, commit_without_member
from tools.control_api import control_api

from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch
from mockbroker.control.lag_history import CURVES, POINTS, LagHistory


class Recorded:
    """A cluster with topic ``t``, whose lag is recorded."""

    def __init__(self, topics: int = 0) -> None:
        self.harness = BrokerHarness(topics={"t": 1, **{f"t{number}": 1 for number in range(topics)}})
        self.harness.watched = 0
        self.history = LagHistory()

    def produce(self, count: int) -> None:
        """Append records to topic ``t``."""
        kind = ProduceRequest.Topic
        batch = build_batch([Record(value=b"")] * count)
        topic = kind(name="t", partition_data=[kind.Partition(index=0, records=batch)])
        self.harness.ask(ProduceRequest(acks=-1, topic_data=[topic]), 9)

    def commit(self, offset: int = 0, topic: str = "t") -> None:
        commit_without_member(self.harness, "g", topic=topic, offset=offset)

    def sample(self, time_ms: int) -> None:
        broker = self.harness.broker
        list(self.history.sample(broker.groups, broker.cluster.topics, time_ms))

    def curves(self) -> Any:
        slices = self.history.slices("g")
        while True:
            try:
                next(slices)
            except StopIteration as end:
                return end.value


def test_a_change_of_the_lag_is_a_point() -> None:
    recorded = Recorded()
    recorded.sample(0)  # the group does not exist yet
    recorded.commit()
    for time_ms, records in ((1_000, 0), (5_000, 3), (6_000, 0), (9_000, 2)):
        if records:
            recorded.produce(records)
        recorded.sample(time_ms)
    assert recorded.curves() == {
        "times_ms": [1_000, 5_000, 9_000],
        "total": [0, 3, 5],
        "partitions": {"t": {"0": [0, 3, 5]}},
    }


def test_points_within_a_second_are_one() -> None:
    recorded = Recorded()
    recorded.commit()
    for time_ms in (0, 2_000, 2_300, 2_900):
        recorded.produce(1)
        recorded.sample(time_ms)
    assert (recorded.curves()["times_ms"], recorded.curves()["total"]) == ([0, 2_900], [1, 4])


def test_a_partition_without_commit_is_null() -> None:
    recorded = Recorded(topics=1)
    recorded.commit()
    recorded.sample(0)
    recorded.commit(topic="t0")
    recorded.sample(1_000)
    assert recorded.curves()["partitions"] == {"t": {"0": [0, 0]}, "t0": {"0": [None, 0]}}


def test_curves_are_thinned_and_keep_their_span() -> None:
    recorded = Recorded()
    recorded.commit()
    last = 3 * POINTS
    for number in range(last + 1):
        recorded.produce(1)
        recorded.sample(number * 1_000)
    result = recorded.curves()
    assert len(result["times_ms"]) == len(result["total"]) == len(result["partitions"]["t"]["0"]) <= POINTS
    assert (result["times_ms"][0], result["times_ms"][-1], result["total"][-1]) == (0, last * 1_000, last + 1)


def test_the_number_of_curves_is_limited() -> None:
    recorded = Recorded(topics=CURVES + 5)
    recorded.commit()
    for number in range(CURVES + 5):
        recorded.commit(topic=f"t{number}")
    for time_ms in (0, 5_000):
        recorded.sample(time_ms)
    assert len(recorded.curves()["partitions"]) == CURVES
    assert recorded.curves()["times_ms"] == [0]  # nothing has changed


def test_deleted_groups_and_reset_clusters_have_no_curves() -> None:
    recorded = Recorded()
    recorded.commit()
    recorded.sample(0)
    recorded.harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    recorded.sample(1_000)
    assert recorded.curves()["times_ms"] == []
    recorded.commit()
    recorded.sample(2_000)
    list(recorded.history.sample({}, {}, 0))
    assert recorded.curves()["times_ms"] == []


async def test_the_server_records_the_lag_without_a_page() -> None:
    async with control_api(clock="manual") as api:
        await api.ask("PUT", "/v1/groups/g/offsets", {"offsets": [{"topic": "t", "partition": 1, "offset": 0}]})
        before = await api.get("/v1/groups/g/lag")
        await api.post("/v1/topics/t/records", {"records": [{"partition": 1, "value": "v"}]})
        await api.post("/v1/clock", {"advance_ms": 60_000})
        result = before
        while result == before:  # the next point is recorded a second later
            result = await api.get("/v1/groups/g/lag")
        assert (result["total"][-1], result["times_ms"][-1] >= 60_000) == (1, True)
        assert (await api.ask("GET", "/v1/groups/nope/lag")).status_code == 404
