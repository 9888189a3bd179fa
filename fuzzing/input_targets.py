"""Fuzzing targets for other inputs: captures, segments, data directories, SASL tokens, HTTP bodies, files of rules.

Any bytes must give a result, or the error that the function documents. Each target takes the bytes of a coverage-guided
fuzzer, and raises AssertionError, or the unexpected exception, if this rule is violated.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from google_crc32c import value as crc32c
from tls_target import tls_session

from kwire import WireError
from kwire.capture.calls.frame_headers import is_tls, server_name
from kwire.capture.calls.model import Call
from kwire.capture.reading import read
from mockbroker.broker.authentication import mechanism
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.sasl.mechanism import Authenticated, Challenge, Failed
from mockbroker.broker.sasl.scram import derive
from mockbroker.cli.rule_files import RuleFileError, read_rules
from mockbroker.control.app import parsed
from mockbroker.control.problems import Refused
from mockbroker.faults.parsing import parse_rule, rule_to_json
from mockbroker.faults.sections import InvalidRule
from mockbroker.security.users import Users
from mockbroker.storage.catalogue import CatalogueError, decode_catalogue
from mockbroker.storage.layout import read_start_offsets
from mockbroker.storage.segments import Damage, read_segment

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USER, PASSWORD = "user", "secret"
NONCE = "server"
WALL_MS = 1_700_000_000_000
RULE_SUFFIXES = (".toml", ".json", ".yaml")
CRC_AT, CRC_FROM = 17, 21
MEMORY = Path("/dev/shm")  # noqa: S108 - a file of each input: in memory where Linux has such a folder


def capture(data: bytes) -> None:
    """Check a capture file of any format: pcap, pcapng, gzip or frame log, with the packets and streams in it."""
    file = _folder() / "capture"
    file.write_bytes(data)
    reading = read(file)
    calls = sum(isinstance(item, Call) for item in reading)
    assert calls <= len(data), "more calls than bytes"


def tls_hello(data: bytes) -> None:
    """Check the server name in a TLS ClientHello."""
    name = server_name(data) if is_tls(data) else None
    assert name is None or (name.isprintable() and name.encode() in data)


def segment(data: bytes) -> None:
    """Check a segment of a log. If the first byte is odd, the checksum of the first batch is corrected."""
    content = bytearray(data[1:])
    if data[:1] and data[0] % 2 and len(content) > CRC_FROM:
        (length,) = struct.unpack_from(">i", content, 8)
        end = 12 + length if length > 0 else len(content)
        struct.pack_into(">I", content, CRC_AT, crc32c(bytes(content[CRC_FROM:end])))
    size = 1 + (data[0] if data else 0)
    chunks = [bytes(content[at : at + size]) for at in range(0, len(content), size)]
    *batches, last = [None, *read_segment(chunks, 0)]
    assert not any(isinstance(batch, Damage) for batch in batches), "batches after damage"
    read_bytes = 0
    for batch in [*batches[1:], *([] if last is None or isinstance(last, Damage) else [last])]:
        assert batch is not None
        read_bytes += len(batch.data)
        with suppress(WireError):
            list(batch.records())
    assert isinstance(last, Damage) == (read_bytes < len(content)), "bytes are lost without damage"


def data_directory(data: bytes) -> None:
    """Check the two files of a data directory that are not segments: its catalogue and the log start offsets."""
    with suppress(CatalogueError):
        decode_catalogue(data)
    with suppress(ValueError):
        read_start_offsets(data)


def sasl_token(data: bytes) -> None:
    """Check the tokens of a SASL exchange, separated by line feeds. The first byte selects the mechanism."""
    name = MECHANISMS[data[0] % len(MECHANISMS)] if data else MECHANISMS[0]
    exchange = mechanism(name, _users(), lambda: NONCE)
    for token in data[1:].split(b"\n"):
        verdict = exchange.evaluate(token, WALL_MS)
        assert isinstance(verdict, Challenge | Authenticated | Failed)
        if not isinstance(verdict, Challenge):
            may_pass = name == "OAUTHBEARER" or (PASSWORD.encode() in token and name == "PLAIN")
            assert may_pass or not isinstance(verdict, Authenticated), "authenticated without the password"
            return


def http_body(data: bytes) -> None:
    """Check a body that is sent to the control API, as a fault rule."""
    with suppress(Refused):
        _rule(parsed(data))


def rule_file(data: bytes) -> None:
    """Check a file of fault rules. The first byte selects TOML, JSON or YAML."""
    file = (_folder() / "rules").with_suffix(RULE_SUFFIXES[data[0] % len(RULE_SUFFIXES)] if data else ".toml")
    file.write_bytes(data[1:])
    with suppress(RuleFileError):
        for form in read_rules(file):
            _rule(form)


def _rule(form: Any) -> None:
    """Check that a rule that is accepted has a JSON form that gives the same rule."""
    with suppress(InvalidRule):
        rule = parse_rule(form, HANDLERS)
        assert parse_rule(json.loads(json.dumps(rule_to_json(rule))), HANDLERS) == rule


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="kwire-fuzz-", dir=MEMORY if MEMORY.is_dir() else None))


@cache
def _users() -> Users:
    users = Users({USER: PASSWORD})
    users.alter(derive({USER: PASSWORD}, MECHANISMS[1:3], lambda: bytes(16)))
    return users


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (capture, tls_hello, tls_session, segment, data_directory, sasl_token, http_body, rule_file)
}
