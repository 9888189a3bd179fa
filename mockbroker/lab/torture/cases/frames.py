"""Cases with malformed frames, and with extra bytes between frames."""

from __future__ import annotations

import struct
from functools import partial

from kwire.apikeys import ApiKey
from kwire.fuzz.mutate import mutate
from kwire.messages import APIS
from mockbroker.lab.torture.case import CONNECT, EVERY, Case, Turn

LENGTH = struct.Struct(">i")  # of a frame; a correlation id has the same form
LARGEST = 2**31 - 1
PADDING, MANY = 1 << 16, 1 << 20  # bytes
TLS_ALERT = bytes.fromhex("15030300020250")  # fatal, internal error
TLS_HELLO = bytes.fromhex("160303007a020000760303")
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
KAFKA_4090 = "https://issues.apache.org/jira/browse/KAFKA-4090"
KAFKA_PYTHON_1748 = "https://github.com/dpkp/kafka-python/issues/1748"
KAFKA_PYTHON_3014 = "https://github.com/dpkp/kafka-python/issues/3014"


def _twice(frame: bytes, _: Turn) -> bytes:
    return frame * 2


def _swapped(step: ApiKey, frame: bytes, turn: Turn) -> bytes:
    """Hold a response of the step, and return it after the next response of the same connection.

    Args:
        step: API whose responses are held.
        frame: response frame of any API, with its length prefix.
        turn: context; its attribute ``kept`` stores the held response.
    """
    if turn.kept:
        kept, turn.kept = turn.kept, b""
        return frame + kept
    if turn.api_key != step:
        return frame
    turn.kept = frame
    return b""


def _wrong_id(frame: bytes, turn: Turn) -> bytes:
    return frame[:4] + LENGTH.pack(turn.random.getrandbits(31)) + frame[8:]


def _id_of_the_previous(frame: bytes, _: Turn) -> bytes:
    (number,) = LENGTH.unpack_from(frame, 4)
    return frame[:4] + LENGTH.pack(number - 1) + frame[8:]


def _id_of_the_next(frame: bytes, _: Turn) -> bytes:
    (number,) = LENGTH.unpack_from(frame, 4)
    return frame[:4] + LENGTH.pack((number + 1) % LARGEST) + frame[8:]


