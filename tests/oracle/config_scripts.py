"""Conversations about the settings of brokers, which record.py records; each function is one conversation.

A conversation removes the settings that it has set, because others are played on the same broker.
"""

from __future__ import annotations

from collections.abc import Sequence

from fetch_scripts import create, produce
from prober import Prober
from script import NEW, script

from kwire.messages.alter_configs import AlterConfigsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

TOPIC, BROKER = 2, 4  # resource types
NODE, ALL = "1", ""
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]
Resource = IncrementalAlterConfigsRequest.Resource
LARGEST, POLICY, RETENTION = "message.max.bytes", "log.cleanup.policy", "log.retention.ms"


def changed(kind: int, name: str, changes: Sequence[Change]) -> Resource:
    configs = [Resource.Config(name=n, config_operation=operation, value=value) for n, operation, value in changes]
    return Resource(resource_type=kind, resource_name=name, configs=configs)


async def alter(p: Prober, name: str, *changes: Change, kind: int = BROKER, check: bool = False) -> None:
    altered = changed(kind, name, changes)
    await p.ask("A", IncrementalAlterConfigsRequest(resources=[altered], validate_only=check), 1)


async def check(p: Prober, *changes: Change, names: Sequence[str] = (NODE, ALL)) -> None:
    for name in names:
        await alter(p, name, *changes, check=True)


async def replace(p: Prober, name: str, given: dict[str, str | None], *, version: int = 2, check: bool = False) -> None:
    resource = AlterConfigsRequest.Resource
    configs = [resource.Config(name=key, value=value) for key, value in given.items()]
    replaced = resource(resource_type=BROKER, resource_name=name, configs=configs)
    await p.ask("A", AlterConfigsRequest(resources=[replaced], validate_only=check), version)


async def describe(p: Prober, name: str, *keys: str, kind: int = BROKER, synonyms: bool = True) -> None:
    await p.wait(300, "until the broker has heard of it")
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    await p.ask("D", DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms), 4)


@script()
async def broker_configs_altered(p: Prober) -> None:
    """IncrementalAlterConfigs of one broker and of all brokers: set, delete, append and subtract; sources and
    synonyms."""
    keys = LARGEST, POLICY
    for name, value in ((ALL, "3000"), (NODE, "2000")):
        await alter(p, name, (LARGEST, SET, value))
        await describe(p, NODE, *keys)
        await describe(p, ALL)
    await alter(p, ALL, (LARGEST, DELETE, None))
    await describe(p, NODE, *keys)
    await alter(p, NODE, (LARGEST, DELETE, "ignored"))
    await alter(p, ALL, (POLICY, APPEND, "compact"))
    await describe(p, NODE, *keys)
    await alter(p, NODE, (POLICY, SUBTRACT, "delete"))
    await describe(p, NODE, *keys)
    await alter(p, NODE, (POLICY, DELETE, None))
    await alter(p, ALL, (POLICY, DELETE, None))
    await alter(p, NODE, (LARGEST, SET, "5"), check=True)
    await alter(p, NODE, (LARGEST, SET, " 2001 "))
    await describe(p, NODE, *keys)
    await alter(p, NODE, (LARGEST, DELETE, None), ("num.partitions", DELETE, None))
    await describe(p, NODE, *keys, synonyms=False)
    await alter(p, NODE)


@script()
async def broker_configs_replaced(p: Prober) -> None:
    """AlterConfigs of a broker removes the configurations that the request does not name."""
    for version in (0, 1, 2):
        for given in ({LARGEST: "3000"}, {RETENTION: "4000"}, {}):
            await replace(p, NODE, dict(given), version=version)
            await describe(p, NODE, LARGEST, RETENTION)
    for given in ({LARGEST: "x"}, {LARGEST: None}, {"num.partitions": "3"}):
        await replace(p, NODE, dict(given), check=True)
    await replace(p, "2", {LARGEST: "3000"}, check=True)


