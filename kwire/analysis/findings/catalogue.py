"""All detectors, in the order of docs/findings.md."""

from __future__ import annotations

from kwire.analysis.findings.detectors import (
    bad_commits,
    clients,
    commit_gap,
    coordinator,
    costly_rebalance,
    expired_member,
    flapping_member,
    heartbeats,
    mismatches,
    partitions,
    rebalance_storm,
    slow_assignment,
    slow_joiner,
    slow_poll,
    transactions,
    unavailable_partition,
)
from kwire.analysis.findings.model import Detector

DETECTORS: tuple[Detector, ...] = (
    rebalance_storm.DETECTOR,
    costly_rebalance.DETECTOR,
    unavailable_partition.DETECTOR,
    flapping_member.DETECTOR,
    slow_joiner.DETECTOR,
    slow_assignment.DETECTOR,
    expired_member.EXPIRED,
    expired_member.EXPIRED_STATIC,
    heartbeats.NEAR_MISS,
    heartbeats.JITTER,
    slow_poll.DETECTOR,
    commit_gap.DETECTOR,
    bad_commits.STALE,
    bad_commits.ABORTED,
    partitions.STUCK,
    partitions.LAGGING,
    partitions.HOT,
    coordinator.MOVED,
    coordinator.LOADING,
    mismatches.SUBSCRIPTIONS,
    mismatches.ASSIGNORS,
    clients.METADATA_STORM,
    clients.ERROR_RATE,
    clients.RETRY_LOOP,
    clients.RECONNECT_LOOP,
    clients.THROTTLED,
    transactions.ZOMBIE,
    transactions.HANGING,
)
