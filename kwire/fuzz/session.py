"""The requests of one test case of the fuzzer: a consumer's session in which one request is malformed.

The body of each request is built from the earlier responses, just before the request is sent. The requests depend only
on these responses and on the random number generator. This module uses no sockets.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from random import Random
from typing import Any
from uuid import UUID

from kwire.apikeys import ApiKey
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.envelope import Response, decode_request, encode_request
from kwire.errors import WireError
from kwire.frames import pack
from kwire.fuzz.mutate import mutate
from kwire.fuzz.values import any_value
from kwire.layout import versions_of
from kwire.lazy_dataclass import dataclass
from kwire.limits import MAX_FRAME
from kwire.messages import APIS
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.records.batch import Record, build_batch

# The requests of a consumer, in order.
STORY = (
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.LEAVE_GROUP,
)
AFTER = 3  # requests that follow the malformed one
CLIENT = "kwfuzz"
SESSION_MS, REBALANCE_MS = 6_000, 3_000
RESPONSE_TIME = 5.0  # seconds within which a broker responds or closes the connection if the request does not wait
LONGEST_WAIT = 10.0  # seconds; no response is expected for a request that may wait longer
HEADERS = 0.15  # share of the mutations that may change the header; most of these only close the connection
WRONG_PREFIXES = 0.05  # share of the mutations with a wrong length prefix

_MANY = "a mutated value may cause a real broker a lot of work that continues after the run"
_CLUSTER = "it changes the cluster and so the rest of the run"
_SECURITY = "it changes permissions"
_BROKERS = "it is sent between brokers and controllers; a broker that processes a mutated one may stop working"
EXCLUDED: Mapping[int, str] = {  # not mutated unless requested with --api, with the reason
    ApiKey.LEADER_AND_ISR: _BROKERS,
    ApiKey.STOP_REPLICA: _BROKERS,
    ApiKey.UPDATE_METADATA: _BROKERS,
    ApiKey.CONTROLLED_SHUTDOWN: _BROKERS,
    ApiKey.CREATE_TOPICS: _MANY,  # a partition count of 100,000 is legal
    ApiKey.DELETE_TOPICS: "DeleteTopics: a mutated name may delete a topic that is not of this run",
    ApiKey.DELETE_RECORDS: "DeleteRecords: a mutated offset may delete more records",
    ApiKey.WRITE_TXN_MARKERS: _BROKERS,
    ApiKey.CREATE_ACLS: _SECURITY,
    ApiKey.DELETE_ACLS: _SECURITY,
    ApiKey.ALTER_CONFIGS: _CLUSTER,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _CLUSTER,
    ApiKey.CREATE_PARTITIONS: _MANY,
    ApiKey.CREATE_DELEGATION_TOKEN: _SECURITY,
    ApiKey.RENEW_DELEGATION_TOKEN: _SECURITY,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _SECURITY,
    ApiKey.ELECT_LEADERS: _CLUSTER,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _CLUSTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _CLUSTER,
    ApiKey.ALTER_CLIENT_QUOTAS: "AlterClientQuotas may throttle all clients, including this run",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _SECURITY,
    **dict.fromkeys(
        (
            ApiKey.VOTE,
            ApiKey.BEGIN_QUORUM_EPOCH,
            ApiKey.END_QUORUM_EPOCH,
            ApiKey.ALTER_PARTITION,
            ApiKey.ENVELOPE,
            ApiKey.FETCH_SNAPSHOT,
            ApiKey.BROKER_REGISTRATION,
            ApiKey.BROKER_HEARTBEAT,
            ApiKey.ALLOCATE_PRODUCER_IDS,
            ApiKey.CONTROLLER_REGISTRATION,
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            ApiKey.UPDATE_RAFT_VOTER,
        ),
        _BROKERS,
    ),
    ApiKey.UPDATE_FEATURES: _CLUSTER,
    ApiKey.UNREGISTER_BROKER: _CLUSTER,
    ApiKey.ADD_RAFT_VOTER: _CLUSTER,
    ApiKey.REMOVE_RAFT_VOTER: _CLUSTER,
    **dict.fromkeys(
        (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ),
        _BROKERS,
    ),  # state of share groups
    ApiKey.STREAMS_GROUP_HEARTBEAT: "StreamsGroupHeartbeat makes a broker create the internal topics it names",
    ApiKey.SASL_AUTHENTICATE: "SaslAuthenticate: a broker may delay failed ones on purpose",
}


NONCE = 8  # characters of the nonce of a run


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the topic and the groups of a run.

    Attributes:
        nonce: NONCE characters that every name contains, different in each run.
        topic_id: id of the topic of the run; all zeros before the topic exists.
    """

    nonce: str
    topic_id: UUID = field(default_factory=lambda: UUID(int=0))

    @property
    def topic(self) -> str:
        return f"kwfuzz-{self.nonce}"

    def group(self, case: int) -> str:
        return f"kwfuzz-{self.nonce}-{case:06d}"

    @property
    def healthy(self) -> str:
        return f"kwfuzz-{self.nonce}-healthy"


