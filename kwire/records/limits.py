"""Limits on reading records, each with its reason. Sizes are in bytes. Kafka does not have these limits.

A small batch can declare large numbers of records, long records, or a large decompressed size. The limits are far above
what clients send. They prevent a hostile batch from costing much more time or memory than its size justifies.
"""

MAX_DECOMPRESSED = (
    128 * 1024 * 1024
)  # maximum size of one decompressed batch: more than the largest request of a broker
MAX_RATIO = (
    100  # maximum decompressed size, as a multiple of the compressed size; even repetitive text rarely reaches it
)
FREE_DECOMPRESSED = 16 * 1024 * 1024  # bytes allowed at any ratio: zeros in a test are not an attack
MAX_NESTING = 1  # a wrapper message contains plain messages: two levels would multiply the ratio
MAX_HEADERS = 100_000  # maximum headers of one record; each takes 2 bytes of the batch and over 100 bytes of memory
SMALLEST_RECORD = 7  # length, attributes, two deltas, null key, null value, no headers: one byte each
SMALLEST_HEADER = 2  # an empty name, a null value
RECORDS_AT_ONCE = 256  # records decoded ahead of the next one; a batch may declare millions


def decompressed(size: int) -> int:
    """Return the default limit, in bytes, of the decompressed size of a batch with ``size`` compressed bytes."""
    return min(MAX_DECOMPRESSED, max(FREE_DECOMPRESSED, MAX_RATIO * size))
