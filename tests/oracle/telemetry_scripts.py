"""Conversations about client metrics (KIP-714), which record.py records; each function is one conversation.

A conversation removes its subscriptions, because others are played on the same broker.
"""

from __future__ import annotations

import gzip
from uuid import UUID

from config_scripts import DELETE, SET, alter, describe
from prober import Prober
from script import NEW, script

from kwire.messages.alter_configs import AlterConfigsRequest
from kwire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.messages.list_config_resources import ListConfigResourcesRequest
from kwire.messages.push_telemetry import PushTelemetryRequest

CLIENT_METRICS = 16  # resource type
APPEND = 2
INTERVAL, METRICS, MATCH = "interval.ms", "metrics", "match"
WITH_RECEIVER = {"metric.reporters": "TelemetryReporter"}  # fixtures/java/TelemetryReporter.java
FIRST, SECOND = UUID(int=0x1234_5678 << 64 | 0x42), UUID(int=0x8765_4321 << 96 | 0x43)
SOON, LATER = 300, 700  # ms until the broker knows a change, and ms that exceed the push interval
GZIP = 1
UNKNOWN_CODEC = 9
TOO_LARGE = 1_048_577


async def remove(p: Prober, *names: str) -> None:
    resource = AlterConfigsRequest.Resource
    removed = [resource(resource_type=CLIENT_METRICS, resource_name=name, configs=[]) for name in names]
    await p.ask("A", AlterConfigsRequest(resources=removed), 2)
    await p.wait(SOON, "until the broker has heard of it")


async def subscribe(p: Prober, name: str, **configs: str) -> None:
    changes = [(key.replace("_", "."), SET, value) for key, value in configs.items()]
    await alter(p, name, *changes, kind=CLIENT_METRICS)
    await p.wait(SOON, "until the broker has heard of it")


@script(releases=(NEW,))
async def client_metrics_configs(p: Prober) -> None:
    """Configurations of client metrics are set, described, listed and deleted, and invalid ones are refused."""
    await describe(p, "sub", kind=CLIENT_METRICS)
    software = "client_software_name=apache-kafka-java,client_software_version=3.*"
    await subscribe(p, "sub", interval_ms="100", metrics="org.apache.kafka.consumer.,x.", match=software)
    await describe(p, "sub", kind=CLIENT_METRICS)
    await describe(p, "sub", MATCH, "nope", kind=CLIENT_METRICS)
    await describe(p, "", kind=CLIENT_METRICS)
    values = {
        INTERVAL: ("99", "3600000", "3600001", "x", "", None),
        METRICS: ("", "*", "a,,b"),
        MATCH: ("", "client_id=a.*", "client_instance_id=x", "nope=1", "client_id", "client_id=[", "client_id=a=b"),
        "nope": ("1",),
    }
    for name, texts in values.items():
        for text in texts:
            await alter(p, "sub", (name, SET, text), kind=CLIENT_METRICS, check=True)
    for text in ("client_id=a,client_id=b", " client_id = a ", "=a", "client_id="):
        await alter(p, "sub", (MATCH, SET, text), kind=CLIENT_METRICS, check=True)
    for change in ((METRICS, APPEND, "x"), (INTERVAL, APPEND, "1"), (INTERVAL, 9, "1"), ("nope", DELETE, None)):
        await alter(p, "sub", change, kind=CLIENT_METRICS, check=True)
    for name in ("", "bad name!", "." * 300):
        await alter(p, name, (INTERVAL, SET, "100"), kind=CLIENT_METRICS, check=True)
    await subscribe(p, "sub2", metrics="*")
    await p.ask("A", ListConfigResourcesRequest(), 0)
    await alter(p, "sub2", (METRICS, DELETE, None), kind=CLIENT_METRICS)
    await p.wait(SOON, "until the broker has heard of it")
    await p.ask("A", ListConfigResourcesRequest(), 0)
    await remove(p, "sub", "sub2")
    await p.ask("A", ListConfigResourcesRequest(), 0)
    await describe(p, "sub", kind=CLIENT_METRICS)


