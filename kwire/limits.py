"""Limits of what bytes may ask for: each with its reason.

``kwire.records`` has its own, for what decompression may give.
"""

MAX_FRAME = 104_857_600  # bytes of a frame: Kafka's socket.request.max.bytes, 100 MiB
MAX_VARINT = 2**31 - 1  # lengths, counts and tags are Java ints; Kafka refuses more
MAX_TEXT = 32_767  # bytes of a string, in both encodings: Kafka's own limit
MAX_NESTING = 16  # structs inside structs; Kafka's messages have at most 5, and every level is a level of recursion

# A few bytes on the wire can be an object of hundreds in memory (an empty array takes one byte, an empty list 56), so
# what arrays and unknown tagged fields become is weighed while a message is read: in bytes that CPython keeps for them
# (layout.weight). Strings and bytes need no weighing, they keep at most 42 times their length. Together a decoded
# message keeps at most 48 times its frame and 8 MiB. Messages of real brokers weigh up to 14 times their bytes.
WEIGHT_ALLOWANCE = 8 * 1024 * 1024  # what every message may weigh
WEIGHT_PER_BYTE = 16  # and how much more for each of its bytes
MAX_WEIGHT = 512 * 1024 * 1024  # what none may exceed
TAG_WEIGHT = 320  # one unknown tagged field: a dict for it, its number, its bytes
HEAVIEST = 170  # no part of a message of Kafka weighs more than this many times its bytes
UNWEIGHED = WEIGHT_ALLOWANCE // (HEAVIEST - WEIGHT_PER_BYTE)  # bytes of a message that cannot weigh too much

MAX_EXPLAINED = (
    65_536  # bytes of a refused message that the reference engine reads to say why: it may take 0.2 s for them
)


def weight_limit(size: int) -> int:
    """What a message of ``size`` bytes may weigh."""
    return min(MAX_WEIGHT, WEIGHT_ALLOWANCE + WEIGHT_PER_BYTE * size)
