"""The fuzzer against mockbroker, which survives, and against brokers with each kind of failure, which a proxy
simulates.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

import mockbroker
from kwire import ErrorCode, FrameBuffer, WireError, decode_request, encode_response
from kwire.frames import pack
from kwire.fuzz import live, session
from kwire.fuzz.findings import CORRELATION, CRASH, HANG, HARM, UNREADABLE, Finding
from kwire.fuzz.live import BrokerError, Client, Fuzzer, Healthy
from kwire.fuzz.session import Names
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.find_coordinator import FindCoordinatorResponse
from kwire.messages.join_group import JoinGroupResponse

FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, DELETE_TOPICS, CREATE_PARTITIONS = 10, 11, 12, 20, 37
CONFIG = {"group.initial.rebalance.delay.ms": 0}
Answer = Callable[["Between", bytes, bytes], bytes]  # of request and response; the bytes to pass on


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with mockbroker.run_cluster(config=CONFIG) as cluster:
        yield cluster.nodes[0].host, cluster.nodes[0].port


class Between:
    """A proxy that passes requests to a broker one by one, and changes the responses with ``answer``."""

    def __init__(self, broker: tuple[str, int], answer: Answer) -> None:
        self._broker = broker
        self._answer = answer
        self.hurt = False
        self.looked = self.joined = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def stop(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def join(self) -> None:
        self.stop()
        for thread in self._threads:
            thread.join(30)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=[sock])
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._broker) as broker, suppress(OSError, WireError):
            asked, answered = FrameBuffer(), FrameBuffer()
            while data := client.recv(65_536):
                asked.feed(data)
                while (request := asked.next_frame()) is not None:
                    broker.sendall(pack(request))
                    while (frame := answered.next_frame()) is None:
                        more = broker.recv(65_536)
                        if not more:
                            return self._closed(client, request)
                        answered.feed(more)
                    client.sendall(self._answer(self, request, pack(frame)))
        return None

    def _closed(self, client: socket.socket, request: bytes) -> None:
        """Send the result of ``answer`` for a request at which the broker closed the connection."""
        client.sendall(self._answer(self, request, b""))


def bad(request: bytes) -> bool:
    """Return whether a request cannot be decoded."""
    try:
        decode_request(request)
    except WireError:
        return True
    return False


def encode(body: object, request: bytes) -> bytes:
    """Return a response in the version of a request."""
    version, correlation_id = struct.unpack_from(">hi", request, 2)
    return pack(encode_response(body, version, correlation_id=correlation_id))


def wrong_correlation(_: Between, request: bytes, answer: bytes) -> bytes:
    return answer[:4] + b"\x7f" + answer[5:] if answer and b"-00000" in request else answer


def bytes_behind(_: Between, request: bytes, answer: bytes) -> bytes:
    return pack(answer[4:] + b"!") if answer and b"-00000" in request else answer


def garbage(_: Between, request: bytes, answer: bytes) -> bytes:
    return b"HTTP/1.1 400 Bad Request\r\n" if bad(request) else answer


def hang(proxy: Between, request: bytes, answer: bytes) -> bytes:
    if bad(request):
        threading.Event().wait(1.5)
    return answer


def crash(proxy: Between, request: bytes, answer: bytes) -> bytes:
    if bad(request):
        proxy.stop()
    return answer


def harm(proxy: Between, request: bytes, answer: bytes) -> bytes:
    """The healthy member is evicted by a malformed request of another client."""
    proxy.hurt |= bad(request)
    if proxy.hurt and answer and request[:2] == struct.pack(">h", HEARTBEAT) and b"-healthy" in request:
        proxy.hurt = False
        return answer[:-2] + struct.pack(">h", 25) if request[3] < 4 else answer[:-3] + struct.pack(">h", 25) + b"\0"
    return answer


def test_our_own_broker_holds(address: tuple[str, int]) -> None:
    fuzzer = Fuzzer(address, seed=4)
    try:
        results = [finding for finding in fuzzer.run(range(400)) if finding]
    finally:
        fuzzer.close()
    assert results == []
    assert fuzzer.counts["cases"] == 400
    assert fuzzer.counts["answered"] > 100
    assert fuzzer.counts["closed"] > 100
    assert {"NONE", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"} <= set(fuzzer.errors)


@pytest.mark.parametrize("api", [0, 1, 11, 14])
def test_one_api(address: tuple[str, int], api: int) -> None:
    fuzzer = Fuzzer(address, seed=5, api=api)
    try:
        assert [finding for finding in fuzzer.run(range(50)) if finding] == []
    finally:
        fuzzer.close()


WRONG: list[tuple[str, Answer, str, float]] = [  # kind, what the proxy does, expected detail, timeout
    (CORRELATION, wrong_correlation, "sent correlation id", 5),
    (UNREADABLE, bytes_behind, "1 trailing bytes after the response", 5),
    (UNREADABLE, garbage, "frame length 1213486160", 5),
    (HANG, hang, "no response within 0.5 s", 0.5),
    (HARM, harm, f"the heartbeat of the healthy member failed with {ErrorCode(25).name}", 5),
    (CRASH, crash, "a new connection: ", 5),
]


@pytest.mark.parametrize(("kind", "answer", "detail", "patience"), WRONG)
def test_violation_is_found_and_reproduced(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch, kind: str, answer: Answer, detail: str, patience: float
) -> None:
    monkeypatch.setattr(session, "RESPONSE_TIME", patience)
    proxy = Between(address, answer)
    fuzzer = Fuzzer(proxy.address, seed=1, api=HEARTBEAT)
    try:
        finding = next(finding for finding in fuzzer.run(range(200)) if finding)
        assert finding.kind == kind
        assert detail in finding.detail
        assert Finding.from_json(json.dumps(finding.to_json())) == finding
        if kind == CRASH:
            assert list(fuzzer.run(range(3)))[-1] is not None, "still gone"
            return
        assert len(finding.steps) == 1, "made small"
        again = fuzzer.replay(finding)
        assert again is not None
        assert again.kind == kind
    finally:
        fuzzer.close()
        proxy.join()
    fuzzer = Fuzzer(address, seed=1, api=HEARTBEAT)
    assert fuzzer.replay(finding) is None, "the broker itself does not do it"
    fuzzer.close()


@pytest.mark.parametrize(("api", "cases"), [(DELETE_TOPICS, range(12)), (CREATE_PARTITIONS, range(10, 15))])
def test_run_continues_after_a_request_changed_its_topic(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch, api: int, cases: range
) -> None:
    fuzzer = Fuzzer(address, seed=0, api=api)
    groups: list[Healthy] = []
    prepare = fuzzer._new_healthy

    def new_healthy() -> tuple[Names, Healthy]:
        names, healthy = prepare()
        groups.append(healthy)
        return names, healthy

    monkeypatch.setattr(fuzzer, "_new_healthy", new_healthy)
    try:
        results = list(fuzzer.run(cases))
    finally:
        fuzzer.close()
    assert groups, "a request changed the topic"
    assert results == len(cases) * [None]


def test_topic_that_is_deleted_without_a_request_is_a_finding(address: tuple[str, int]) -> None:
    fuzzer = Fuzzer(address, seed=1, api=HEARTBEAT)
    try:
        with Client(address, fuzzer.offered) as client:
            client.ask(DeleteTopicsRequest(topic_names=[fuzzer._names.topic], timeout_ms=10_000), DELETE_TOPICS, most=5)
        finding = next(fuzzer.run(range(1)))
    finally:
        fuzzer.close()
    assert finding is not None
    assert finding.detail == "the committed offset of the healthy group changed from 7 to -1"


def test_run_ends_if_the_control_group_cannot_be_set_up_again(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Between(address, harm)
    fuzzer = Fuzzer(proxy.address, seed=1, api=HEARTBEAT)
    monkeypatch.setattr(fuzzer, "_new_healthy", refuse)
    cases = fuzzer.run(range(200))
    try:
        finding = next(finding for finding in cases if finding)
        assert finding.kind == HARM
        with pytest.raises(BrokerError, match=r"cannot continue after case \d+: Connection refused"):
            next(cases)
    finally:
        fuzzer.close()
        proxy.join()


def refuse() -> None:
    raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


def test_no_broker_is_listening() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BrokerError, match=f"cannot prepare 127.0.0.1:{port} for fuzzing: "):
        Fuzzer(("127.0.0.1", port))


def fresh(proxy: Between, request: bytes, answer: bytes) -> bytes:
    """Answer as a newly installed Kafka: it has no coordinator until some time after the first FindCoordinator."""
    if request[:2] == struct.pack(">h", FIND_COORDINATOR):
        proxy.looked += 1
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if proxy.looked == 1 else ErrorCode.NONE
        return encode(FindCoordinatorResponse(error_code=code, host="localhost", port=9092), request)
    if request[:2] == struct.pack(">h", JOIN_GROUP) and proxy.looked < 2:
        return encode(JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR), request)
    if request[:2] == struct.pack(">h", JOIN_GROUP) and not proxy.joined:
        proxy.joined += 1
        return encode(JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), request)
    return answer


def test_the_coordinator_of_a_fresh_cluster_is_found_first(address: tuple[str, int]) -> None:
    proxy = Between(address, fresh)
    try:
        fuzzer = Fuzzer(proxy.address)
        assert list(fuzzer.run(range(1))) == [None]
        fuzzer.close()
    finally:
        proxy.join()
    assert proxy.looked >= 2
    assert proxy.joined == 1


def test_a_coordinator_that_is_never_ready(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "READY_WITHIN", 0.0)
    proxy = Between(address, fresh)
    try:
        with pytest.raises(
            BrokerError, match="find the coordinator of a group: the broker returned COORDINATOR_NOT_AVAILABLE"
        ):
            Fuzzer(proxy.address)
    finally:
        proxy.join()


def test_an_api_that_is_not_served(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fuzzer, "_ask_versions", lambda _: {11: range(3)})
    with pytest.raises(BrokerError, match="no common version of Heartbeat"):
        Fuzzer(address, api=HEARTBEAT)


def test_run_deletes_its_topic_and_groups() -> None:
    with mockbroker.run_cluster(config=CONFIG) as cluster:
        fuzzer = Fuzzer((cluster.nodes[0].host, cluster.nodes[0].port))
        assert [group for group, found in cluster.groups().items() if found.members] != []
        fuzzer.close()
        assert [group for group, found in cluster.groups().items() if found.members] == []
