"""Every bound that reading records has, with its reason. Sizes are bytes.

A batch is small and says large things: how many records it has, how long they are, what it becomes when it is
unpacked. Nothing here is a rule of Kafka's; each bound is far beyond what clients send, and keeps a hostile batch from
costing more than its size allows.
"""

MAX_DECOMPRESSED = 128 * 1024 * 1024  # of one batch, whatever its size: more than the largest request of a broker
MAX_RATIO = 100  # times the compressed size; text that repeats itself seldom comes near it
FREE_DECOMPRESSED = 16 * 1024 * 1024  # may be had at any ratio: zeros in a test are no attack
MAX_NESTING = 1  # a wrapper message holds messages, and no wrappers: two levels would multiply the ratio
MAX_HEADERS = 100_000  # of one record; each takes 2 bytes of the batch and over 100 bytes of memory
SMALLEST_RECORD = 7  # length, attributes, two deltas, null key, null value, no headers: one byte each
SMALLEST_HEADER = 2  # an empty name, a null value
RECORDS_AT_ONCE = 256  # are decoded ahead of the one that is asked for; a batch may claim millions


def decompressed(size: int) -> int:
    """The most that ``size`` compressed bytes may become if the caller does not say."""
    return min(MAX_DECOMPRESSED, max(FREE_DECOMPRESSED, MAX_RATIO * size))
