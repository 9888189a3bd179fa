"""Limits on what kwire reads or allocates for received bytes, each with its reason.

The limits of decompression are in ``kwire.records.limits``.
"""

MAX_FRAME = 104_857_600  # bytes of a frame: Kafka's socket.request.max.bytes, 100 MiB
MAX_VARINT = 2**31 - 1  # lengths, counts and tags are Java ints; Kafka refuses larger ones
MAX_TEXT = 32_767  # bytes of a string, in both encodings: Kafka's own limit
MAX_NESTING = 16  # structs inside structs; Kafka's messages nest at most 5 deep; each level is one level of recursion

# A few bytes on the wire can become an object of hundreds in memory (an empty array is 1 byte, an empty list 56), so
# the memory of arrays and unknown tagged fields is added up while a message is decoded, in bytes of CPython objects
# (layout.weight). Strings and bytes are not counted: they take at most 42 times their length. In total a decoded
# message takes at most 48 times its frame plus 8 MiB. Messages of real brokers take up to 14 times their bytes.
WEIGHT_ALLOWANCE = 8 * 1024 * 1024  # allowed for every message, in bytes of memory
WEIGHT_PER_BYTE = 16  # allowed in addition, per byte of the message
MAX_WEIGHT = 512 * 1024 * 1024  # upper bound for any message
TAG_WEIGHT = 320  # memory of one unknown tagged field: a dict, the tag, the bytes
HEAVIEST = 170  # no part of a Kafka message takes more than this many times its bytes
UNWEIGHED = WEIGHT_ALLOWANCE // (
    HEAVIEST - WEIGHT_PER_BYTE
)  # a message of at most this many bytes cannot exceed its limit

# When a message is decoded in steps, so many bytes of a bytes field cost as much as an array element: they are copied.
COPIED_LIKE_AN_ELEMENT = 1 << 12

# Size of the largest refused message that the reference engine decodes again for the error: this may take 0.2 s.
MAX_EXPLAINED = 65_536


def weight_limit(size: int) -> int:
    """Return the memory limit, in bytes, for decoding a message of ``size`` bytes."""
    return min(MAX_WEIGHT, WEIGHT_ALLOWANCE + WEIGHT_PER_BYTE * size)
