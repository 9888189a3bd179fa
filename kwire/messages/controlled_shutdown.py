"""ControlledShutdown (key 7): a broker asks the ZooKeeper controller to move its leaderships away before it stops.

v0 is the only request whose header has no client id; v2 adds the broker epoch (KIP-380); v3 is flexible. Removed in
Kafka 4.
"""

from kwire.schema import Api, Array, Int16, Int32, Int64, String, request, response, struct

CONTROLLED_SHUTDOWN = Api(7, versions="0-3", flexible="3+")


@request(CONTROLLED_SHUTDOWN)
class ControlledShutdownRequest:
    broker_id: int = Int32(entity="brokerId")
    broker_epoch: int = Int64("2+", default=-1, ignorable=True)


@response(CONTROLLED_SHUTDOWN)
class ControlledShutdownResponse:
    @struct
    class Partition:
        topic_name: str = String(entity="topicName")
        partition_index: int = Int32()

    error_code: int = Int16()
    remaining_partitions: list[Partition] = Array(Partition)
