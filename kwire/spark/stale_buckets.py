"""The buckets of a stream whose earlier rows change with a micro-batch, so that the micro-batch rebuilds them."""

from __future__ import annotations

from kwire.spark.bundles import BUCKETS, about_group, bucket_of
from kwire.spark.capture_summary import CaptureSummary


def buckets_of_names(was: CaptureSummary, now: CaptureSummary) -> set[int]:
    """Return the numbers of the buckets whose rows change because the name of a topic id has become known or changed.

    These buckets contain rows with the topic id, or consumer groups that commit offsets of the topic. The rows of such
    a group can change even if its commits contain the topic name: a Fetch on a different connection may contain the id.

    Args:
        was: summary before the change.
        now: summary after the change.
    """
    changed = {topic for topic, _ in was.names.items() ^ now.names.items()}
    names = changed | {summary.name(topic) for topic in changed for summary in (was, now)}
    groups = {group for group, topic, _ in now.commits if topic in names} if changed else set()
    return {bucket for topic, bucket in now.ids if topic in changed} | {bucket_of(about_group(one)) for one in groups}


def buckets_of_unread(was: CaptureSummary, now: CaptureSummary) -> set[int]:
    """Return the numbers of the buckets of consumer groups for which periods with missing calls have changed.

    All buckets are returned if such a period may concern every group.

    Args:
        was: summary before the change.
        now: summary after the change.
    """
    groups = {one.group_id for one in was.unread ^ now.unread}
    return set(range(BUCKETS)) if None in groups else {bucket_of(about_group(one)) for one in groups if one is not None}


def buckets_to_rebuild(was: CaptureSummary, now: CaptureSummary) -> set[int]:
    """Return the numbers of the buckets whose earlier rows may change with a micro-batch.

    These are the buckets of changed topic names and periods with missing calls, and the buckets of groups that commit
    offsets of a partition, or in the transactions of a producer, for the first time. Earlier end offsets and ends of
    transactions then concern the group, too.

    Args:
        was: summary before the micro-batch.
        now: summary after the micro-batch.
    """
    new = {group for group, *_ in now.commits - was.commits} | {group for group, _ in now.producers - was.producers}
    concerned = {bucket_of(about_group(group)) for group in new}
    return concerned | buckets_of_names(was, now) | buckets_of_unread(was, now)