@dataclass(frozen=True, slots=True)
class Step:
    """A request of a test case, as it was sent.

    Attributes:
        data: bytes of the request, with their length prefix.
        what: description of the request.
        broken: True if this is the malformed request of the test case.
        learned: member id that the broker assigned in the response; "" if the response has no member id.
    """

    data: bytes
    what: str
    broken: bool = False
    learned: str = ""


class Session:
    """A script of one test case: the requests of a consumer's session, one of which is malformed.

    Args:
        random: source of randomness.
        names: names of the run.
        case: number of the test case, which the group id contains.
        offered: versions that the broker supports, by API key.
        api: key of the only API to mutate; None for all APIs.

    Attributes:
        steps: requests that ``next`` has returned so far.
    """

    def __init__(
        self, random: Random, names: Names, case: int, offered: Mapping[int, range], api: int | None = None
    ) -> None:
        self.steps: list[Step] = []
        self._random = random
        self._names = names
        self._group = names.group(case)
        self._offered = shared(offered)
        self._member_id = ""
        self._generation = -1
        self._plan = self._planned()
        if api is not None and api not in self._plan:
            self._plan.insert(random.randint(1, len(self._plan)), api)
        places = [place for place, key in enumerate(self._plan) if api is None or key == api]
        self._broken_at = random.choice(places)

    def _planned(self) -> list[int]:
        plan: list[int] = [key for key in STORY if key in self._offered]
        others = sorted(self._offered.keys() - {*STORY, *EXCLUDED})
        for _ in range(self._random.choice((0, 1, 2)) if others else 0):
            plan.insert(self._random.randint(1, len(plan)), self._random.choice(others))
        return plan

    def next(self) -> Step | None:
        """Return the next request to send, or None after the last request."""
        number = len(self.steps)
        if number >= len(self._plan) or number > self._broken_at + AFTER:
            return None
        key = self._plan[number]
        version = self._random.choice(self._offered[key])
        body = self._body(key, version)
        frame = encode_request(body, version, correlation_id=number + 1, client_id=CLIENT)
        name = f"{APIS[key].name} v{version}"
        if key not in STORY:
            name += " with edge values"
        step = Step(pack(frame), name)
        if number == self._broken_at:
            step = self._break(frame, name, always=key in STORY)
        self.steps.append(step)
        return step

    def answered(self, response: Response) -> None:
        """Process the response to the last request. From a JoinGroup response, member id and generation are stored."""
        if isinstance(response.body, JoinGroupResponse) and response.body.member_id:
            self._member_id = response.body.member_id
            self._generation = response.body.generation_id
            self.steps[-1] = replace(self.steps[-1], learned=self._member_id)

    def _break(self, frame: bytes, name: str, *, always: bool) -> Step:
        random = self._random
        if random.random() < WRONG_PREFIXES:
            size = len(frame)
            length = random.choice((-(2**31), -1, 0, 1, size - 1, size + 1, MAX_FRAME, MAX_FRAME + 1, 2**31 - 1))
            return Step(struct.pack(">i", length) + frame, f"{name}: length {size} becomes {length}", broken=True)
        whats = []
        for _ in range(random.choice((1, 1, 1, 2, 3) if always else (0, 1, 1, 2, 3))):
            other = random.choice(self.steps).data[4:] if self.steps else b""
            mutation = mutate(frame, random, other=other, header=random.random() < HEADERS)
            frame = mutation.data
            whats.append(str(mutation))
        return Step(pack(frame), f"{name}: {'; '.join(whats)}" if whats else name, broken=True)

    def _body(self, key: int, version: int) -> object:
        match key:
            case 18:
                return self._api_versions()
            case 3:
                return self._metadata()
            case 10:
                return self._find_coordinator(version)
            case 11:
                return self._join(version)
            case 14:
                return self._sync()
            case 12:
                return self._heartbeat()
            case 8:
                return self._commit()
            case 9:
                return self._fetch_offsets(version)
            case 13:
                return self._leave(version)
            case _:
                request: type[object] = APIS[key].request
                return any_value(request, version, self._random, self._known())

    def _known(self) -> Mapping[str, Any]:
        names, batch = self._names, build_batch([Record(key=b"k", value=b"v")])
        return {
            "groupId": self._group,
            "group_id": self._group,
            "topicName": names.topic,
            "topic_id": names.topic_id,
            "member_id": self._member_id,
            "transactionalId": f"{self._group}-t",
            "generation_id": self._generation,
            "records": [batch, batch, batch * 2, batch[:-1], None, b""],
            "partition_index": [0, 1, 2, -1],
            "partition": [0, 1, 2, -1],
            "index": [0, 1, 2, -1],
            "max_wait_ms": [0, 0, 100],
            "min_bytes": [0, 1],
            "max_bytes": [1 << 20, 1],
            "partition_max_bytes": [1 << 20, 1],
            "timeout_ms": [100, 1_000],
            "acks": [1, -1, 0],
            "replica_id": -1,
        }

    def _api_versions(self) -> object:
        return ApiVersionsRequest(client_software_name="kwire-fuzz", client_software_version="1")

    def _metadata(self) -> object:
        return MetadataRequest(topics=[MetadataRequest.Topic(name=self._names.topic)])

    def _find_coordinator(self, version: int) -> object:
        if version < 4:
            return FindCoordinatorRequest(key=self._group)
        return FindCoordinatorRequest(coordinator_keys=[self._group])

    def _join(self, version: int) -> object:
        subscription = encode_stored(ConsumerProtocolSubscription(topics=[self._names.topic]), 0)
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS if version else -1,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.Protocol(name="range", metadata=subscription),
                JoinGroupRequest.Protocol(name="roundrobin", metadata=subscription),
            ],
        )

    def _sync(self) -> object:
        share = ConsumerProtocolAssignment.TopicPartition(topic=self._names.topic, partitions=[0, 1])
        content = encode_stored(ConsumerProtocolAssignment(assigned_partitions=[share]), 0)
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequest.Assignment(member_id=self._member_id, assignment=content)],
        )

    def _heartbeat(self) -> object:
        return HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)

    def _commit(self) -> object:
        partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=3, committed_metadata="m")
        topic = OffsetCommitRequest.Topic(name=self._names.topic, topic_id=self._names.topic_id, partitions=[partition])
        return OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[topic],
        )

    def _fetch_offsets(self, version: int) -> object:
        if version < 8:
            topic = OffsetFetchRequest.Topic(name=self._names.topic, partition_indexes=[0, 1])
            return OffsetFetchRequest(group_id=self._group, topics=[topic])
        inner = OffsetFetchRequest.Group.Topic(
            name=self._names.topic, topic_id=self._names.topic_id, partition_indexes=[0, 1]
        )
        return OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=self._group, topics=[inner])])

    def _leave(self, version: int) -> object:
        if version < 3:
            return LeaveGroupRequest(group_id=self._group, member_id=self._member_id)
        return LeaveGroupRequest(group_id=self._group, members=[LeaveGroupRequest.Member(member_id=self._member_id)])


