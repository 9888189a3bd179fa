"""What the sticky assignors put into the user data of a subscription: who owned what, and in which generation.

Nothing in the bytes says which version they are: what cannot be read as v1 is read as v0, and what cannot be read as
v0 either counts as nothing owned. v1 generation (KIP-341). Source: StickyAssignor.deserializeTopicPartitionAssignment.
"""

from kwire import codec
from kwire.errors import DecodeError
from kwire.schema import Array, Int32, String, data, struct


@data(versions="0-1", flexible="none")
class StickyUserData:
    """Of ``sticky``. v1 generation."""

    @struct
    class TopicPartition:
        topic: str = String(entity="topicName")
        partitions: list[int] = Array(Int32)

    previous_assignment: list[TopicPartition] = Array(TopicPartition)
    generation: int = Int32("1+", default=-1, ignorable=True)


@data(versions="0", flexible="none")
class CooperativeStickyUserData:
    """Of ``cooperative-sticky``, which takes what is owned from the subscription itself."""

    generation: int = Int32(default=-1)


def decode_user_data(user_data: bytes) -> tuple[StickyUserData, int, int]:
    """The value, its version, and the offset behind it. Raises: DecodeError."""
    try:
        value, end = codec.decode_at(StickyUserData, user_data, 0, 1)
    except DecodeError:
        value, end = codec.decode_at(StickyUserData, user_data, 0, 0)
        return value, 0, end
    return value, 1, end


def read_user_data(user_data: bytes | None) -> StickyUserData | None:
    """What an assignor makes of it: None where nothing is known, be it null, empty or not to be read."""
    try:
        return decode_user_data(user_data or b"")[0]
    except DecodeError:
        return None
