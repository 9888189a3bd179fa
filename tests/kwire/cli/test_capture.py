from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from captures import CAPTURES, COMMITTED, heartbeats, records, snapped, tls_hello
from commands import command, kwire, printed
from tools.captures import CAPTURES as FOLDER
from tools.pcap import Talk, packets, pcap, pcapng

from kwire.capture import Problem, read, read_segments, splits
from kwire.capture.rows import COLUMNS, MORE, rows

SASL = next(path for path in COMMITTED if "sasl" in path.name)
PATH = next(path for path in COMMITTED if "kip848" in path.name)


def test_json_lines() -> None:
    rows = printed(kwire("capture", str(PATH)))
    assert all(set(COLUMNS) <= set(row) for row in rows)
    first = rows[0]
    assert (first["api_name"], first["direction"], first["correlation_id"]) == ("ApiVersions", "request", 1)
    assert first["body"]["client_software_name"].startswith(("librdkafka", "confluent"))
    beats = [row for row in rows if row["api_name"] == "ConsumerGroupHeartbeat" and row["direction"] == "response"]
    owned = [part for row in beats for part in (row["body"]["assignment"] or {}).get("topic_partitions", ())]
    assert all(part["_topic_name"].startswith("t-kip848") for part in owned)
    assert owned


def test_where_and_table() -> None:
    result = kwire(
        "capture", "--where", "api_name == 'ConsumerGroupHeartbeat' and latency_ms > 1", "--format", "table", str(PATH)
    )
    lines = result.stdout.splitlines()
    assert len(lines) > 3
    assert all("ConsumerGroupHeartbeat" in line and " ms" in line for line in lines[1:])


@pytest.mark.parametrize("text", ["nonsense > 1", "__import__('os')"])
def test_a_wrong_filter_is_wrong_usage(text: str) -> None:
    result = kwire("capture", "--where", text, str(PATH))
    assert (result.exit_code, result.stdout) == (2, "")


