"""The operations of an administrator, for each client that supports them: topics, configurations, groups and offsets.

A class has the operations that its client has. kcat has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from interop.adapters import FranzGo, Java, KafkaJs, Program
from interop.stage import LIMIT, Owned, need_client


class Admin(Protocol):
    """All operations of an administrator."""

    def __init__(self, bootstrap: str) -> None: ...

    def create_topic(self, topic: str, partitions: int, replicas: int = 1) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def create_partitions(self, topic: str, partitions: int) -> None:
        """Add partitions up to this total number."""

    def partitions(self) -> Mapping[str, int]:
        """Return the number of partitions by topic."""

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the earliest offset and the end offset of a partition."""

    def configs(self, topic: str) -> Mapping[str, str]: ...

    def set_config(self, topic: str, name: str, value: str) -> None: ...

    def broker_configs(self, node: int) -> Mapping[str, str | None]: ...

    def set_broker_config(self, node: int, name: str, value: str) -> None: ...

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete records, and return the new log start offset."""

    def has_acls(self) -> bool:
        """Return False if the broker reports that it has no authorizer. librdkafka does not report it, even for Kafka 4.2."""

    def nodes(self) -> Sequence[int]:
        """Return the ids of the brokers."""

    def groups(self) -> Sequence[str]: ...

    def members(self, group: str) -> tuple[str, Mapping[str, list[Owned]]]:
        """Return the state of a group, and the partitions of its members by client id."""

    def committed(self, group: str) -> Mapping[Owned, int]: ...

    def commit_for(self, group: str, topic: str, partition: int, offset: int) -> None: ...

    def delete_offset(self, group: str, topic: str, partition: int) -> None: ...

    def delete_group(self, group: str) -> None: ...

    def transactions(self) -> Mapping[str, str]:
        """Return the states of transactions by transactional id."""

    def transaction(self, transactional_id: str) -> tuple[str, int, list[Owned]]:
        """Return the state of a transaction, its timeout in milliseconds, and the partitions in it."""

    def producers(self, topic: str, partition: int) -> list[ActiveProducer]: ...

    def abort(self, topic: str, partition: int, producer: ActiveProducer) -> None:
        """Abort the transaction of the producer in this partition."""

    def fence(self, transactional_id: str) -> None: ...


class ActiveProducer(NamedTuple):
    """An active producer of a partition. ``start``: first offset of its open transaction, -1 if there is none."""

    producer_id: int
    epoch: int
    start: int


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        need_client("kafka-python")
        self.bootstrap = bootstrap

    def _ask(self, call: Callable[[Any], Any]) -> Any:
        from kafka import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            return call(admin)
        finally:
            admin.close()

    def _partition(self, topic: str, partition: int) -> Any:
        from kafka import TopicPartition

        return TopicPartition(topic, partition)

    def create_topic(self, topic: str, partitions: int, replicas: int = 1) -> None:
        wanted = {topic: {"num_partitions": partitions, "replication_factor": replicas}}
        self._ask(lambda admin: admin.create_topics(wanted))

    def delete_topic(self, topic: str) -> None:
        self._ask(lambda admin: admin.delete_topics([topic]))

    def create_partitions(self, topic: str, partitions: int) -> None:
        self._ask(lambda admin: admin.create_partitions({topic: partitions}))

    def partitions(self) -> Mapping[str, int]:
        topics = self._ask(lambda admin: admin.describe_topics())
        return {topic["name"]: len(topic["partitions"]) for topic in topics}

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        at = self._partition(topic, partition)
        first, last = (
            self._ask(lambda admin, which=which: admin.list_partition_offsets({at: which}))[at] for which in (-2, -1)
        )
        return first.offset, last.offset

    def configs(self, topic: str) -> Mapping[str, str]:
        from kafka.admin import ConfigResource, ConfigResourceType

        resources = [ConfigResource(ConfigResourceType.TOPIC, topic)]
        configs = self._ask(lambda admin: admin.describe_configs(resources, config_filter="all"))["topic"][topic]
        return {name: entry["value"] for name, entry in configs.items()}

    def set_config(self, topic: str, name: str, value: str) -> None:
        from kafka.admin import ConfigResource, ConfigResourceType

        wanted = [ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})]
        self._ask(lambda admin: admin.alter_configs(wanted))

    def broker_configs(self, node: int) -> Mapping[str, str | None]:
        from kafka.admin import ConfigResource, ConfigResourceType

        resources = [ConfigResource(ConfigResourceType.BROKER, str(node))]
        configs = self._ask(lambda admin: admin.describe_configs(resources, config_filter="all"))["broker"][str(node)]
        return {name: entry["value"] for name, entry in configs.items()}

    def set_broker_config(self, node: int, name: str, value: str) -> None:
        from kafka.admin import ConfigResource, ConfigResourceType

        wanted = [ConfigResource(ConfigResourceType.BROKER, str(node), {name: value})]
        self._ask(lambda admin: admin.alter_configs(wanted))

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        at = self._partition(topic, partition)
        low_watermark: int = self._ask(lambda admin: admin.delete_records({at: before}))[at]["low_watermark"]
        return low_watermark

    def has_acls(self) -> bool:
        from kafka.admin import (
            ACLFilter,
            ACLOperation,
            ACLPermissionType,
            ACLResourcePatternType,
            ResourcePatternFilter,
            ResourceType,
        )
        from kafka.errors import SecurityDisabledError

        every = ACLFilter(
            principal=None,
            host="*",
            operation=ACLOperation.ANY,
            permission_type=ACLPermissionType.ANY,
            resource_pattern=ResourcePatternFilter(ResourceType.TOPIC, "orders", ACLResourcePatternType.ANY),
        )
        try:
            self._ask(lambda admin: admin.describe_acls(every))
        except SecurityDisabledError:
            return False
        return True

    def nodes(self) -> Sequence[int]:
        cluster = self._ask(lambda admin: admin.describe_cluster())
        return [broker["broker_id"] for broker in cluster["brokers"]]

    def groups(self) -> Sequence[str]:
        return [group["group_id"] for group in self._ask(lambda admin: admin.list_groups())]

    def members(self, group: str) -> tuple[str, Mapping[str, list[Owned]]]:
        description = self._ask(lambda admin: admin.describe_groups([group]))[group]
        return description["group_state"], {
            member["client_id"]: [
                (topic["topic"], partition)
                for topic in member["member_assignment"]["assigned_partitions"]
                for partition in topic["partitions"]
            ]
            for member in description["members"]
        }

    def committed(self, group: str) -> Mapping[Owned, int]:
        offsets = self._ask(lambda admin: admin.list_group_offsets({group: None}))[group]
        return {(at.topic, at.partition): value.offset for at, value in offsets.items()}

    def commit_for(self, group: str, topic: str, partition: int, offset: int) -> None:
        from kafka import OffsetAndMetadata

        wanted = {self._partition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._all_well(self._ask(lambda admin: admin.alter_group_offsets(group, wanted)))

    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        unwanted = [self._partition(topic, partition)]
        self._all_well(self._ask(lambda admin: admin.delete_group_offsets(group, unwanted)))

    def delete_group(self, group: str) -> None:
        assert self._ask(lambda admin: admin.delete_groups([group])) == {group: "OK"}

    def transactions(self) -> Mapping[str, str]:
        by_broker = self._ask(lambda admin: admin.list_transactions())
        return {each.transactional_id: each.state.value for transactions in by_broker.values() for each in transactions}

    def transaction(self, transactional_id: str) -> tuple[str, int, list[Owned]]:
        description = self._ask(lambda admin: admin.describe_transactions([transactional_id]))[transactional_id]
        places = [(at.topic, at.partition) for at in description.topic_partitions]
        return description.state.value, description.transaction_timeout_ms, sorted(places)

    def producers(self, topic: str, partition: int) -> list[ActiveProducer]:
        at = self._partition(topic, partition)
        producers = self._ask(lambda admin: admin.describe_producers([at]))[at].active_producers
        return [
            ActiveProducer(each.producer_id, each.producer_epoch, each.current_transaction_start_offset)
            for each in producers
        ]

    def abort(self, topic: str, partition: int, producer: ActiveProducer) -> None:
        from kafka.admin import AbortTransactionSpec

        spec = AbortTransactionSpec(self._partition(topic, partition), producer.producer_id, producer.epoch)
        self._ask(lambda admin: admin.abort_transaction(spec))

    def _all_well(self, errors: Mapping[Any, Any]) -> None:
        assert [error.errno for error in errors.values()] == [0]


class ConfluentKafka:
    def __init__(self, bootstrap: str) -> None:
        need_client("confluent-kafka")
        from confluent_kafka.admin import AdminClient

        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topic(self, topic: str, partitions: int, replicas: int = 1) -> None:
        from confluent_kafka.admin import NewTopic

        self._only(self._admin.create_topics([NewTopic(topic, partitions, replicas)]))

    def delete_topic(self, topic: str) -> None:
        self._only(self._admin.delete_topics([topic]))

    def create_partitions(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        self._only(self._admin.create_partitions([NewPartitions(topic, partitions)]))

    def partitions(self) -> Mapping[str, int]:
        topics = self._admin.list_topics(timeout=LIMIT).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        at = TopicPartition(topic, partition)
        first, last = (
            self._only(self._admin.list_offsets({at: which})) for which in (OffsetSpec.earliest(), OffsetSpec.latest())
        )
        return first.offset, last.offset

    def configs(self, topic: str) -> Mapping[str, str]:
        from confluent_kafka.admin import ConfigResource

        configs = self._only(self._admin.describe_configs([ConfigResource("topic", topic)]))
        return {name: entry.value for name, entry in configs.items()}

    def set_config(self, topic: str, name: str, value: str) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        wanted = ConfigResource("topic", topic, incremental_configs=[change])
        self._only(self._admin.incremental_alter_configs([wanted]))

    def broker_configs(self, node: int) -> Mapping[str, str | None]:
        from confluent_kafka.admin import ConfigResource

        configs = self._only(self._admin.describe_configs([ConfigResource("broker", str(node))]))
        return {name: entry.value for name, entry in configs.items()}

    def set_broker_config(self, node: int, name: str, value: str) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        wanted = ConfigResource("broker", str(node), incremental_configs=[change])
        self._only(self._admin.incremental_alter_configs([wanted]))

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        from confluent_kafka import TopicPartition

        low_watermark: int = self._only(
            self._admin.delete_records([TopicPartition(topic, partition, before)])
        ).low_watermark
        return low_watermark

    def nodes(self) -> Sequence[int]:
        return [node.id for node in self._admin.describe_cluster().result(LIMIT).nodes]

    def groups(self) -> Sequence[str]:
        return [group.group_id for group in self._admin.list_consumer_groups().result(LIMIT).valid]

    def members(self, group: str) -> tuple[str, Mapping[str, list[Owned]]]:
        description = self._only(self._admin.describe_consumer_groups([group]))
        return description.state.name.title(), {
            member.client_id: [(at.topic, at.partition) for at in member.assignment.topic_partitions]
            for member in description.members
        }

    def committed(self, group: str) -> Mapping[Owned, int]:
        from confluent_kafka import ConsumerGroupTopicPartitions

        offsets = self._only(self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {(at.topic, at.partition): at.offset for at in offsets.topic_partitions}

    def commit_for(self, group: str, topic: str, partition: int, offset: int) -> None:
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
        self._only(self._admin.alter_consumer_group_offsets([wanted]))

    def delete_group(self, group: str) -> None:
        self._only(self._admin.delete_consumer_groups([group]))

    def _only(self, futures: Mapping[Any, Any]) -> Any:
        (future,) = futures.values()
        return future.result(LIMIT)


class AioKafka:
    def __init__(self, bootstrap: str) -> None:
        need_client("aiokafka")
        self.bootstrap = bootstrap

    def _ask(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        from aiokafka.admin import AIOKafkaAdminClient

        async def run() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                return await call(admin)
            finally:
                await admin.close()

        return asyncio.run(asyncio.wait_for(run(), LIMIT))

    def create_topic(self, topic: str, partitions: int, replicas: int = 1) -> None:
        from aiokafka.admin import NewTopic

        answer = self._ask(lambda admin: admin.create_topics([NewTopic(topic, partitions, replicas)]))
        assert [error[1] for error in answer.topic_errors] == [0]

    def delete_topic(self, topic: str) -> None:
        assert self._ask(lambda admin: admin.delete_topics([topic])).topic_error_codes == [(topic, 0)]

    def create_partitions(self, topic: str, partitions: int) -> None:
        from aiokafka.admin import NewPartitions

        answer = self._ask(lambda admin: admin.create_partitions({topic: NewPartitions(partitions)}))
        assert [error[1] for error in answer.topic_errors] == [0]

    def partitions(self) -> Mapping[str, int]:
        topics = self._ask(lambda admin: admin.describe_topics())
        return {topic["topic"]: len(topic["partitions"]) for topic in topics}

    def configs(self, topic: str) -> Mapping[str, str]:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        resources = [ConfigResource(ConfigResourceType.TOPIC, topic)]
        (answer,) = self._ask(lambda admin: admin.describe_configs(resources))
        (resource,) = answer.resources
        return {entry[0]: entry[1] for entry in resource[-1]}

    def nodes(self) -> Sequence[int]:
        return [broker["node_id"] for broker in self._ask(lambda admin: admin.describe_cluster())["brokers"]]

    def groups(self) -> Sequence[str]:
        return [group for group, _ in self._ask(lambda admin: admin.list_consumer_groups())]

    def members(self, group: str) -> tuple[str, Mapping[str, list[Owned]]]:
        from aiokafka.coordinator.protocol import ConsumerProtocol

        (answer,) = self._ask(lambda admin: admin.describe_consumer_groups([group]))
        ((_, _, state, _, _, members, *_),) = answer.groups
        return state, {
            member[1]: [
                (topic, partition)
                for topic, partitions in ConsumerProtocol.ASSIGNMENT.decode(member[-1]).assignment
                for partition in partitions
            ]
            for member in members
        }

    def committed(self, group: str) -> Mapping[Owned, int]:
        offsets = self._ask(lambda admin: admin.list_consumer_group_offsets(group))
        return {(at.topic, at.partition): value.offset for at, value in offsets.items()}


class ProgramAdmin(Program):
    """All operations but one, over the pipe; an operation that the client does not have is an error there."""

    def delete_topic(self, topic: str) -> None:
        self.ask("delete_topic", topic=topic)

    def create_partitions(self, topic: str, partitions: int) -> None:
        self.ask("create_partitions", topic=topic, partitions=partitions)

    def partitions(self) -> Mapping[str, int]:
        partitions: Mapping[str, int] = self.ask("partitions")
        return partitions

    def configs(self, topic: str) -> Mapping[str, str]:
        configs: Mapping[str, str] = self.ask("configs", topic=topic)
        return configs

    def nodes(self) -> Sequence[int]:
        nodes: Sequence[int] = self.ask("nodes")
        return nodes

    def groups(self) -> Sequence[str]:
        groups: Sequence[str] = self.ask("groups")
        return groups

    def members(self, group: str) -> tuple[str, Mapping[str, list[Owned]]]:
        members = self.ask("members", group=group)
        shares = {client: [(topic, index) for topic, index in share] for client, share in members["members"].items()}
        return members["state"], shares

    def committed(self, group: str) -> Mapping[Owned, int]:
        return {(topic, partition): offset for topic, partition, offset in self.ask("committed", group=group)}

    def commit_for(self, group: str, topic: str, partition: int, offset: int) -> None:
        self.ask("commit_for", group=group, topic=topic, partition=partition, offset=offset)

    def delete_group(self, group: str) -> None:
        self.ask("delete_group", group=group)


class ProgramTransactions(Program):
    """The operations about transactions, over the pipe."""

    def transactions(self) -> Mapping[str, str]:
        transactions: Mapping[str, str] = self.ask("transactions")
        return transactions

    def transaction(self, transactional_id: str) -> tuple[str, int, list[Owned]]:
        state, timeout_ms, places = self.ask("transaction", transactional_id=transactional_id)
        return state, timeout_ms, [(topic, index) for topic, index in places]

    def producers(self, topic: str, partition: int) -> list[ActiveProducer]:
        return [ActiveProducer(*producer) for producer in self.ask("producers", topic=topic, partition=partition)]

    def abort(self, topic: str, partition: int, producer: ActiveProducer) -> None:
        who = {"producer_id": producer.producer_id, "epoch": producer.epoch}
        self.ask("abort", topic=topic, partition=partition, **who)


class JavaAdmin(ProgramAdmin, ProgramTransactions, Java):
    def fence(self, transactional_id: str) -> None:
        self.ask("fence", transactional_id=transactional_id)

    def set_config(self, topic: str, name: str, value: str) -> None:
        self.ask("set_config", topic=topic, name=name, value=value)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        low_watermark: int = self.ask("delete_records", topic=topic, partition=partition, before=before)
        return low_watermark

    def has_acls(self) -> bool:
        answer: bool = self.ask("has_acls")
        return answer

    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        self.ask("delete_offset", group=group, topic=topic, partition=partition)


class FranzGoAdmin(ProgramAdmin, ProgramTransactions, FranzGo):
    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        self.ask("delete_offset", group=group, topic=topic, partition=partition)


class KafkaJsAdmin(ProgramAdmin, KafkaJs):
    pass


ADMINS: Mapping[str, Any] = {
    "kafka-python": KafkaPython,
    "confluent-kafka": ConfluentKafka,
    "aiokafka": AioKafka,
    "java": JavaAdmin,
    "franz-go": FranzGoAdmin,
    "kafkajs": KafkaJsAdmin,
}
