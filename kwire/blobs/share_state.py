"""Records of ``__share_group_state``: the state of each partition of a share group (KIP-932)."""

from uuid import UUID

from kwire.schema import Array, Int8, Int16, Int32, Int64, String, Uuid, data, struct


@data(versions="0", flexible="none")
class ShareSnapshotKey:
    group_id: str = String()
    topic_id: UUID = Uuid()
    partition: int = Int32()


@data(versions="0", flexible="0+")
class ShareSnapshotValue:
    """The complete state of a partition in a share group."""

    @struct
    class StateBatch:
        first_offset: int = Int64()
        last_offset: int = Int64()
        delivery_state: int = Int8()
        delivery_count: int = Int16()

    snapshot_epoch: int = Int32()
    state_epoch: int = Int32()
    leader_epoch: int = Int32()
    start_offset: int = Int64()
    delivery_complete_count: int = Int32(tag=0, default=-1)
    create_timestamp: int = Int64()
    write_timestamp: int = Int64()
    state_batches: list[StateBatch] = Array(StateBatch)


@data(versions="0", flexible="none")
class ShareUpdateKey:
    group_id: str = String()
    topic_id: UUID = Uuid()
    partition: int = Int32()


@data(versions="0", flexible="0+")
class ShareUpdateValue:
    """The changes of a share group partition's state since the last snapshot."""

    @struct
    class StateBatch:
        first_offset: int = Int64()
        last_offset: int = Int64()
        delivery_state: int = Int8()
        delivery_count: int = Int16()

    snapshot_epoch: int = Int32()
    leader_epoch: int = Int32()
    start_offset: int = Int64()
    delivery_complete_count: int = Int32(tag=0, default=-1)
    state_batches: list[StateBatch] = Array(StateBatch)