async def get(p: Prober, instance: UUID, conn: str = "C") -> int:
    response = await p.ask(conn, GetTelemetrySubscriptionsRequest(client_instance_id=instance), 0)
    number: int = response.subscription_id
    return number


async def push(
    p: Prober, instance: UUID, subscription: int, *, last: bool = False, codec: int = 0, data: bytes = b""
) -> None:
    pushed = PushTelemetryRequest(
        client_instance_id=instance,
        subscription_id=subscription,
        terminating=last,
        compression_type=codec,
        metrics=data,
    )
    await p.ask("C", pushed, 0)


@script(WITH_RECEIVER, (NEW,))
async def telemetry_without_subscriptions(p: Prober) -> None:
    """A client that matches no subscription gets an empty list of metrics; requests that come too early are
    throttled."""
    await subscribe(p, "s0", metrics="x.")
    await remove(p, "s0")
    subscription = await get(p, FIRST)
    await get(p, FIRST)
    await push(p, FIRST, subscription)
    await push(p, FIRST, subscription)
    await push(p, SECOND, subscription)
    await get(p, SECOND)
    for reserved in (UUID(int=0), UUID(int=1)):
        await push(p, reserved, 0)


@script(WITH_RECEIVER, (NEW,))
async def telemetry_pushed(p: Prober) -> None:
    """PushTelemetry: the push interval, the subscription id, compression, size limit, and the last push of a client."""
    await subscribe(p, "s1", interval_ms="500", metrics="org.apache.kafka.consumer.")
    subscription = await get(p, FIRST)
    for number in (subscription, subscription, subscription + 1):
        await push(p, FIRST, number, data=b"abc")
    await p.wait(LATER, "for the next push")
    await push(p, FIRST, subscription + 1)
    await push(p, FIRST, subscription)
    data = (UNKNOWN_CODEC, b""), (GZIP, b"x"), (GZIP, gzip.compress(b"x" * 100, mtime=0)), (0, b"x" * TOO_LARGE)
    for codec, metrics in data:
        await p.wait(LATER, "for the next push")
        await push(p, FIRST, subscription, codec=codec, data=metrics)
    await subscribe(p, "s1", metrics="*")
    await p.wait(LATER, "for the next push")
    await push(p, FIRST, subscription)
    subscription = await get(p, FIRST)
    await get(p, FIRST)
    await push(p, FIRST, subscription, last=True)
    await push(p, FIRST, subscription, last=True)
    await push(p, FIRST, subscription)
    await get(p, FIRST)
    await p.wait(LATER, "for the next request")
    await get(p, FIRST)
    await push(p, FIRST, subscription)
    subscription = await get(p, SECOND)
    await push(p, SECOND, subscription + 1, last=True)
    await push(p, SECOND, subscription, last=True)
    await remove(p, "s1")


@script(WITH_RECEIVER, (NEW,))
async def telemetry_subscriptions_matched(p: Prober) -> None:
    """A client that matches several subscriptions gets the shortest interval and all metrics, in Kafka's order."""
    await subscribe(p, "s1", interval_ms="500", metrics="z,org.apache.")
    await subscribe(p, "s2", interval_ms="400", metrics="a.,b.", match="client_id=other")
    await subscribe(p, "s3", interval_ms="300", metrics="c.,a.", match="client_id=pro.*,client_source_address=127.*")
    await subscribe(p, "s4", interval_ms="200", metrics="d.", match="client_id=pro")
    await subscribe(p, "s5", interval_ms="200", metrics="e.", match="client_software_name=x")
    await get(p, FIRST)
    await subscribe(p, "s1", metrics="")
    await get(p, FIRST)
    await alter(p, "s3", (METRICS, DELETE, None), kind=CLIENT_METRICS)
    await p.wait(SOON, "until the broker has heard of it")
    await get(p, FIRST)
    await subscribe(p, "s1", metrics="x,*")
    await get(p, FIRST)
    await remove(p, "s1", "s2", "s3", "s4", "s5")
    await get(p, FIRST)
