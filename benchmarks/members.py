"""Many groups of raw members on one broker; each member has its own connection and sends heartbeats at an interval.

    python benchmarks/members.py HOST:PORT --groups 1000 --members 10 --heartbeat 3 --seconds 15

Prints one JSON object: seconds until all groups were stable, number of heartbeats and their error codes, the slowest
response. An expired session shows as an error code other than NONE. One process, one thread; raise ``ulimit -n`` above
the number of members.
"""

from __future__ import annotations

import argparse
import heapq
import json
import select
import socket
import time
from collections import Counter

from processes import cpu_times

from kwire import ClientSide, ErrorCode
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

SESSION = 10.0  # seconds
SETTLED = 3.0  # seconds without a join or sync after which the groups are stable
OPENED_AT_ONCE = 200  # connections; more would wait in the listener's backlog


class Member:
    def __init__(self, group: str, address: tuple[str, int]) -> None:
        self.group = group
        self.side = ClientSide("bench")
        self.sock = socket.create_connection(address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.member_id = ""
        self.generation = -1
        self.asked = 0.0

    def send(self, message: object, version: int) -> None:
        self.asked = time.monotonic()
        self.sock.sendall(self.side.send(message, version))  # fits the socket buffer: earlier requests are answered

    def join(self) -> None:
        protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"")]
        self.send(
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=round(SESSION * 1000),
                rebalance_timeout_ms=60_000,
                member_id=self.member_id,
                protocol_type="bench",
                protocols=protocols,
            ),
            5,
        )

    def sync(self, joined: JoinGroupResponse) -> None:
        shares = [SyncGroupRequest.Assignment(member_id=member.member_id) for member in joined.members]
        self.generation = joined.generation_id
        self.send(
            SyncGroupRequest(
                group_id=self.group, generation_id=self.generation, member_id=self.member_id, assignments=shares
            ),
            3,
        )

    def beat(self) -> None:
        self.send(HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id), 3)


class Load:
    def __init__(self, address: tuple[str, int], groups: int, members: int, heartbeat: float) -> None:
        self.heartbeat = heartbeat
        self.epoll = select.epoll()
        self.members: dict[int, Member] = {}
        self.due: list[tuple[float, int]] = []  # heartbeats: when, and the number of the member's socket
        self.answers: Counter[str] = Counter()
        self.slowest = 0.0
        self.last_change = 0.0
        self.counting = False
        for number in range(groups * members):
            member = Member(f"bench-{number // members}", address)
            self.members[member.sock.fileno()] = member
            self.epoll.register(member.sock.fileno(), select.EPOLLIN)
            member.join()
            if number % OPENED_AT_ONCE == 0:
                self.work(0.0)

    def work(self, timeout: float) -> None:
        """Handle responses for up to ``timeout`` seconds, and send heartbeats that are due."""
        for number, _ in self.epoll.poll(timeout):
            member = self.members[number]
            data = member.sock.recv(65_536)
            assert data, "the broker closed a connection"
            member.side.receive(data)
            while (response := member.side.next_response()) is not None:
                self.take(number, member, response.body)
        now = time.monotonic()
        while self.due and self.due[0][0] <= now:
            self.members[heapq.heappop(self.due)[1]].beat()

    def take(self, number: int, member: Member, answer: object) -> None:
        now = time.monotonic()
        match answer:
            case JoinGroupResponse(error_code=ErrorCode.NONE):
                member.member_id = answer.member_id
                member.sync(answer)
            case JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED):
                member.member_id = answer.member_id
                member.join()
            case JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID):  # it was too slow, and joins again
                member.member_id = ""
                member.join()
            case SyncGroupResponse(error_code=ErrorCode.NONE):
                self.last_change = now
                heapq.heappush(self.due, (now + self.heartbeat, number))
            case SyncGroupResponse():
                member.join()
            case HeartbeatResponse(error_code=error):
                if self.counting:
                    self.answers[ErrorCode(error).name] += 1
                    self.slowest = max(self.slowest, now - member.asked)
                if error:
                    member.member_id = "" if error == ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
                    member.join()
                else:
                    heapq.heappush(self.due, (member.asked + self.heartbeat, number))
            case _:
                raise AssertionError(answer)

    def settle(self) -> float:
        """Wait until all members have an assignment and none has changed for SETTLED seconds; return the seconds."""
        began = time.monotonic()
        while not self.last_change or time.monotonic() < self.last_change + max(SETTLED, 2 * self.heartbeat):
            self.work(0.05)
        without = sum(member.generation < 0 for member in self.members.values())
        assert not without, f"{without} members never got a share"
        return self.last_change - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--heartbeat", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--pid", type=int, default=0, help="process of the broker, whose CPU time is reported")
    asked = parser.parse_args()
    host, _, port = asked.address.rpartition(":")
    load = Load((host, int(port)), asked.groups, asked.members, asked.heartbeat)
    formed = load.settle()
    load.counting = True
    before, until = sum(cpu_times(asked.pid)), time.monotonic() + asked.seconds
    while time.monotonic() < until:
        load.work(0.05)
    print(
        json.dumps(
            {
                "groups": asked.groups,
                "members": asked.members,
                "formed_s": formed,
                "answers": load.answers,
                "slowest_ms": load.slowest * 1e3,
                "server_cores": (sum(cpu_times(asked.pid)) - before) / asked.seconds,
            }
        )
    )


if __name__ == "__main__":
    main()
