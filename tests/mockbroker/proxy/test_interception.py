"""Fault rules on the traffic of a proxy: the responses that the client gets, and the requests that the broker gets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from tools.counting import in_slices
from tools.served_broker import PATIENCE, Peer

from kwire import ErrorCode as E
from kwire import encode_request, encode_response
from kwire.frames import pack
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.records import Record, build_batch
from mockbroker import Cluster, open_cluster
from mockbroker.api.faults import Faults
from mockbroker.api.proxied_cluster import ProxiedCluster, intercepted
from mockbroker.base.errors import ConflictError
from mockbroker.base.settings import Settings
from mockbroker.net.clock import BrokerTime
from mockbroker.proxy import session
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.interception import Interception
from mockbroker.proxy.observer import Exchange, Observer
from mockbroker.proxy.relay import Proxy
from mockbroker.proxy.upstream import Upstream
from mockbroker.topics.log import UNKNOWN_END

METADATA = MetadataRequest(topics=[])
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Recorder(Observer):
    """An observer that records the exchanges which were answered."""

    def __init__(self) -> None:
        self.answers: list[Exchange] = []

    def answered(self, exchange: Exchange) -> None:
        self.answers.append(exchange)


class Proxied:
    """A proxy with fault rules in front of a cluster, and its clients."""

    def __init__(self, cluster: Cluster, proxy: Proxy, interception: Interception, recorder: Recorder) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.interception = interception
        self.recorder = recorder
        self.handle = ProxiedCluster(interception, lambda: proxy.bootstrap)
        self.peers: list[Peer] = []

    @property
    def faults(self) -> Faults:
        return self.handle.faults

    async def connect(self) -> Peer:
        self.peers.append(Peer(await trio.open_tcp_stream(*self.proxy.bootstrap)))
        return self.peers[-1]

    def has(self, port: int) -> bool:
        """Return whether the proxy has the connection of a peer. A client of another test may have connected to the
        proxy too, because the port may have been that of its broker.

        Args:
            port: the peer's own port.
        """
        return port in {channel.connection.client.port for channel in self.interception.connections.values()}

    def reached(self, api: str) -> int:
        """Return the number of requests of an API that the broker has received."""
        return len(self.cluster.requests(api))

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(PATIENCE):
            while not condition():
                await trio.sleep(0.005)


@asynccontextmanager
async def proxied(**config: object) -> AsyncIterator[Proxied]:
    settings = {"mockbroker.join.settle.ms": 0, "group.initial.rebalance.delay.ms": 0}
    async with open_cluster(topics={"t": 2, "u": 1}, config=settings) as cluster:
        clock = BrokerTime()
        interception = intercepted(Settings.parse(config), clock, 1_700_000_000.0)
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        recorder = Recorder()
        proxy = Proxy(Upstream([Address(host, int(port))]), observers=[recorder], interception=interception)
        async with trio.open_nursery() as nursery:
            await nursery.start(proxy.run)
            place = Proxied(cluster, proxy, interception, recorder)
            try:
                yield place
            finally:
                for peer in place.peers:
                    peer.stream.socket.close()
            nursery.cancel_scope.cancel()


def commit(*partitions: tuple[str, int]) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequest.Topic.Partition]] = {}
    for topic, index in partitions:
        partition = OffsetCommitRequest.Topic.Partition(partition_index=index, committed_offset=5)
        topics.setdefault(topic, []).append(partition)
    named = [OffsetCommitRequest.Topic(name=name, partitions=each) for name, each in topics.items()]
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=named)


def produce(topic: str, acks: int = 1) -> ProduceRequest:
    data = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
    return ProduceRequest(acks=acks, topic_data=[ProduceRequest.Topic(name=topic, partition_data=[data])])


async def test_an_error_is_answered_without_the_broker() -> None:
    async with proxied() as place:
        peer = await place.connect()
        fault = place.faults.add(api="Heartbeat", group="g", error="REBALANCE_IN_PROGRESS")
        assert (await peer.ask(HEARTBEAT, 4)).error_code == E.REBALANCE_IN_PROGRESS
        assert place.reached("Heartbeat") == 0
        assert (fault.matched, fault.applied, fault.exhausted) == (1, 1, True)
        assert (await peer.ask(HEARTBEAT, 4)).error_code == E.UNKNOWN_MEMBER_ID
        assert place.reached("Heartbeat") == 1
        first, second = place.recorder.answers
        assert (first.fault, first.forwarded, first.answer) == (fault.name, None, None)
        assert first.response is not None
        assert (second.fault, second.response) == ("", second.answer)


async def test_an_error_of_one_topic_splits_the_request() -> None:
    async with proxied() as place:
        peer = await place.connect()
        place.faults.add(api="OffsetCommit", topic="t", partition=1, error="OFFSET_METADATA_TOO_LARGE")
        response = await peer.ask(commit(("t", 0), ("t", 1), ("u", 0)), 8)
        codes = {
            (topic.name, each.partition_index): each.error_code
            for topic in response.topics
            for each in topic.partitions
        }
        assert codes == {("t", 0): E.NONE, ("t", 1): E.OFFSET_METADATA_TOO_LARGE, ("u", 0): E.NONE}
        assert place.cluster.committed("g") == {("t", 0): 5, ("u", 0): 5}


async def test_a_topic_id_is_matched_by_its_name() -> None:
    async with proxied() as place:
        peer = await place.connect()
        metadata = await peer.ask(MetadataRequest(topics=None), 12)
        ids = {topic.name: topic.topic_id for topic in metadata.topics}
        fault = place.faults.add(api="Fetch", topic="t", error="NOT_LEADER_OR_FOLLOWER", times="always")

        def fetch(*names: str, session_id: int = 0, epoch: int = 0) -> FetchRequest:
            partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1_000)
            topics = [FetchRequest.Topic(topic_id=ids[name], partitions=[partition]) for name in names]
            return FetchRequest(
                max_wait_ms=0, max_bytes=1_000, session_id=session_id, session_epoch=epoch, topics=topics
            )

        first = await peer.ask(fetch("t", "u"), 16)
        assert {topic.topic_id: topic.partitions[0].error_code for topic in first.responses} == {
            ids["t"]: E.NOT_LEADER_OR_FOLLOWER,
            ids["u"]: E.NONE,
        }
        assert first.session_id
        again = await peer.ask(fetch(session_id=first.session_id, epoch=1), 16)  # this request names no partition
        assert [topic.partitions[0].error_code for topic in again.responses] == [E.NOT_LEADER_OR_FOLLOWER]
        assert fault.applied == 2


async def test_log_end_offsets_are_learned_although_fetch_has_a_rule() -> None:
    async with proxied() as place:
        peer = await place.connect()
        await peer.ask(MetadataRequest(topics=None), 12)
        await peer.ask(produce("u"), 9)
        place.faults.add(api="Fetch", topic="t", error="NOT_LEADER_OR_FOLLOWER", times="always")
        partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1_000)
        topics = [FetchRequest.Topic(topic=name, partitions=[partition]) for name in ("t", "u")]
        await peer.ask(FetchRequest(max_wait_ms=0, max_bytes=1_000, topics=topics), 12)
        learned = place.interception.broker.cluster.topics
        assert learned["t"].partitions[0].log.end == UNKNOWN_END
        assert learned["u"].partitions[0].log.end == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_held_request_waits_for_its_release(when: Any) -> None:
    async with proxied() as place:
        peer, other = await place.connect(), await place.connect()
        fault = place.faults.hold("Heartbeat", when=when)
        await peer.send((HEARTBEAT, 4), (METADATA, 12))
        await fault.wait_holding()
        assert place.reached("Heartbeat") == (when == "after")
        assert place.reached("Metadata") == 0  # it waits until the held request is released
        assert (await other.ask(METADATA, 12)).brokers
        assert fault.release() == 1
        assert (await peer.receive()).error_code == E.UNKNOWN_MEMBER_ID
        assert (await peer.receive()).brokers
        assert place.reached("Heartbeat") == 1


async def test_removing_a_rule_releases_what_it_holds() -> None:
    async with proxied() as place:
        peer = await place.connect()
        fault = place.faults.hold("Heartbeat")
        await peer.send((HEARTBEAT, 4))
        await fault.wait_holding()
        fault.remove()
        assert (await peer.receive()).error_code == E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_delayed_request_is_answered_later(when: Any) -> None:
    async with proxied() as place:
        peer = await place.connect()
        place.faults.delay("Heartbeat", 150, when=when)
        began = trio.current_time()
        await peer.send((HEARTBEAT, 4))
        await place.until(lambda: place.reached("Heartbeat") == 1)
        assert (trio.current_time() - began >= 0.15) == (when == "before")
        assert (await peer.receive()).error_code == E.UNKNOWN_MEMBER_ID
        assert trio.current_time() - began >= 0.15


@pytest.mark.parametrize(("disconnect", "reached"), [("before", 0), ("after", 1), ("mid-response", 1)])
@pytest.mark.parametrize("reset", [False, True])
async def test_a_disconnect_ends_the_connection(disconnect: Any, reached: int, reset: bool) -> None:
    async with proxied() as place:
        peer = await place.connect()
        place.faults.disconnect("Heartbeat", disconnect, reset=reset)
        await peer.send((HEARTBEAT, 4))
        rest = await peer.closed()
        assert bool(rest) == (disconnect == "mid-response") or reset
        assert place.reached("Heartbeat") == reached
        assert (await (await place.connect()).ask(METADATA, 12)).brokers
        seen = [each for each in place.recorder.answers if each.api_key == 12]
        assert [(each.answer is None, each.response is None) for each in seen] == (
            {"before": [], "after": [(False, True)], "mid-response": [(False, False)]}[disconnect]
        )


@pytest.mark.parametrize("when", ["before", "after"])
async def test_no_response_is_the_last_thing_on_a_connection(when: Any) -> None:
    async with proxied() as place:
        peer = await place.connect()
        fault = place.faults.add(api="Heartbeat", no_response=True, when=when)
        await peer.send((HEARTBEAT, 4), (METADATA, 12))
        await fault.wait_applied()
        await place.until(lambda: place.reached("Heartbeat") == (when == "after"))
        other = await place.connect()
        await other.ask(METADATA, 12)
        assert place.reached("Metadata") == 1
        ports = [each.stream.socket.getsockname()[1] for each in (peer, other)]
        assert [place.has(port) for port in ports] == [True, True]
        await peer.stream.aclose()
        await place.until(lambda: not place.has(ports[0]))
        assert place.has(ports[1])


async def test_a_throttled_response_mutes_the_connection() -> None:
    async with proxied() as place:
        peer = await place.connect()
        place.faults.add(api="Heartbeat", throttle_ms=200)
        began = trio.current_time()
        await peer.send((HEARTBEAT, 4), (METADATA, 12))
        assert (await peer.receive()).throttle_time_ms == 200
        assert (await peer.receive()).brokers
        assert trio.current_time() - began >= 0.2


async def test_a_given_response_is_sent_in_place_of_the_broker() -> None:
    async with proxied() as place:
        peer = await place.connect()
        place.faults.add(api="Heartbeat", respond={"error_code": 41})
        assert (await peer.ask(HEARTBEAT, 4)).error_code == 41
        assert place.reached("Heartbeat") == 0


@pytest.mark.parametrize("of", ["response", "request"])
async def test_bytes_are_sent_slowly(of: Any) -> None:
    async with proxied() as place:
        peer = await place.connect()
        size = len(await peer_bytes(peer, HEARTBEAT, 4))
        place.faults.add(api="Heartbeat", bytes_per_second=size * 5, of=of)
        began = trio.current_time()
        assert (await peer.ask(HEARTBEAT, 4)).error_code == E.UNKNOWN_MEMBER_ID
        assert trio.current_time() - began >= 0.1
        assert (await peer.ask(METADATA, 12)).brokers


async def test_unsupported_api_versions_is_answered_in_version_0() -> None:
    async with proxied() as place:
        peer = await place.connect()
        place.faults.error("ApiVersions", "UNSUPPORTED_VERSION", version="4+")
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        response = await peer.ask(request, 4)
        assert [(each.api_key, each.max_version) for each in response.api_keys] == [(18, 3)]
        assert (await peer.ask(request, 3)).error_code == E.NONE


async def test_removal_of_the_rule_ends_slow_sending() -> None:
    async with proxied() as place:
        peer = await place.connect()
        fault = place.faults.add(api="Heartbeat", bytes_per_second=1)
        await peer.send((HEARTBEAT, 4), (METADATA, 12))
        await fault.wait_applied(10)
        fault.remove()
        assert (await peer.receive()).error_code == E.UNKNOWN_MEMBER_ID
        assert (await peer.receive()).brokers


async def peer_bytes(peer: Peer, message: Any, version: int) -> bytes:
    """Send a request, and return the response as bytes."""
    await peer.send((message, version))
    data = await peer.stream.receive_some(65_536)
    peer.side.receive(data)
    assert peer.side.next_response() is not None
    return bytes(data)


async def test_a_malformed_response_reaches_the_client() -> None:
    async with proxied() as place:
        peer = await place.connect()
        place.faults.malform("Heartbeat", "correlation_id")
        await peer.send((HEARTBEAT, 4))
        data = bytes(await peer.stream.receive_some(65_536))
        (seen,) = place.recorder.answers
        assert seen.answer is not None
        assert data[4:] == seen.response != seen.answer
        assert data[8:] == seen.answer[4:]
        assert place.reached("Heartbeat") == 1


async def test_a_large_request_is_decoded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    slices: list[int] = []

    async def counted(work: Generator[None, None, Any]) -> Any:
        number, result = in_slices(work)
        slices.append(number)
        return result

    async with proxied() as place:
        monkeypatch.setattr(session, "complete", counted)
        peer = await place.connect()
        fault = place.faults.add(api="OffsetCommit", error="REBALANCE_IN_PROGRESS")
        response: Any = await peer.ask(commit(*[("t", number) for number in range(5_000)]), 8)
        assert {each.error_code for topic in response.topics for each in topic.partitions} == {E.REBALANCE_IN_PROGRESS}
        assert fault.applied == 1
        assert place.reached("OffsetCommit") == 0
        assert slices[0] >= 5


async def test_a_large_response_is_malformed_in_slices() -> None:
    async with proxied() as place:
        batch = build_batch([Record(value=b"v" * 100) for _ in range(5_000)])
        data = ProduceRequest.Topic.Partition(index=0, records=batch)
        peer = await place.connect()
        await peer.ask(ProduceRequest(acks=1, topic_data=[ProduceRequest.Topic(name="t", partition_data=[data])]), 9)
        fault = place.faults.malform("Fetch", "corrupt_values")
        slices, tick = [0], place.interception.tick

        def counted() -> None:
            slices.append(place.interception.unfinished)
            tick()

        place.interception.tick = counted  # type: ignore[method-assign]
        partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=10_000_000)
        request = FetchRequest(
            max_wait_ms=0, max_bytes=10_000_000, topics=[FetchRequest.Topic(topic="t", partitions=[partition])]
        )
        response = await peer.ask(request, 12)
        assert isinstance(response, FetchResponse)
        assert fault.applied == 1
        records = response.responses[0].partitions[0].records
        assert records is not None
        assert len(records) == len(batch)
        assert b"v" * 100 not in records
        assert sum(slices) >= 10
        assert place.interception.unfinished == 0


async def test_a_client_may_leave_while_its_response_is_malformed() -> None:
    async with proxied() as place:
        peer = await place.connect()
        place.faults.malform("Heartbeat", "correlation_id")
        await peer.send((HEARTBEAT, 4))
        await place.until(lambda: place.reached("Heartbeat") == 1)
        peer.stream.socket.close()
        await place.until(lambda: not place.interception.channels)
        await place.until(lambda: place.interception.unfinished == 0)


async def test_a_produce_without_acks_is_applied_or_dropped() -> None:
    async with proxied() as place:
        peer = await place.connect()
        fault = place.faults.add(api="Produce", topic="t", delay_ms=1)
        quiet = pack(encode_request(produce("t", acks=0), 9, correlation_id=99))
        await peer.stream.send_all(quiet)
        assert isinstance(await peer.ask(produce("u"), 9), ProduceResponse)
        assert fault.applied == 1
        assert len(place.cluster.records("t")) == 1
        place.faults.disconnect("Produce", "before")
        await peer.stream.send_all(quiet)
        assert await peer.closed() == b""
        assert len(place.cluster.records("t")) == 1


async def test_rules_match_the_body_and_the_client() -> None:
    async with proxied() as place:
        peer = await place.connect()
        fault = place.faults.add(
            api="OffsetFetch", client_id="pe*", version="1-5", where="body.group_id == 'g'", error="NOT_COORDINATOR"
        )
        other = await peer.ask(OffsetFetchRequest(group_id="h"), 5)
        assert other.error_code == E.NONE
        assert (await peer.ask(OffsetFetchRequest(group_id="g"), 5)).error_code == E.NOT_COORDINATOR
        assert (fault.matched, fault.applied) == (1, 1)


async def test_addresses_are_replaced_in_intercepted_responses() -> None:
    async with proxied() as place:
        peer = await place.connect()
        place.faults.delay(["Metadata", "FindCoordinator"], 1, when="after", times="always")
        (broker,) = (await peer.ask(METADATA, 12)).brokers
        assert place.proxy.own == {0: Address(broker.host, broker.port)}
        assert broker.port != place.cluster.nodes[0].port
        response = await peer.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        assert response.coordinators[0].port == broker.port


async def test_the_broker_of_the_bootstrap_address_is_matched() -> None:
    async with proxied() as place:
        peer = await place.connect()
        await peer.ask(METADATA, 12)
        place.faults.add(api="Heartbeat", broker=0, error="NOT_COORDINATOR")
        assert (await peer.ask(HEARTBEAT, 4)).error_code == E.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("action", "least"),
    [
        ({"error": "NOT_COORDINATOR"}, 0),
        ({"respond": {"error_code": 27}}, 0),
        ({"delay_ms": 20, "when": "after"}, 0.02),
    ],
    ids=["error", "respond", "delay"],
)
async def test_observers_get_the_time_of_a_response_by_a_rule(action: Any, least: float) -> None:
    async with proxied() as place:
        place.faults.add(api="Heartbeat", **action)
        await (await place.connect()).ask(HEARTBEAT, 4)
        (exchange,) = place.recorder.answers
        assert exchange.answered_at is not None
        assert exchange.answered_at.monotonic - exchange.requested_at.monotonic >= least


@pytest.mark.parametrize("action", [{"disconnect": "before"}, {"disconnect": "before", "reset": True}])
async def test_a_new_connection_is_refused(action: Any) -> None:
    async with proxied() as place:
        fault = place.faults.add(on="connect", **action)
        assert await (await place.connect()).closed() == b""
        await fault.wait_applied()
        assert (await (await place.connect()).ask(METADATA, 12)).brokers


@pytest.mark.parametrize("delay", [{}, {"delay_ms": 1}], ids=["at once", "delayed"])
async def test_the_tls_handshake_of_a_new_connection_fails(delay: Any) -> None:
    async with proxied() as place:
        fault = place.faults.add(on="connect", fail_tls=True, **delay)
        alert = await (await place.connect()).closed()
        assert alert == bytes.fromhex("15 03 03 00 02 02 28")  # fatal alert: handshake failure
        await fault.wait_applied()
        assert (await (await place.connect()).ask(METADATA, 12)).brokers


async def test_a_new_connection_is_held_or_delayed() -> None:
    async with proxied() as place:
        held = place.faults.add(on="connect", hold=True)
        peer = await place.connect()
        await peer.send((METADATA, 12))
        await held.wait_holding()
        assert place.reached("Metadata") == 0
        held.release()
        assert (await peer.receive()).brokers
        place.faults.add(on="connect", delay_ms=100)
        began = trio.current_time()
        assert (await (await place.connect()).ask(METADATA, 12)).brokers
        assert trio.current_time() - began >= 0.1


async def test_a_silent_connection_ends_with_its_client() -> None:
    async with proxied() as place:
        fault = place.faults.add(on="connect", no_response=True)
        peer = await place.connect()
        await peer.send((METADATA, 12))
        await fault.wait_applied()
        await peer.stream.send_eof()
        assert await peer.closed() == b""
        assert place.reached("Metadata") == 0


async def test_requests_in_flight_are_answered_in_order() -> None:
    async with proxied() as place:
        peer = await place.connect()
        place.faults.add(api="Heartbeat", error="REBALANCE_IN_PROGRESS", times="always", every=2)
        await peer.send(*[(METADATA, 12), (HEARTBEAT, 4)] * 10)
        codes = []
        for _ in range(10):
            assert (await peer.receive()).brokers
            codes.append((await peer.receive()).error_code)
        assert codes == [E.REBALANCE_IN_PROGRESS, E.UNKNOWN_MEMBER_ID] * 5


async def test_what_is_held_is_limited() -> None:
    async with proxied(**{"mockbroker.faults.max.held.requests": 1}) as place:
        fault = place.faults.hold("Heartbeat", times="always")
        first, second = await place.connect(), await place.connect()
        await first.send((HEARTBEAT, 4))
        await fault.wait_holding()
        await second.send((HEARTBEAT, 4))
        assert await second.closed() == b""


async def test_actions_on_the_cluster_are_refused() -> None:
    async with proxied() as place:
        with pytest.raises(ConflictError, match="a proxy cannot evict members"):
            place.faults.add(api="Heartbeat", evict=True)
        with pytest.raises(ConflictError, match="changes the cluster itself"):
            place.faults.preset("rolling-restart")
        assert "rolling-restart" not in {each.name for each in place.faults.presets()}
        assert place.faults.preset("rebalance-storm") == ["rebalance-storm-classic", "rebalance-storm-consumer"]


async def test_connections_are_listed_and_closed() -> None:
    async with proxied() as place:
        peer = await place.connect()
        place.faults.delay("Metadata", 1, times="always")
        await peer.ask(METADATA, 12)
        ((number, snapshot),) = place.handle.connections().items()
        assert (snapshot.client_id, snapshot.requests, snapshot.broker) == ("peer", 1, 0)
        place.handle.disconnect(number, reset=True)
        assert await peer.closed() == b""
        await place.until(lambda: not place.handle.connections())


async def test_an_error_waits_for_the_end_of_the_response_before_it() -> None:
    interception = intercepted(Settings(), BrokerTime(), 1_700_000_000.0)
    faults = ProxiedCluster(interception, lambda: Address("127.0.0.1", 0)).faults
    faults.add(api="Heartbeat", error="REBALANCE_IN_PROGRESS")
    response = pack(encode_response(FetchResponse(session_id=7), 11, correlation_id=1)[:-1] + bytes(100_000))
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    proxy = Proxy(Upstream([Address("127.0.0.1", listener.socket.getsockname()[1])]), interception=interception)
    halves = trio.Event()

    async def answer_in_halves(stream: trio.SocketStream) -> None:
        await stream.receive_some(65_536)
        await stream.send_all(response[:1_000])
        await halves.wait()
        await stream.send_all(response[1_000:])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, answer_in_halves, [listener])
        await nursery.start(proxy.run)
        peer = Peer(await trio.open_tcp_stream(*proxy.bootstrap))
        await peer.send((FetchRequest(), 11), (HEARTBEAT, 4))
        received = b""
        with trio.move_on_after(PATIENCE):
            while len(received) < len(response):
                received += await peer.stream.receive_some(65_536)
                if len(received) >= 1_000 and not halves.is_set():
                    await trio.sleep(0.05)
                    halves.set()
        peer.stream.socket.close()
        nursery.cancel_scope.cancel()
    assert received[: len(response)] == response
