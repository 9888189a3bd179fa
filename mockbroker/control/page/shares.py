"""The share partitions in the document of the live page: the records of share groups that are in flight (KIP-932)."""

from __future__ import annotations

from itertools import islice
from typing import Any

from mockbroker.control.control import Control
from mockbroker.control.page.collection import Collection, Slices
from mockbroker.share.in_flight import ACQUIRED
from mockbroker.share.share_partition import SharePartition

PARTITIONS = 1_000  # maximum number of share partitions
AT_ONCE = 10  # share partitions between two slices; each may have thousands of runs


class Shares(Collection):
    """The share partitions that leaders have loaded, by group id, topic and partition number.

    ``control``: the state of the control API.
    """

    def __init__(self, control: Control) -> None:
        super().__init__()
        self._control = control

    def refresh(self, left_out: dict[str, int]) -> Slices:
        """Refresh the share partitions; yield between parts of the work, so that other tasks can run.

        ``left_out``: dictionary in which the method sets the entry ``share partitions``: how many the page does not
        show.
        """
        self.begin()
        broker = self._control.broker
        loaded, groups = broker.share_partitions.loaded, dict[str, Any]()
        left_out["share partitions"] = max(len(loaded) - PARTITIONS, 0)
        for number, (key, share) in enumerate(list(islice(loaded.items(), PARTITIONS)), 1):
            topic = broker.cluster.by_id.get(key.topic_id)
            partition = None if topic is None else topic.partition(key.partition)
            if topic is not None and partition is not None:
                partitions = groups.setdefault(key.group_id, {}).setdefault(topic.name, {})
                partitions[str(key.partition)] = _share_json(share, partition.log.end)
            if number % AT_ONCE == 0:
                yield
        for group_id, topics in groups.items():
            self.put(group_id, topics)
        self.keep(groups)


def _share_json(share: SharePartition, log_end: int) -> dict[str, Any]:
    """Return a share partition as a JSON object. ``log_end``: log end offset of the partition."""
    acquired: dict[str, int] = {}
    for batch in share.batches:
        for run in batch.runs:
            size = run.last - max(run.first, share.start) + 1
            if run.state is ACQUIRED and size > 0:
                acquired[run.member_id] = acquired.get(run.member_id, 0) + size
    return {
        "start": share.start,
        "lag": max(log_end - share.start - max(share.complete_count, 0), 0),
        "acquired": acquired,
    }
