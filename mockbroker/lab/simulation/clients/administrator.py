"""Clients in the simulation that administer topics, configurations, access rules and records, or that are affected by
such changes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kwire.messages.create_acls import CreateAclsRequest
from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_acls import DeleteAclsRequest
from kwire.messages.delete_records import DeleteRecordsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.records.batch import Record, build_batch
from mockbroker.lab.simulation.clients.client import Client
from mockbroker.lab.simulation.clients.direct import DirectClient
from mockbroker.lab.simulation.clients.fetcher import Fetcher
from mockbroker.lab.simulation.clients.leaders import METADATA_VERSION, Leaders
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.history import LATEST, NOTHING, Deletion, RegisterOperation, Result
from mockbroker.lab.simulation.network import Wire

GUARDED = "guarded"  # topic that only probers write to, and that access rules protect
SCRATCH = ("s0", "s1")  # topics that are created and deleted
CONFIG = "flush.messages"  # configuration without an effect on the simulation
MOST_PARTITIONS = 6
TOPIC, LITERAL, WRITE, DENY = 2, 3, 4, 2  # codes of an access rule
TOPIC_CONFIG = 1  # config_source of a value that is set for the topic
SET, DELETE = 0, 1  # operations of IncrementalAlterConfigs
EVERYONE = "User:ANONYMOUS"


def ignore(_: object) -> None:
    """Do nothing. This function is a callback for a response or a read that the client ignores."""


class Administrator(Client):
    """An administrator that changes topics, configurations, access rules and records, one operation after the other.

    Each operation is recorded in the history as a write or read of a register.

    Attributes:
        leaders: connections to the brokers, and the leaders of the topics of the script.
    """

    def begin(self) -> None:
        self.leaders = Leaders(self)
        self.fetcher = Fetcher(self, self.leaders, 0, 0, dict, ignore)
        self.leaders.start()
        self.later(0.5, self._create, GUARDED, 1)
        self.later(self.script.commit, self._step)

    def find(self) -> None:
        """Do nothing: an administrator is in no group and needs no coordinator."""

    def _step(self) -> None:
        self.later(self.script.commit * (0.2 + self.dice.random()), self._step)
        if self.leaders.any_broker() is None:
            return
        name = self.dice.pick(SCRATCH)
        steps: list[Callable[[], None]] = [
            lambda: self._create(name, self.dice.whole(1, 3)),
            lambda: self._delete(name),
            lambda: self._extend(name, self.dice.whole(2, MOST_PARTITIONS)),
            lambda: self._describe(name),
            lambda: self._describe(name),
            lambda: self._configure(self.dice.pick([NOTHING, 10, 20, 30])),
            self._describe_config,
            self._deny,
            self._allow,
            self._truncate,
            self._reassign,
        ]
        self.dice.pick(steps)()

    def _ask(self, api_key: int, version: int, request: object, then: Callable[..., None]) -> None:
        wire = self.leaders.any_broker()
        if wire is not None:
            self.send(wire, api_key, version, request, then)

    def _operation(self, name: str, value: int, *, write: bool) -> RegisterOperation:
        operation = RegisterOperation(name, value, write, self.queue.now)
        if write:
            self.history.registers.append(operation)
        return operation

    def _was_written(self, operation: RegisterOperation, error: int) -> None:
        operation.result = Result.REFUSED if error else Result.DONE
        operation.done_at = self.queue.now

    def _was_read(self, operation: RegisterOperation, value: int) -> None:
        operation.value, operation.result, operation.done_at = value, Result.DONE, self.queue.now
        self.history.registers.append(operation)

    # --- topics ---

    def _create(self, name: str, count: int) -> None:
        topic = CreateTopicsRequest.Topic(name=name, num_partitions=count, replication_factor=1)
        operation = self._operation(f"topic {name}", count, write=True)
        self._ask(
            ApiKey.CREATE_TOPICS,
            7,
            CreateTopicsRequest(topics=[topic], timeout_ms=1_000),
            lambda answer: self._was_written(operation, answer.topics[0].error_code),
        )

    def _delete(self, name: str) -> None:
        operation = self._operation(f"topic {name}", NOTHING, write=True)
        self._ask(
            ApiKey.DELETE_TOPICS,
            6,
            DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name=name)], timeout_ms=1_000),
            lambda answer: self._was_written(operation, answer.responses[0].error_code),
        )

    def _extend(self, name: str, count: int) -> None:
        topic = CreatePartitionsRequest.Topic(name=name, count=count, assignments=None)
        operation = self._operation(f"topic {name}", count, write=True)
        self._ask(
            ApiKey.CREATE_PARTITIONS,
            3,
            CreatePartitionsRequest(topics=[topic], timeout_ms=1_000),
            lambda answer: self._was_written(operation, answer.results[0].error_code),
        )

    def _describe(self, name: str) -> None:
        operation = self._operation(f"topic {name}", NOTHING, write=False)

        def described(answer: MetadataResponse) -> None:
            (topic,) = answer.topics
            if topic.error_code in (E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION):
                self._was_read(operation, NOTHING if topic.error_code else len(topic.partitions))

        request = MetadataRequest(topics=[MetadataRequest.Topic(name=name)], allow_auto_topic_creation=False)
        self._ask(ApiKey.METADATA, METADATA_VERSION, request, described)

    # --- configurations ---

    def _configure(self, value: int) -> None:
        kind = IncrementalAlterConfigsRequest.Resource
        text, how = (None, DELETE) if value == NOTHING else (str(value), SET)
        config = kind.Config(name=CONFIG, config_operation=how, value=text)
        resource = kind(resource_type=TOPIC, resource_name=min(self.topics), configs=[config])
        operation = self._operation("configuration", value, write=True)
        self._ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            IncrementalAlterConfigsRequest(resources=[resource]),
            lambda answer: self._was_written(operation, answer.responses[0].error_code),
        )

    def _describe_config(self) -> None:
        kind = DescribeConfigsRequest.Resource
        resource = kind(resource_type=TOPIC, resource_name=min(self.topics), configuration_keys=[CONFIG])
        operation = self._operation("configuration", NOTHING, write=False)

        def described(answer: Any) -> None:
            (result,) = answer.results
            if not result.error_code:
                (config,) = result.configs
                self._was_read(operation, int(config.value) if config.config_source == TOPIC_CONFIG else NOTHING)

        self._ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource]), described)

    # --- access rules ---

    def _deny(self) -> None:
        rule = CreateAclsRequest.Creation(
            resource_type=TOPIC, resource_name=GUARDED, resource_pattern_type=LITERAL, principal=EVERYONE, host="*",
            operation=WRITE, permission_type=DENY,
        )  # fmt: skip
        operation = self._operation("access", DENY, write=True)
        self._ask(
            ApiKey.CREATE_ACLS,
            3,
            CreateAclsRequest(creations=[rule]),
            lambda answer: self._was_written(operation, answer.results[0].error_code),
        )

    def _allow(self) -> None:
        rule = DeleteAclsRequest.Filter(
            resource_type_filter=TOPIC, resource_name_filter=GUARDED, pattern_type_filter=LITERAL,
            principal_filter=EVERYONE, host_filter="*", operation=WRITE, permission_type=DENY,
        )  # fmt: skip
        operation = self._operation("access", NOTHING, write=True)
        self._ask(
            ApiKey.DELETE_ACLS,
            3,
            DeleteAclsRequest(filters=[rule]),
            lambda answer: self._was_written(operation, answer.filter_results[0].error_code),
        )

    # --- records and replicas ---

    def _truncate(self) -> None:
        """Delete the records of a random partition before a random offset, up to the end offset from ListOffsets."""
        if places := [place for place in self.leaders.known() if place[0] in self.topics]:
            self.fetcher.list_offsets([self.dice.pick(places)], LATEST, self._delete_records)

    def _delete_records(self, place: Place, end: int) -> None:
        node = self.leaders.nodes.get(place)
        if not end or node is None:
            return
        offset = self.dice.whole(0, end)
        deletion = Deletion(place, offset, self.queue.now)
        self.history.deletions.append(deletion)

        def deleted(answer: Any) -> None:
            partition = answer.topics[0].partitions[0]
            if not partition.error_code:
                deletion.low_watermark, deletion.done_at = partition.low_watermark, self.queue.now

        kind = DeleteRecordsRequest.Topic
        topic = kind(name=place[0], partitions=[kind.Partition(partition_index=place[1], offset=offset)])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=1_000)
        self.send(self.leaders.wire(node), ApiKey.DELETE_RECORDS, 2, request, deleted)

    def _reassign(self) -> None:
        """Move a random partition to random brokers, or cancel its reassignment. Do nothing if no leader is known."""
        nodes, places = sorted(self.cluster().nodes), self.leaders.known()
        if not nodes or not places:
            return
        topic, index = self.dice.pick(places)
        kind = AlterPartitionReassignmentsRequest.Topic
        replicas = None if self.dice.chance(0.2) else self.dice.some(nodes)
        line = kind(name=topic, partitions=[kind.Partition(partition_index=index, replicas=replicas)])
        request = AlterPartitionReassignmentsRequest(timeout_ms=1_000, topics=[line])
        self._ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request, ignore)

    # --- the process ---

    def disconnected(self, connection: Wire) -> None:
        self.fetcher.disconnected(connection)
        self.leaders.disconnected(connection)

    def stop(self) -> None:
        if self.up:
            self.leaders.close()
        super().stop()


class Prober(DirectClient):
    """A producer that writes to a topic for which an administrator adds and removes a denying access rule (ACL).

    Each response shows whether the rule exists: the producer adds it to the history as a read of a register.
    """

    def begin(self) -> None:
        self.topics = (GUARDED,)
        super().begin()
        self.later(self.script.commit, self._probe)

    def _probe(self) -> None:
        self.later(self.script.commit * (0.2 + self.dice.random()), self._probe)
        leader = self.leaders.leader((GUARDED, 0))
        if leader is None:
            return
        operation = RegisterOperation("access", NOTHING, False, self.queue.now, inf)
        kind = ProduceRequest.Topic
        partition = kind.Partition(index=0, records=build_batch([Record(value=b"probe", timestamp=1)]))
        request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[kind(name=GUARDED, partition_data=[partition])])
        self.send(leader, ApiKey.PRODUCE, 9, request, lambda answer: self._probed(operation, answer))

    def _probed(self, operation: RegisterOperation, answer: ProduceResponse) -> None:
        error = answer.responses[0].partition_responses[0].error_code
        if error in (E.NONE, E.TOPIC_AUTHORIZATION_FAILED):
            operation.value = DENY if error else NOTHING
            operation.result, operation.done_at = Result.DONE, self.queue.now
            self.history.registers.append(operation)
        else:
            self.leaders.refresh_later()
