"""Conversations about the features of a cluster, which record.py records; each function is one conversation.

A conversation restores the levels that it has changed, because others are played on the same broker.
"""

from __future__ import annotations

from prober import Prober
from script import NEW, script

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.update_features import UpdateFeaturesRequest

UPGRADE, SAFE, UNSAFE = 1, 2, 3
STREAMS, METADATA, KRAFT = "streams.version", "metadata.version", "kraft.version"
Update = tuple[str, int, int]


async def update(p: Prober, *updates: Update, version: int = 2, check: bool = False) -> None:
    kind = UpdateFeaturesRequest.FeatureUpdate
    more = {"validate_only": check} if version else {}
    changed = [
        kind(
            feature=name,
            max_version_level=level,
            **({"upgrade_type": how} if version else {"allow_downgrade": how > 1}),
        )
        for name, level, how in updates
    ]
    await p.ask("A", UpdateFeaturesRequest(timeout_ms=5000, feature_updates=changed, **more), version)


async def look(p: Prober) -> None:
    await p.wait(400, "until the broker has heard of it")
    await p.ask("B", ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)


@script(releases=(NEW,))
async def features_validated(p: Prober) -> None:
    """UpdateFeatures: feature levels and upgrade types that are refused, in each version."""
    checks = [
        *((STREAMS, level, how) for level, how in ((1, 1), (0, 1), (0, 2), (0, 3), (2, 1), (-1, 2), (1, 0), (1, 9))),
        *(
            (METADATA, level, how)
            for level, how in ((30, 1), (28, 1), (28, 2), (23, 2), (22, 2), (22, 3), (6, 2), (29, 1))
        ),
        *((KRAFT, level, UPGRADE) for level in (1, 0, 2, -1)),
        ("nope", 1, UPGRADE),
        ("", 1, UPGRADE),
        ("group.version", 0, SAFE),
        ("transaction.version", 1, SAFE),
    ]
    for version in (1, 2):
        for each in checks:
            await update(p, each, version=version, check=True)
        await update(p, (STREAMS, 1, 1), (STREAMS, 1, 1), version=version, check=True)
        await update(p, (STREAMS, 1, 1), ("nope", 1, 1), version=version, check=True)
        await update(p, (STREAMS, 0, 1), ("nope", 1, 1), version=version, check=True)
        await update(p, version=version, check=True)
    await update(p, (STREAMS, 0, SAFE), version=0)
    await update(p, (STREAMS, 1, UPGRADE), version=0)


@script(releases=(NEW,))
async def features_updated(p: Prober) -> None:
    """UpdateFeatures changes the finalized features; after an error none of them changes."""
    await look(p)
    await update(p, (STREAMS, 0, SAFE), ("share.version", 0, UNSAFE))
    await look(p)
    await update(p, (STREAMS, 1, UPGRADE), ("nope", 1, UPGRADE))
    await look(p)
    await update(p, (STREAMS, 1, UPGRADE), ("share.version", 1, UPGRADE))
    await update(p, (METADATA, 28, SAFE))
    await look(p)
    await update(p, (METADATA, 29, UPGRADE))
    await update(p, ("group.version", 0, SAFE))
    await p.wait(400, "until the broker has heard of it")
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=p.group,
        member_id="m",
        rebalance_timeout_ms=5000,
        subscribed_topic_names=["probe"],
        topic_partitions=[],
    )
    await p.ask("C", heartbeat, 1)
    await update(p, ("group.version", 1, UPGRADE))
    await look(p)
