"""TLS in the pipeline: with a key log, and with the secrets that pcapng files contain."""

from __future__ import annotations

import ssl
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner
from spark import traces
from tools.pcap import Talk, block, enhanced, interface, section
from tools.tls_talk import TlsTalk

pytest.importorskip("pyspark")

from kwire.analysis import parquet
from kwire.capture.tls.keylog import KeyLogFile
from kwire.capture.tls.session import TlsSession
from kwire.spark import command, plain
from kwire.spark.input_files import files
from kwire.spark.job import Job, read_frames
from kwire.spark.output import Output
from kwire.spark.stream import Stream

TRACES = [traces.ROOT / "fixtures" / "tls" / f"kafka_python_1_{minor}.pcap" for minor in (2, 3)]
KEYS = [path.with_suffix(".keys") for path in TRACES]
SIZES = [None, 8_000]  # bytes per task: one task for all, and several stages


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Yield a key log with the secrets of both captures."""
    path = tmp_path / "keys"
    path.write_bytes(b"".join(one.read_bytes() for one in KEYS))
    return path


def as_pcapng(path: Path, secrets: bytes, folder: Path) -> Path:
    """Return a capture as pcapng, with a block of secrets between the first and the second half of its packets."""
    records = traces.records(path)
    packets = [enhanced(traces.time_us(one), one[16:], len(one) - 16) for one in records]
    packets.insert(len(packets) // 2, block(10, struct.pack("<II", 0x544C534B, len(secrets)) + secrets))
    made = folder / f"{path.name}ng"
    made.write_bytes(section() + interface() + b"".join(packets))
    return made


@pytest.mark.parametrize("size", SIZES)
def test_rows_are_those_of_one_process(spark, tmp_path, keys, size):
    """The rows are the same if the calls of a connection are decoded in slices, by tasks that have no secrets."""
    keylog = KeyLogFile(keys)
    expected = traces.single(TRACES, "c", keylog=keylog)
    Job(files([*map(str, TRACES)]), Output(str(tmp_path / "out")), "c", size, slice_calls=5, keylog=keylog).run(spark)
    assert parquet.read(tmp_path / "out") == expected
    assert {row["group_id"] for row in expected["members"]} == {"billing"}


@pytest.mark.parametrize("size", SIZES)
def test_secrets_in_pcapng_files_are_used(spark, tmp_path, size):
    """The secrets apply to all connections, whichever task finds them, and are not stored."""
    others = [as_pcapng(path, KEYS[1 - n].read_bytes(), tmp_path) for n, path in enumerate(TRACES)]
    Job(files([*map(str, others)]), Output(str(tmp_path / "out")), "c", size).run(spark)
    found = parquet.read(tmp_path / "out")
    assert {row["status"] for row in found["connections"]} == {"kafka"}
    assert {row["group_id"] for row in found["members"]} == {"billing"}
    assert not list(tmp_path.glob("out/_staging*"))


def test_frames_are_read_with_a_key_log(spark, tmp_path, keys):
    keylog = KeyLogFile(keys)
    found = read_frames(spark, [*map(str, TRACES)], capture_id="c", split_size=8_000, keylog=keylog)
    keys.unlink()  # no task needs the file
    assert traces.rows("frames", found) == traces.single(TRACES, "c", keylog=keylog)["frames"]


def test_command(spark, tmp_path, keys, monkeypatch):
    monkeypatch.setattr(command, "start", lambda *_, **__: spark)
    arguments = "--keylog", str(keys), "--output", str(tmp_path / "out"), "--input", *map(str, TRACES)
    done = CliRunner().invoke(command.command, arguments)
    assert done.exit_code == 0, done.output
    assert {row["group_id"] for row in parquet.read(tmp_path / "out")["members"]} == {"billing"}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_stored_state_has_no_secrets(tmp_path, version):
    """Every state of the stream is checked, with one packet between two states."""
    talk = TlsTalk(tmp_path / "keys", version, talk=Talk(mss=100))
    segments = talk.handshake() + talk.say(True, b"x" * 1_000) + talk.say(False, b"y" * 1_000)
    keylog = KeyLogFile(tmp_path / "keys")
    known = [bytes.fromhex(line.split()[2].decode()) for line in keylog.lines().splitlines()]
    session, found = TlsSession(keylog), b""
    for segment in segments:
        if segment.payload:
            found += b"".join(data for _, data in session.feed(segment.source == talk.talk.client, segment.payload))
        session.forget_secrets()
        state = plain.dumps(session)
        assert not [secret for secret in known if secret in state]
        session = plain.loads(state)
        session.use_secrets(keylog)
    assert found == b"x" * 1_000 + b"y" * 1_000


def test_stream(spark, tmp_path, keys):
    """A connection continues in later files, and its secrets are added to the key log after the start."""
    first, second = (traces.cut(path, tmp_path / path.stem, 3) for path in TRACES)
    keylog = KeyLogFile(keys)
    expected = traces.single([*first, *second], "c", keylog=keylog)
    keys.write_bytes(KEYS[1].read_bytes())
    folder = tmp_path / "rotating"
    folder.mkdir()
    stream = Stream([str(folder)], Output(str(tmp_path / "out")), "c", settle=0.0, files=1, keylog=KeyLogFile(keys))
    for paths in (second, first):
        for path in paths:
            path.rename(folder / f"{path.parent.name}-{path.name}")
        stream.start(spark, once=True).awaitTermination()
        keys.write_bytes(KEYS[1].read_bytes() + KEYS[0].read_bytes())
    stream.finish(spark)
    found = parquet.read(tmp_path / "out")
    assert found["members"] == expected["members"]
    assert len(found["frames"]) == len(expected["frames"])
    assert {row["status"] for row in found["connections"]} == {"kafka"}


def test_stream_uses_secrets_in_pcapng_files(spark, tmp_path, keys):
    """Connections continue in later files and after a restart. Only the first file of a connection has its secrets."""
    second, first = (traces.cut(path, tmp_path / path.stem, 3) for path in TRACES)
    expected = traces.single([*first, *second], "c", keylog=KeyLogFile(keys))
    first[0], second[0] = (
        as_pcapng(path, log.read_bytes(), path.parent)
        for path, log in zip((first[0], second[0]), KEYS[::-1], strict=True)
    )
    folder = tmp_path / "rotating"
    folder.mkdir()
    stream = Stream([str(folder)], Output(str(tmp_path / "out")), "c", settle=0.0, files=1)
    for paths in ([*first, second[0]], second[1:]):
        for path in paths:
            path.rename(folder / f"{path.parent.name}-{path.name}")
        stream.start(spark, once=True).awaitTermination()
    stream.finish(spark)
    found = parquet.read(tmp_path / "out")
    assert found["members"] == expected["members"]
    assert len(found["frames"]) == len(expected["frames"])
    assert {row["status"] for row in found["connections"]} == {"kafka"}