@script()
async def broker_configs_scopes(p: Prober) -> None:
    """Configurations that are read-only, per broker only, or per listener only."""
    for name in ("num.partitions", "log.retention.hours", "node.id", "fetch.max.bytes", "group.max.size"):
        await check(p, (name, SET, "1"))
    for name in ("ssl.client.auth", "sasl.enabled.mechanisms", "sasl.kerberos.kinit.cmd", "ssl.protocol"):
        await check(p, (name, SET, "none"))
    await check(p, ("ssl.keystore.location", SET, "x"), ("ssl.key.password", SET, "x"))
    await check(p, *((name, SET, "1") for name in ("num.partitions", "fetch.max.bytes", "group.max.size")))
    await check(p, ("group.max.size", SET, "10"), ("ssl.keystore.location", SET, "x"))
    await check(p, (LARGEST, SET, "x"), ("ssl.keystore.location", SET, "x"))
    await check(p, ("ssl.client.auth", SET, "none"), (LARGEST, SET, "x"))
    await check(p, ("no.such.setting", SET, "1"))
    await check(p, ("no.such.setting", SET, "1"), ("num.partitions", SET, "1"))
    prefix = "listener.name.plaintext."
    for name in ("max.connections", "ssl.keystore.location", "ssl.truststore.password", "num.partitions", "nonsense"):
        await check(p, (prefix + name, SET, "1"))
    await check(p, (prefix + "max.connections", SET, "x"))
    for node in ("2", "x", "-1", "01", " 1"):
        await check(p, (LARGEST, SET, "2000"), names=[node])


@script()
async def broker_configs_validated(p: Prober) -> None:
    """Configuration values and changes that brokers refuse, and the nearest values that they accept."""
    for value in ("nonsense", "-1", "", None, "99999999999", " 5 ", "1.5"):
        await check(p, (LARGEST, SET, value), names=[NODE])
    for operation in (APPEND, SUBTRACT, 9):
        await check(p, (LARGEST, operation, "1"), names=[NODE])
    await check(p, (LARGEST, SET, "1"), (LARGEST, SET, "2"), names=[NODE])
    await check(p, ("no.such.setting", APPEND, "1"), names=[NODE])
    values = {
        "num.io.threads": "3 4 16 17 0",
        "num.network.threads": "1 6 7",
        "num.replica.fetchers": "2 3",
        "background.threads": "4 5 20 21",
        "log.cleaner.threads": "0 2 3",
        "log.retention.ms": "0 -1 -2",
        "log.roll.ms": "0 1",
        "log.roll.jitter.ms": "-1 0",
        "log.cleaner.dedupe.buffer.size": "1 1048576 1048577",
        "log.local.retention.ms": "-3 -2 999999999999",
        "log.retention.bytes": "-2 5",
        "max.connections": "-1 0 1",
        "max.connections.per.ip": "0 1",
        "max.connections.per.ip.overrides": "127.0.0.1:5,127.0.0.2:6 127.0.0.1",
        "max.connection.creation.rate": "0 5",
        POLICY: "delete,compact x delete,x",
        "log.message.timestamp.type": "x LogAppendTime",
        "compression.type": "x gzip",
        "compression.gzip.level": "0 9 10",
        "log.cleaner.min.cleanable.ratio": "2 0.5 x",
        "unclean.leader.election.enable": "x TRUE",
        "metric.reporters": "x",
        "producer.id.expiration.ms": "0 10",
        "ssl.client.auth": "x required",
        "principal.builder.class": "x",
        "leader.replication.throttled.rate": "100 x -1",
    }
    for name, texts in values.items():
        for text in texts.split():
            await check(p, (name, SET, text), names=[NODE])
    lags = ("log.cleaner.min.compaction.lag.ms", SET, "10"), ("log.cleaner.max.compaction.lag.ms", SET, "5")
    await check(p, *lags)


@script()
async def broker_configs_of_several_resources(p: Prober) -> None:
    """IncrementalAlterConfigs of several resources: each has its own result."""
    good, bad = (LARGEST, SET, "5"), (LARGEST, SET, "x")
    for resources in (
        [(BROKER, NODE, good), (BROKER, ALL, bad), (TOPIC, "probe", ("retention.ms", SET, "5"))],
        [(BROKER, NODE, good), (BROKER, NODE, good), (BROKER, ALL, good)],
        [(BROKER, NODE, ("num.partitions", SET, "3")), (TOPIC, "not-there", ("retention.ms", SET, "5"))],
    ):
        altered = [changed(kind, name, [change]) for kind, name, change in resources]
        await p.ask("A", IncrementalAlterConfigsRequest(resources=altered, validate_only=True), 1)