def _half(frame: bytes, _: Turn) -> bytes:
    return frame[: len(frame) // 2]


def _only_the_length(frame: bytes, _: Turn) -> bytes:
    return frame[:4]


def _endless(frame: bytes, _: Turn) -> bytes:
    return LENGTH.pack(LARGEST) + frame[4:] + bytes(MANY)


def _negative(frame: bytes, _: Turn) -> bytes:
    return LENGTH.pack(-1) + frame[4:]


def _empty(frame: bytes, _: Turn) -> bytes:
    return LENGTH.pack(0) + frame


def _too_short(frame: bytes, _: Turn) -> bytes:
    return LENGTH.pack(len(frame) - 5) + frame[4:]


def _too_long(frame: bytes, _: Turn) -> bytes:
    return LENGTH.pack(len(frame) - 3) + frame[4:]


def _followed_by_zeros(frame: bytes, _: Turn) -> bytes:
    return LENGTH.pack(len(frame) - 4 + PADDING) + frame[4:] + bytes(PADDING)


def _random(frame: bytes, turn: Turn) -> bytes:
    return frame[:8] + turn.random.randbytes(len(frame) - 8)


def _random_from_the_start(frame: bytes, turn: Turn) -> bytes:
    return turn.random.randbytes(len(frame))


def _mutated(frame: bytes, turn: Turn) -> bytes:
    """Return a response frame; in a third of the calls it contains one mutation, usually of a field.

    Args:
        frame: the response frame with its length prefix.
        turn: context of the response.
    """
    if turn.random.randrange(3):
        return frame
    data = mutate(frame[4:], turn.random, api_key=turn.api_key, api_version=turn.version, header=False).data
    return LENGTH.pack(len(data)) + data


def _tls_alert(_frame: bytes, _: Turn) -> bytes:
    return TLS_ALERT


def _tls_hello(_frame: bytes, _: Turn) -> bytes:
    return TLS_HELLO + bytes(112)


def _http(_frame: bytes, _: Turn) -> bytes:
    return HTTP


def _lengths_of_all_strings_huge(frame: bytes, _: Turn) -> bytes:
    return frame[:8] + b"\xff\xff\xff\xff\x07" * ((len(frame) - 8) // 5) + bytes((len(frame) - 8) % 5)


def _ones(frame: bytes, _: Turn) -> bytes:
    return frame[:8] + b"\xff" * (len(frame) - 8)


FRAMES = [  # name, step, description, change, published
    ("twice", "Metadata", "sends every Metadata response twice", _twice, ""),
    ("Fetch-twice", "Fetch", "sends every Fetch response twice", _twice, ""),
    ("JoinGroup-twice", "JoinGroup", "sends every JoinGroup response twice", _twice, ""),
    ("correlation-id-random", EVERY, "answers with random correlation ids", _wrong_id, ""),
    ("correlation-id-previous", "Fetch", "answers Fetch with the id of the request before", _id_of_the_previous, ""),
    (
        "correlation-id-next",
        "Fetch",
        "answers Fetch with the id of the next request",
        _id_of_the_next,
        KAFKA_PYTHON_1748,
    ),
    ("Heartbeat-id-next", "Heartbeat", "answers Heartbeat with the id of the next request", _id_of_the_next, ""),
    ("half-then-silence", "Fetch", "sends half of each Fetch response, and nothing else", _half, ""),
    ("Metadata-half", "Metadata", "sends half of each Metadata response, and nothing else", _half, ""),
    ("JoinGroup-half", "JoinGroup", "sends half of each JoinGroup response, and nothing else", _half, ""),
    ("ApiVersions-half", "ApiVersions", "sends half of each ApiVersions response, and nothing else", _half, ""),
    ("only-a-length", "Fetch", "sends the length of each Fetch response, and nothing else", _only_the_length, ""),
    ("endless", "Fetch", "announces Fetch responses of 2 GiB, and sends a megabyte", _endless, KAFKA_PYTHON_3014),
    ("ApiVersions-endless", "ApiVersions", "announces ApiVersions responses of 2 GiB", _endless, KAFKA_PYTHON_3014),
    ("negative-length", "Fetch", "announces Fetch responses of -1 bytes", _negative, KAFKA_PYTHON_3014),
    ("Metadata-negative-length", "Metadata", "announces Metadata responses of -1 bytes", _negative, KAFKA_PYTHON_3014),
    ("empty-frames", EVERY, "sends an empty frame before each response", _empty, ""),
    ("length-too-small", EVERY, "announces one byte too few", _too_short, ""),
    ("length-too-large", EVERY, "announces one byte too many", _too_long, ""),
    ("zeros-after-the-body", EVERY, "appends 64 KiB of zeros to each response", _followed_by_zeros, ""),
    ("random-bodies", EVERY, "answers with random bytes after the correlation id", _random, ""),
    ("random-bytes", EVERY, "answers with random bytes", _random_from_the_start, ""),
    ("mutations", EVERY, "changes a third of all responses, each in one place, as the seed says", _mutated, ""),
    ("bodies-of-ones", EVERY, "answers with bytes of ones after the correlation id", _ones, ""),
    ("huge-varints", EVERY, "answers with lengths of 2 GiB everywhere", _lengths_of_all_strings_huge, ""),
    ("TLS-alert", "ApiVersions", "answers as a TLS listener does", _tls_alert, KAFKA_4090),
    ("TLS-hello", "ApiVersions", "answers with the beginning of a TLS handshake", _tls_hello, KAFKA_4090),
    ("HTTP", "ApiVersions", "answers as a web server does", _http, KAFKA_4090),
]
SWAPPED = {"out-of-order": ApiKey.FETCH, "Metadata-out-of-order": ApiKey.METADATA}
SLOW = "ApiVersions", "Metadata", "JoinGroup", "Fetch", "Produce"
SILENT = (
    "ApiVersions",
    "Metadata",
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "Fetch",
    "OffsetCommit",
    "Produce",
)
THROTTLED = "Fetch", "Heartbeat", "OffsetCommit", "Produce", "Metadata"
CLOSED = "ApiVersions", "Metadata", "FindCoordinator", "JoinGroup", "Fetch", "Produce"
THROTTLE_MS = 2_000
ALWAYS = {"times": "always"}
PUBLISHED = {"FindCoordinator-disconnect": "https://github.com/dpkp/kafka-python/issues/2373"}


def _rules(name: str, step: str, description: str, **rule: object) -> Case:
    target = {"on": "connect"} if step == CONNECT else {"api": step}
    published = PUBLISHED.get(name, "")
    return Case(name, step, description, rules=({**target, **ALWAYS, **rule},), published=published)


def _out_of_order(name: str, key: ApiKey) -> Case:
    step = APIS[key].name
    what = f"holds a {step} response and sends it after the next response of the connection"
    return Case(name, step, what, frames=partial(_swapped, key), gets_all=True)


CASES = [
    *(Case(name, step, what, frames=change, published=url) for name, step, what, change, url in FRAMES),
    *(_out_of_order(name, key) for name, key in SWAPPED.items()),
    *(_rules(f"{api}-trickle", api, f"sends one byte of {api} per second", bytes_per_second=1) for api in SLOW),
    *(_rules(f"{api}-silence", api, f"does not answer {api}", no_response=True) for api in SILENT),
    *(
        _rules(f"{api}-throttled", api, f"throttles {api} for two seconds", throttle_ms=THROTTLE_MS)
        for api in THROTTLED
    ),
    *(_rules(f"{api}-disconnect", api, f"closes the connection at {api}", disconnect="before") for api in CLOSED),
    *(
        _rules(f"{api}-lost-response", api, f"processes {api} and closes the connection", disconnect="after")
        for api in ("JoinGroup", "SyncGroup", "OffsetCommit", "Produce")
    ),
    *(
        _rules(f"{api}-reset", api, f"resets the connection within {api}", disconnect="mid-response", reset=True)
        for api in ("Metadata", "Fetch")
    ),
    _rules("refused", CONNECT, "resets each new connection", disconnect="before", reset=True),
    _rules("silent-connections", CONNECT, "accepts connections and answers nothing", no_response=True),
    _rules("slow-connections", CONNECT, "accepts connections after five seconds", delay_ms=5_000),
]
STEPS = (
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.OFFSET_FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.PRODUCE,
    ApiKey.INIT_PRODUCER_ID,
)