def test_parquet(tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    assert kwire("capture", "--format", "parquet", str(PATH)).exit_code == 2
    assert kwire("capture", "--format", "parquet", "-o", str(out), str(PATH)).exit_code == 0
    table = pq.read_table(out)  # type: ignore[no-untyped-call]
    assert table.column_names == [*COLUMNS, *MORE]
    rows: list[dict[str, Any]] = table.to_pylist()
    lines = printed(kwire("capture", str(PATH)))
    assert [json.loads(row["body"]) if row["body"] else None for row in rows] == [line["body"] for line in lines]
    assert [row["time"].isoformat(timespec="microseconds").replace("+00:00", "Z") for row in rows] == [
        line["time"] for line in lines
    ]


def test_secrets() -> None:
    tokens = [
        r
        for r in printed(kwire("capture", str(SASL)))
        if r["api_name"] == "SaslAuthenticate" and r["direction"] == "request"
    ]
    assert {row["body"]["auth_bytes"] for row in tokens} == {"[redacted]"}
    shown = [r for r in printed(kwire("capture", "--no-redact", str(SASL))) if r["api_name"] == "SaslAuthenticate"]
    assert "[redacted]" not in {row["body"]["auth_bytes"] for row in shown}


def test_damage_is_a_row_and_exit_code_1(tmp_path: Path) -> None:
    bad = tmp_path / "cut.pcap"
    bad.write_bytes(PATH.read_bytes()[:20_000])
    result = kwire("capture", str(bad), str(SASL))
    assert result.exit_code == 1
    rows = printed(result)
    (damage,) = [row for row in rows if "error" in row]
    assert damage["file"] == str(bad)
    assert f"{bad} at byte {damage['position']}: the file ends inside a record" in result.stderr
    assert any(row["file"] == str(SASL) for row in rows)
    assert "ends inside a record" in kwire("capture", "--format", "table", str(bad)).stdout


def test_skipped_data_is_a_row(tmp_path: Path) -> None:
    """Packets that are not TCP are no damage; packets of an unknown link type may contain Kafka traffic."""
    packets = records(PATH)
    udp = [(time_us, data[:23] + b"\x11" + data[24:], size) for time_us, data, size in packets[:3]]
    arp = [(time_us, data[:12] + b"\x08\x06" + data[14:], size) for time_us, data, size in packets[:2]]
    mixed = tmp_path / "mixed.pcap"
    mixed.write_bytes(pcap([*udp, *arp, *packets]))
    result = kwire("capture", str(mixed))
    rows = printed(result)
    notes = [row for row in rows if row["direction"] is None]
    assert result.exit_code == 0
    assert [(row["file"], row["reason"], row["packets"], "error" in row) for row in notes] == [
        (str(mixed), "not_ip", 2, False),
        (str(mixed), "not_tcp", 3, False),
    ]
    assert result.stderr.splitlines() == [f"{mixed}: {row['note']}" for row in notes]
    assert len(rows) == len(printed(kwire("capture", str(PATH)))) + 2
    assert f"{mixed}: 3 packets skipped: not TCP" in kwire("capture", "--format", "table", str(mixed)).stdout
    assert "packets passed over" not in kwire("capture", "--where", "size > 0", str(mixed)).stdout
    assert printed(kwire("capture", "--where", "reason == 'not_tcp'", str(mixed))) == notes[1:]


def test_packets_cut_by_a_snap_length_are_damage(tmp_path: Path) -> None:
    """Calls have the values of the headers; a row, a line on stderr and the exit code report that data is missing."""
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(snapped(PATH, 96))
    result = kwire("capture", str(cut))
    actual = printed(result)
    (damage,) = [row for row in actual if "error" in row]
    assert (result.exit_code, damage["file"], damage["reason"]) == (1, str(cut), "snaplen")
    assert damage["error"].startswith(f"{damage['packets']} packets truncated by the snap length")
    assert f"{cut}: {damage['error']}" in result.stderr.splitlines()
    calls, whole = ([row for row in rows if row["direction"] == "request"] for rows in (actual, rows_of(PATH)))
    names = ("time", "api_name", "api_version", "correlation_id", "size")
    assert [[row[name] for name in names] for row in calls] == [[row[name] for name in names] for row in whole]
    assert f"{cut}: {damage['error']}" in kwire("capture", "--format", "table", str(cut)).stdout
    assert printed(kwire("capture", "--where", "reason == 'snaplen'", str(cut))) == [damage]
    output = tmp_path / "out.parquet"
    assert kwire("capture", "--format", "parquet", "-o", str(output), str(cut)).exit_code == 1


@pytest.mark.parametrize("make", [pcap, pcapng])
def test_unknown_link_type_is_damage(make: Callable[..., bytes], tmp_path: Path) -> None:
    strange = tmp_path / "strange.pcap"
    strange.write_bytes(make(records(PATH), 147))
    result = kwire("capture", str(strange))
    (damage,) = [row for row in printed(result) if "error" in row]
    assert (result.exit_code, damage["position"]) == (1, 0)
    assert damage["error"] == "unknown link type 147: its packets are skipped"
    assert damage["error"] in result.stderr
    (part,) = splits(str(strange))
    assert [item.reason for item in read_segments(part) if isinstance(item, Problem)] == [damage["error"]]


def test_connections_that_could_not_be_read_have_a_row(tmp_path: Path) -> None:
    """The connections use TLS with a server name, another protocol, and Kafka with a hole."""
    sealed, other = Talk(client=("10.0.0.1", 1_001), isn=(1, 2)), Talk(client=("10.0.0.1", 1_002), isn=(3, 4))
    holed = Talk(client=("10.0.0.1", 1_003), isn=(5, 6))
    segments = [
        *sealed.open(),
        *sealed.say(True, tls_hello(b"broker.example")),
        *other.open(),
        *other.say(True, b"GET / HTTP/1.1\r\n" * 9000),
    ]
    talked = [*holed.open(), *heartbeats(holed, 6), *holed.close()]
    lost = talked.pop(9)
    path = tmp_path / "three.pcap"
    path.write_bytes(pcap(packets([*segments, *talked])))
    result = kwire("capture", str(path))
    rows = [row for row in printed(result) if row["direction"] is None]
    assert {row["client"]: (row["reason"], row["note"]) for row in rows} == {
        "10.0.0.1:1001": ("tls", "TLS for broker.example"),
        "10.0.0.1:1002": ("not_kafka", "not Kafka"),
        "10.0.0.1:1003": ("gaps", f"{len(lost.payload)} bytes missing at 1 place"),
    }
    assert result.exit_code == 0
    assert "1 connection not decoded completely: tls" in result.stderr
    assert any("10.0.0.1:1002 - 10.0.0.2:9092: not Kafka" in line for line in table(path))


def table(path: Path) -> list[str]:
    return kwire("capture", "--format", "table", str(path)).stdout.splitlines()


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_captures_in_order_have_rows_of_frames_alone(path: Path) -> None:
    assert not [row for row in rows_of(path) if row["direction"] is None]


def rows_of(path: Path) -> list[Any]:
    return list(rows(read(path)))


def test_ports_folders_and_nothing() -> None:
    assert kwire("capture", "--port", "1", str(PATH)).stdout == ""
    assert len(kwire("capture", str(PATH.parent)).stdout.splitlines()) > 300
    assert kwire("capture", "/not/there").exit_code == 2
    assert kwire("capture").exit_code == 2


def test_a_capture_is_not_overwritten(tmp_path: Path) -> None:
    own = tmp_path / "own.pcap"
    own.write_bytes(PATH.read_bytes())
    for flags in (["capture", "-o"], ["groups", "--html"]):
        result = kwire(flags[0], str(own), flags[1], str(own))
        assert (result.exit_code, "would be overwritten" in result.stderr) == (2, True)
        result = kwire(flags[0], str(own), flags[1], str(tmp_path / "none" / "out"))
        assert (result.exit_code, "does not exist" in result.stderr) == (2, True)
    assert own.read_bytes() == PATH.read_bytes()


def test_a_damaged_gzip_gives_all_before_the_damage(tmp_path: Path) -> None:
    whole = gzip.compress(PATH.read_bytes())
    bad = tmp_path / "crc.pcap.gz"
    bad.write_bytes(whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:])
    result = kwire("capture", str(bad))
    expected = kwire("capture", str(PATH)).stdout.splitlines()
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == len(expected) + 1
    assert f"at byte {len(PATH.read_bytes())}: the gzip data is damaged" in result.stderr


def test_calls_are_printed_while_the_stream_is_open() -> None:
    content = gzip.decompress((FOLDER / "java-4.2.0__kafka-4.2.0__cooperative.pcap.gz").read_bytes())
    with command("capture", "-") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(content[:20_000])
        process.stdin.flush()
        early = [json.loads(process.stdout.readline()) for _ in range(20)]
        process.stdin.write(content[20_000:])
        process.stdin.close()
        rest = process.stdout.read()
    assert [row["direction"] for row in early[:2]] == ["request", "response"]
    assert len(early) + len(rest.splitlines()) == 302
    assert process.returncode == 0


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b" + bytes(30), b'{"time_us": 0}' + bytes(30), b"", b"no capture" + bytes(30)]
)
def test_stdin_that_is_no_capture(content: bytes) -> None:
    with command("capture", "-") as process:
        _, error = process.communicate(content)
    assert process.returncode == 1
    assert error.startswith(b"- at byte 0: ")