@script()
async def broker_configs_are_defaults_of_topics(p: Prober) -> None:
    """Broker configurations are the defaults of topics; their sources and synonyms, also of synonyms in other units."""
    topic = await create(p, partitions=1)
    keys = "retention.ms", "segment.ms", "segment.jitter.ms", "flush.ms", "max.message.bytes", "cleanup.policy"
    await describe(p, topic, kind=TOPIC)
    for_all = ((RETENTION, "5000"), ("log.roll.ms", "77"), ("log.flush.interval.ms", "9"), (LARGEST, "2000"))
    for_one = ((RETENTION, "6000"), ("log.roll.jitter.ms", "3"))
    await alter(p, ALL, *((name, SET, value) for name, value in for_all))
    await alter(p, NODE, *((name, SET, value) for name, value in for_one))
    await describe(p, topic, *keys, kind=TOPIC)
    of_brokers = "log.retention.ms", "log.retention.hours", "log.retention.minutes", "log.roll.ms", "log.roll.hours"
    more = "log.roll.jitter.ms", "log.roll.jitter.hours", "log.flush.interval.ms", "log.flush.scheduler.interval.ms"
    await describe(p, NODE, *of_brokers, *more)
    kind = CreateTopicsRequest.Topic
    wanted = kind(name="t-validated", num_partitions=1, replication_factor=1, configs=[])
    await p.ask("A", CreateTopicsRequest(topics=[wanted], validate_only=True), 7)
    await alter(p, topic, ("retention.ms", SET, "7000"), kind=TOPIC)
    await describe(p, topic, *keys, kind=TOPIC)
    await alter(p, NODE, *((name, DELETE, None) for name, _ in for_one))
    await alter(p, ALL, *((name, DELETE, None) for name, _ in for_all))
    await describe(p, topic, *keys, kind=TOPIC)


@script()
async def broker_configs_take_effect(p: Prober) -> None:
    """message.max.bytes limits batches as soon as it is changed; the value of the broker has precedence over the
    cluster default."""
    topic = await create(p, partitions=1)
    large = b"x" * 500
    await produce(p, topic, 0, large)
    for name, value in ((ALL, "100"), (NODE, "1000"), (ALL, None), (NODE, None)):
        await alter(p, name, (LARGEST, DELETE if value is None else SET, value))
        await p.wait(300, "until the broker has heard of it")
        await produce(p, topic, 0, large)


@script()
async def broker_configs_of_unknown_names(p: Prober) -> None:
    """Unknown configurations are accepted and described as sensitive; so are configurations with a listener prefix."""
    names = "no.such.setting", "listener.name.plaintext.nonsense", "listener.name.plaintext.max.connections"
    await alter(p, NODE, *((name, SET, "500") for name in names))
    await describe(p, NODE, *names, "max.connections")
    await alter(p, NODE, *((name, DELETE, None) for name in names))
    await describe(p, NODE, *names, "max.connections")


@script(releases=(NEW,))
async def broker_configs_with_eligible_replicas(p: Prober) -> None:
    """min.insync.replicas with eligible leader replicas (KIP-966) can only be set for all brokers, and cannot be
    removed."""
    setting = "min.insync.replicas"
    await describe(p, ALL)
    await describe(p, NODE, setting)
    for name in (NODE, ALL):
        for change in ((setting, SET, "0"), (setting, SET, "2"), (setting, DELETE, None)):
            await alter(p, name, change, check=True)
    await replace(p, ALL, {LARGEST: "4000"}, check=True)
    await replace(p, ALL, {}, check=True)
    await replace(p, ALL, {LARGEST: "4000", setting: "2"})
    await describe(p, ALL)
    await describe(p, NODE, setting)
    await describe(p, "probe", setting, kind=TOPIC)
    await replace(p, ALL, {setting: "1"})
    await describe(p, ALL)


@script(releases=(NEW,))
async def broker_loggers(p: Prober) -> None:
    """Log levels of broker loggers: invalid logger names and levels are refused, and the level of the root logger is
    changed."""
    logger = 8
    for level in ("FATAL", "TRACE", "OFF", "debug", " INFO", "", None):
        await alter(p, NODE, ("root", SET, level), kind=logger, check=True)
    for name in ("ROOT", "no.such.logger", ""):
        await alter(p, NODE, (name, SET, "DEBUG"), kind=logger, check=True)
    for change in (
        ("root", DELETE, None),
        ("ROOT", DELETE, None),
        ("root", APPEND, "INFO"),
        ("root", SUBTRACT, "INFO"),
    ):
        await alter(p, NODE, change, kind=logger, check=True)
    await alter(p, NODE, ("root", 9, "INFO"), kind=logger, check=True)
    await alter(p, NODE, ("root", SET, "INFO"), ("root", SET, "WARN"), kind=logger, check=True)
    for node in ("", "2", "x"):
        await alter(p, node, ("root", SET, "INFO"), kind=logger, check=True)
        await describe(p, node, kind=logger)
    for level in ("WARN", "ERROR"):
        await alter(p, NODE, ("root", SET, level), kind=logger)
        await describe(p, NODE, "root", kind=logger)
    resource = AlterConfigsRequest.Resource
    replaced = resource(resource_type=logger, resource_name=NODE, configs=[resource.Config(name="root", value="INFO")])
    await p.ask("A", AlterConfigsRequest(resources=[replaced]), 2)
