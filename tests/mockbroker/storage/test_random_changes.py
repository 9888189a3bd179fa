"""Random changes of a log, then a restart: the files have the same log, in the same segments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tools.disk_changes import opened

from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.storage.simulated_disk import SimulatedDisk
from mockbroker.topics.cleanable import cleanable_log
from mockbroker.topics.compaction import compaction
from mockbroker.topics.log import PartitionLog
from mockbroker.topics.log_segments import SegmentLimits
from mockbroker.topics.model import Partition

NOW_MS = 1_700_000_000_000
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from([b"a", b"b", b"c"]), st.integers(1, 3)),
        st.tuples(st.just("compact")),
        st.tuples(st.just("delete segment")),
        st.tuples(st.just("delete before"), st.integers(0, 20)),
        st.tuples(st.just("truncate"), st.integers(0, 20)),
        st.tuples(st.just("roll")),
        st.tuples(st.just("flush")),
    ),
    max_size=25,
)


def change(partition: Partition, kind: str, *options: object) -> None:
    log = partition.log
    match kind, options:
        case "append", (bytes(key), int(count)):
            records = [Record(key=key, value=b"v", timestamp=NOW_MS + log.end) for _ in range(count)]
            partition.append(read_batch(build_batch(records)))
        case "compact", ():
            cleanable = cleanable_log(partition, now_ms=NOW_MS)
            if cleanable.dirty_bytes:
                for _ in compaction(partition, cleanable, NOW_MS):
                    pass
        case "delete segment", () if log.segments and (len(log.segments) > 1 or log.segments[0].size):
            partition.delete_segments(1)
        case "delete before", (int(offset),):
            partition.delete_before(min(offset, log.end))
        case "truncate", (int(offset),):
            partition.truncate(max(offset, log.start))
        case "roll", ():
            log.roll()


def segment_bases(log: PartitionLog) -> list[int]:
    """Return the base offset of the segment of each batch."""
    return [log.segments[index].base_offset for index in range(len(log.segments)) for _ in log.segment_batches(index)]


@given(CHANGES, st.integers(100, 400))
def test_restart_restores_the_log_and_its_segments(changes, segment_bytes):
    disk = SimulatedDisk()
    data_dir = opened(disk)
    partition = data_dir.cluster.create_topic("t", [[0]]).partitions[0]
    partition.log.limits = SegmentLimits(segment_bytes)
    for kind, *options in changes:
        if kind == "flush":
            data_dir.flush()
        else:
            change(partition, kind, *options)
    data_dir.flush()
    data_dir.close()
    restored = opened(disk).cluster.topics["t"].partitions[0]
    old, new = partition.log, restored.log
    assert (new.start, new.end) == (old.start, old.end)
    assert [each.data for each in new.stored()] == [each.data for each in old.stored()]
    assert segment_bases(new) == segment_bases(old)
