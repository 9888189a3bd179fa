"""AssignReplicasToDirs (key 73): a broker reports the log directories of its replicas to the controller (KIP-858)."""

from uuid import UUID

from kwire.schema import Api, Array, Int16, Int32, Int64, Uuid, request, response, struct

ASSIGN_REPLICAS_TO_DIRS = Api(73, versions="0", flexible="0+")


@request(ASSIGN_REPLICAS_TO_DIRS)
class AssignReplicasToDirsRequest:
    @struct
    class Directory:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: int = Int32()

            topic_id: UUID = Uuid()
            partitions: list[Partition] = Array(Partition)

        id: UUID = Uuid()
        topics: list[Topic] = Array(Topic)

    broker_id: int = Int32(entity="brokerId")
    broker_epoch: int = Int64(default=-1)
    directories: list[Directory] = Array(Directory)


@response(ASSIGN_REPLICAS_TO_DIRS)
class AssignReplicasToDirsResponse:
    @struct
    class Directory:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: int = Int32()
                error_code: int = Int16()

            topic_id: UUID = Uuid()
            partitions: list[Partition] = Array(Partition)

        id: UUID = Uuid()
        topics: list[Topic] = Array(Topic)

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    directories: list[Directory] = Array(Directory)