def shared(offered: Mapping[int, range]) -> dict[int, Sequence[int]]:
    """Return the versions that both broker and kwire support, by API key.

    APIs without a common version have no entry.

    Args:
        offered: versions that the broker supports, by API key.
    """
    common: dict[int, Sequence[int]] = {}
    for key, versions in offered.items():
        if key in APIS and (both := [version for version in versions_of(APIS[key].versions) if version in versions]):
            common[key] = both
    return common


def due(data: bytes, offered: Mapping[int, range]) -> float:
    """Return the maximum time, in seconds, that a broker may take to respond to bytes or to close the connection.

    The result is infinite if the bytes are an incomplete request or a request without a response, if the broker
    but not kwire knows the API, or if the broker may wait longer than LONGEST_WAIT.

    Args:
        data: bytes that were sent to the broker.
        offered: versions that the broker supports, by API key.
    """
    if len(data) < 4 or struct.unpack_from(">i", data)[0] > len(data) - 4:
        return math.inf  # incomplete: the broker waits for the rest
    try:
        body: Any = decode_request(data[4:]).body
    except WireError:
        key = struct.unpack_from(">h", data, 4)[0] if len(data) >= 6 else -1
        return math.inf if key in offered and key not in APIS else RESPONSE_TIME
    if getattr(body, "acks", 1) == 0:
        return math.inf
    waits = [getattr(body, name, 0) for name in ("max_wait_ms", "timeout_ms", "session_timeout_ms")]
    if isinstance(body, (JoinGroupRequest, SyncGroupRequest)):
        waits += [SESSION_MS, getattr(body, "rebalance_timeout_ms", 0)]
    longest = max(waits) / 1000
    return math.inf if longest > LONGEST_WAIT else max(longest, 0) + RESPONSE_TIME
