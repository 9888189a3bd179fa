from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from captures import tls_hello
from commands import kwire
from tools.captures import CAPTURES
from tools.pcap import Talk, packets, pcap

CAPTURE = str(CAPTURES / "java-4.2.0__kafka-4.2.0__kip848.pcap.gz")


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
