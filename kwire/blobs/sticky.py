"""User data of the sticky assignors in a subscription: owned partitions, and the generation of their assignment.

The bytes do not contain their version. v1 adds the generation (KIP-341). An assignor decodes the bytes as v1. If the
bytes are not valid v1, it decodes them as v0. If they are not valid v0 either, it treats the member as a member without
owned partitions. Source: StickyAssignor.deserializeTopicPartitionAssignment.
"""

from kwire import codec
from kwire.errors import DecodeError
from kwire.schema import Array, Int32, String, data, struct


@data(versions="0-1", flexible="none")
class StickyUserData:
    """User data of the assignor ``sticky``: owned partitions. v1 adds the generation."""

    @struct
    class TopicPartition:
        topic: str = String(entity="topicName")
        partitions: list[int] = Array(Int32)

    previous_assignment: list[TopicPartition] = Array(TopicPartition)
    generation: int = Int32("1+", default=-1, ignorable=True)


@data(versions="0", flexible="none")
class CooperativeStickyUserData:
    """User data of the assignor ``cooperative-sticky``: only the generation.

    The owned partitions are in the subscription itself.
    """

    generation: int = Int32(default=-1)


def decode_user_data(user_data: bytes) -> tuple[StickyUserData, int, int]:
    """Decode user data of the assignor ``sticky`` as v1, or as v0 if v1 fails.

    Returns: the message, its version, and the offset of the byte after the message.

    Raises: DecodeError if the bytes are valid in neither version.
    """
    try:
        value, end = codec.decode_at(StickyUserData, user_data, 0, 1)
    except DecodeError:
        value, end = codec.decode_at(StickyUserData, user_data, 0, 0)
        return value, 0, end
    return value, 1, end


def read_user_data(user_data: bytes | None) -> StickyUserData | None:
    """Decode user data of the assignor ``sticky`` as Kafka's assignor does; return None for null, empty or invalid
    data.
    """
    try:
        return decode_user_data(user_data or b"")[0]
    except DecodeError:
        return None
