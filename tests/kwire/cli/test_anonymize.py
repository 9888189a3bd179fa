from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path

import pytest
from captures import tls_hello
from commands import kwire
from golden import ROOT
from tools.captures import CAPTURES
from tools.pcap import Talk, packets, pcap

from kwire.capture import reading
from kwire.cli import interface as cli_interface

CAPTURE = str(CAPTURES / "java-4.2.0__kafka-4.2.0__kip848.pcap.gz")
TRACE, SECRETS = (str(ROOT / "fixtures" / "tls" / f"kafka_python_1_3.{kind}") for kind in ("pcap", "keys"))


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    (tmp_path / "key").write_text("a key of more than sixteen bytes\n")
    return str(tmp_path / "key")


@pytest.mark.parametrize("suffix", [".jsonl", ".pcapng"])
def test_the_output_is_private_and_can_be_read(suffix: str, tmp_path: Path, key_file: str) -> None:
    out = tmp_path / f"out{suffix}"
    done = kwire("anonymize", CAPTURE, "-o", str(out), "--key-file", key_file)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert out.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == sorted(["key", out.name])
    shown = kwire("groups", str(out))
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.startswith("group ")
    assert "kip848" not in shown.stdout


def test_a_key_gives_the_same_output_again(tmp_path: Path) -> None:
    first = kwire("anonymize", CAPTURE, "-o", str(tmp_path / "1.jsonl"))
    assert first.stderr.startswith("key for --key-file: ")
    key = first.stderr.split()[-1]
    (tmp_path / "key").write_text(key)
    kwire("anonymize", CAPTURE, "-o", str(tmp_path / "2.jsonl"), "--key-file", str(tmp_path / "key"))
    kwire("anonymize", CAPTURE, "-o", str(tmp_path / "3.jsonl"))
    one, two, three = ((tmp_path / f"{number}.jsonl").read_bytes() for number in (1, 2, 3))
    assert one == two != three


def test_topics_are_kept_on_request(tmp_path: Path) -> None:
    kwire("anonymize", "--keep", "topics", CAPTURE, "-o", str(tmp_path / "out.jsonl"))
    groups = json.loads(kwire("groups", "--json", str(tmp_path / "out.jsonl")).stdout)["groups"]
    assert next(commit["topic"] for group in groups for commit in group["commits"]).startswith("t-")


def test_dropped_contents_are_counted_on_stderr(tmp_path: Path, key_file: str) -> None:
    talk = Talk()
    trace = tmp_path / "trace.pcap"
    trace.write_bytes(pcap(packets([*talk.open(), *talk.say(True, tls_hello(b"host.example.com"))])))
    done = kwire("anonymize", str(trace), "-o", str(tmp_path / "out.pcapng"), "--key-file", key_file)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[0] == "dropped: 1 connections that are not plain Kafka"


def test_a_failure_leaves_no_file(tmp_path: Path, key_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = kwire("anonymize", CAPTURE, "-o", str(tmp_path / "out.jsonl"), "--key-file", key_file)
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert os.listdir(tmp_path) == ["key"]


def test_connections_over_tls_are_decrypted_with_the_key_log(tmp_path: Path, key_file: str) -> None:
    out = tmp_path / "out.jsonl"
    done = kwire("anonymize", "--keylog", SECRETS, TRACE, "-o", str(out), "--key-file", key_file)
    assert (done.exit_code, done.stderr) == (0, "")
    before = json.loads(kwire("groups", "--json", "--keylog", SECRETS, TRACE).stdout)["groups"]
    after = json.loads(kwire("groups", "--json", str(out)).stdout)["groups"]
    assert [group["group_id"] for group in before] == ["billing"]
    assert [len(group["commits"]) for group in after] == [len(group["commits"]) for group in before] != [0]
    written = out.read_bytes()
    secrets = [word for line in Path(SECRETS).read_text().splitlines() for word in line.split()[1:] if line[0] != "#"]
    assert secrets
    for original in (b"billing", *(text.encode() for text in secrets)):
        assert original not in written
        assert original.hex().encode() not in written


def test_a_connection_continues_in_the_next_input_file(tmp_path: Path, key_file: str) -> None:
    whole = tmp_path / "whole.jsonl"
    kwire("anonymize", CAPTURE, "-o", str(whole), "--key-file", key_file)
    lines = whole.read_bytes().splitlines(keepends=True)
    parts = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for part, content in zip(parts, (lines[: len(lines) // 2], lines[len(lines) // 2 :]), strict=True):
        part.write_bytes(b"".join(content))
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    kwire("anonymize", str(whole), "-o", str(one), "--key-file", key_file)
    done = kwire("anonymize", *map(str, reversed(parts)), "-o", str(two), "--key-file", key_file)
    assert (done.exit_code, done.stderr) == (0, "")
    assert two.read_bytes() == one.read_bytes()


def test_equal_names_are_equal_in_the_output_of_all_inputs(tmp_path: Path, key_file: str) -> None:
    other = str(CAPTURES / "aiokafka-0.14.0__kafka-4.2.0__static.pcap.gz")
    names = []
    for number, inputs in enumerate([(CAPTURE,), (other,), (CAPTURE, other)]):
        out = str(tmp_path / f"{number}.pcapng")
        assert kwire("anonymize", *inputs, "-o", out, "--key-file", key_file).exit_code == 0
        names.append({group["group_id"] for group in json.loads(kwire("groups", "--json", out).stdout)["groups"]})
    assert names[0] | names[1] == names[2]
    assert names[0] != names[1]


def test_stdin_is_read(tmp_path: Path, key_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.decompress(Path(CAPTURE).read_bytes())
    monkeypatch.setattr(reading, "_stdin", lambda: io.BytesIO(content))
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    done = kwire("anonymize", "-", "-o", str(one), "--key-file", key_file)
    assert (done.exit_code, done.stderr) == (0, "")
    kwire("anonymize", CAPTURE, "-o", str(two), "--key-file", key_file)
    assert sorted(one.read_bytes().splitlines()) == sorted(two.read_bytes().splitlines())


class Ring(io.BytesIO):
    """The packets of a network interface, as ``PacketRing`` returns them."""

    name = "lo"
    lost = 0

    def stop(self) -> None:
        raise AssertionError


def test_a_network_interface_is_read(tmp_path: Path, key_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.decompress(Path(CAPTURE).read_bytes())
    monkeypatch.setattr(cli_interface, "PacketRing", lambda _: Ring(content))
    out = tmp_path / "out.jsonl"
    done = kwire("anonymize", "--interface", "lo", "-o", str(out), "--key-file", key_file)
    assert (done.exit_code, done.stderr) == (0, "")
    assert kwire("groups", str(out)).stdout.startswith("group ")


def test_the_output_is_no_input_in_the_folder(tmp_path: Path, key_file: str) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    (folder / "trace.pcap.gz").write_bytes(Path(CAPTURE).read_bytes())
    out = folder / "shared.jsonl"
    assert kwire("anonymize", str(folder), "-o", str(out), "--key-file", key_file).exit_code == 0
    again = kwire("anonymize", str(folder), "-o", str(out), "--key-file", key_file)
    assert again.exit_code == 2
    assert "is also an input file" in again.stderr
