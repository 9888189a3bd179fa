"""Conversations about quotas, which record.py records; each function is one conversation."""

from __future__ import annotations

from collections.abc import Mapping

from fetch_scripts import WRITTEN_AT
from prober import Prober
from script import NEW, script

from kwire.messages.alter_client_quotas import AlterClientQuotasRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch

EXACT, DEFAULT, ANY = range(3)
Named = Mapping[str, str | None]


async def alter(p: Prober, entity: Named, *, validate_only: bool = False, **ops: float | None) -> None:
    kind = AlterClientQuotasRequest.Entry
    entry = kind(
        entity=[kind.Entity(entity_type=type_.replace("_", "-"), entity_name=name) for type_, name in entity.items()],
        ops=[kind.Op(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()],
    )
    await p.ask("A", AlterClientQuotasRequest(entries=[entry], validate_only=validate_only), 1)


async def describe(p: Prober, *parts: tuple[str, int, str | None], strict: bool = False) -> None:
    await p.wait(300, "until the broker has heard of it")
    kind = DescribeClientQuotasRequest.Component
    components = [kind(entity_type=type_, match_type=how, match=name) for type_, how, name in parts]
    await p.ask("A", DescribeClientQuotasRequest(components=components, strict=strict), 1)


@script(releases=(NEW,))
async def quotas_altered(p: Prober) -> None:
    """AlterClientQuotas and DescribeClientQuotas: entities, keys and filters, and requests that are refused."""
    await alter(p, {"user": "ann"}, producer_byte_rate=1000.5)
    await alter(p, {"user": "ann"}, producer_byte_rate=1000, consumer_byte_rate=2000)
    await alter(p, {"user": None}, request_percentage=50)
    await alter(p, {"user": "ann", "client-id": "app"}, producer_byte_rate=10)
    await alter(p, {"client-id": None}, consumer_byte_rate=77)
    await alter(p, {"client-id": "app"}, controller_mutation_rate=2)
    await alter(p, {"ip": "127.0.0.9"}, connection_creation_rate=5)
    await alter(p, {"ip": None}, connection_creation_rate=500)
    for parts in (
        [],
        [("user", EXACT, "ann")],
        [("user", DEFAULT, None)],
        [("user", ANY, None)],
        [("client-id", ANY, None)],
        [("user", ANY, None), ("client-id", ANY, None)],
        [("user", EXACT, "ann"), ("client-id", EXACT, "app")],
        [("ip", ANY, None)],
        [("ip", EXACT, "127.0.0.9")],
        [("user", EXACT, "nobody")],
    ):
        for strict in (False, True):
            await describe(p, *parts, strict=strict)
    await describe(p, ("user", EXACT, "ann"), ("user", ANY, None))
    await describe(p, ("user", 7, "ann"))
    await describe(p, ("user", EXACT, None))
    await describe(p, ("user", DEFAULT, "ann"))
    await describe(p, ("ip", ANY, None), ("user", ANY, None))
    await describe(p, ("nonsense", ANY, None))
    await alter(p, {"user": "ann"}, producer_byte_rate=None, no_such_quota=1)
    await alter(p, {"user": "ann"}, producer_byte_rate=None)
    await alter(p, {"user": "ann"}, validate_only=True, consumer_byte_rate=1)
    await alter(p, {"user": "ann"}, producer_byte_rate=0)
    await alter(p, {"user": "ann"}, producer_byte_rate=-1)
    await alter(p, {"user": "ann"}, request_percentage=0.5)
    await alter(p, {"user": "ann"}, connection_creation_rate=1)
    await alter(p, {"ip": "127.0.0.9"}, producer_byte_rate=1)
    await alter(p, {"ip": "127.0.0.9"}, connection_creation_rate=2.5)
    await alter(p, {"ip": "not an address"}, connection_creation_rate=2)
    await alter(p, {"ip": "127.0.0.9", "user": "ann"}, connection_creation_rate=2)
    await alter(p, {"nonsense": "x"}, producer_byte_rate=1)
    await alter(p, {}, producer_byte_rate=1)
    await alter(p, {"user": ""}, producer_byte_rate=1)
    await alter(p, {"user": "never set"}, producer_byte_rate=None)
    await describe(p)
    await alter(p, {"user": "ann"}, consumer_byte_rate=None, request_percentage=None)
    await alter(p, {"user": None}, request_percentage=None)
    await alter(p, {"user": "ann", "client-id": "app"}, producer_byte_rate=None)
    await alter(p, {"client-id": None}, consumer_byte_rate=None)
    await alter(p, {"client-id": "app"}, controller_mutation_rate=None)
    await alter(p, {"ip": "127.0.0.9"}, connection_creation_rate=None)
    await alter(p, {"ip": None}, connection_creation_rate=None)
    await describe(p)


@script(releases=(NEW,))
async def quotas_throttle(p: Prober) -> None:
    """Quotas of 1,000 bytes and one mutation per second: requests are throttled or refused, each on its own connection,
    because the broker mutes throttled connections."""
    topic = "t-quotas_throttle"
    forever = CreateTopicsRequest.Topic.Config(name="retention.ms", value="-1")
    wanted_topic = CreateTopicsRequest.Topic(name=topic, num_partitions=1, replication_factor=1, configs=[forever])
    await p.ask("P", CreateTopicsRequest(topics=[wanted_topic], timeout_ms=5000), 7)
    await p.wait(800, "until the leader is known")
    await alter(p, {"client-id": "probe"}, producer_byte_rate=1000, consumer_byte_rate=1000)
    await p.wait(500, "until the broker has heard of it")
    records = build_batch([Record(timestamp=WRITTEN_AT, value=b"x" * 9_000)])
    data = ProduceRequest.Topic(name=topic, partition_data=[ProduceRequest.Topic.Partition(index=0, records=records)])
    for number in range(3):
        await p.ask(f"P{number}", ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 9)
    wanted = FetchRequest.Topic(
        topic=topic, partitions=[FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1 << 20)]
    )
    wanted.partitions[0].fetch_offset = 2  # the last batch, because a broker may truncate an earlier one
    for number in range(3):
        await p.ask(f"F{number}", FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[wanted]), 11)
    await alter(p, {"client-id": "probe"}, producer_byte_rate=None, consumer_byte_rate=None, controller_mutation_rate=1)
    await p.wait(500, "until the broker has heard of it")
    for number, version in enumerate((5, 6, 5)):
        names = [f"{topic}-{number}-{each}" for each in range(6)]
        topics = [CreateTopicsRequest.Topic(name=name, num_partitions=2, replication_factor=1) for name in names]
        await p.ask(f"C{number}", CreateTopicsRequest(topics=topics), version)
    await alter(p, {"client-id": "probe"}, controller_mutation_rate=None)
