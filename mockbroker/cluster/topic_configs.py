"""Names, types and defaults of Kafka's topic configurations.

Source: org.apache.kafka.common.config.TopicConfig of 4.2, as DescribeConfigs tells them.
"""

from dataclasses import dataclass

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = range(1, 8)  # types as DescribeConfigs numbers them


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """``default``: as text, as everything in configurations."""

    default: str
    type: int


TOPIC_CONFIGS = {
    "cleanup.policy": TopicConfig("delete", LIST),
    "compression.gzip.level": TopicConfig("-1", INT),
    "compression.lz4.level": TopicConfig("9", INT),
    "compression.type": TopicConfig("producer", STRING),
    "compression.zstd.level": TopicConfig("3", INT),
    "delete.retention.ms": TopicConfig("86400000", LONG),
    "file.delete.delay.ms": TopicConfig("60000", LONG),
    "flush.messages": TopicConfig("9223372036854775807", LONG),
    "flush.ms": TopicConfig("9223372036854775807", LONG),
    "follower.replication.throttled.replicas": TopicConfig("", LIST),
    "index.interval.bytes": TopicConfig("4096", INT),
    "leader.replication.throttled.replicas": TopicConfig("", LIST),
    "local.retention.bytes": TopicConfig("-2", LONG),
    "local.retention.ms": TopicConfig("-2", LONG),
    "max.compaction.lag.ms": TopicConfig("9223372036854775807", LONG),
    "max.message.bytes": TopicConfig("1048588", INT),
    "message.timestamp.after.max.ms": TopicConfig("3600000", LONG),
    "message.timestamp.before.max.ms": TopicConfig("9223372036854775807", LONG),
    "message.timestamp.type": TopicConfig("CreateTime", STRING),
    "min.cleanable.dirty.ratio": TopicConfig("0.5", DOUBLE),
    "min.compaction.lag.ms": TopicConfig("0", LONG),
    "min.insync.replicas": TopicConfig("1", INT),
    "preallocate": TopicConfig("false", BOOLEAN),
    "remote.log.copy.disable": TopicConfig("false", BOOLEAN),
    "remote.log.delete.on.disable": TopicConfig("false", BOOLEAN),
    "remote.storage.enable": TopicConfig("false", BOOLEAN),
    "retention.bytes": TopicConfig("-1", LONG),
    "retention.ms": TopicConfig("604800000", LONG),
    "segment.bytes": TopicConfig("1073741824", INT),
    "segment.index.bytes": TopicConfig("10485760", INT),
    "segment.jitter.ms": TopicConfig("0", LONG),
    "segment.ms": TopicConfig("604800000", LONG),
    "unclean.leader.election.enable": TopicConfig("false", BOOLEAN),
}
