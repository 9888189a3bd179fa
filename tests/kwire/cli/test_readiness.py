from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from golden import ROOT
from tools.handmade_calls import CallLog
from tools.pcap import Talk, packets, pcap, prefixed

from kwire import encode_request, encode_response
from kwire.analysis.readiness import Summary, statements
from kwire.capture import reading
from kwire.cli import analysed, groups
from kwire.cli.readiness import command
from kwire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

CAPTURES = ROOT / "fixtures" / "captures"


@pytest.mark.parametrize("family", ["confluent-kafka", "java-4.2.0", "aiokafka", "kafka-python"])
def test_clients_of_today_are_ready(family: str) -> None:
    path = next(path for path in sorted(CAPTURES.iterdir()) if path.name.startswith(family))
    result = CliRunner().invoke(command, [str(path), "--json"])
    rows = json.loads(result.stdout)
    assert (result.exit_code, {row["state"] for row in rows if row["kind"] == "client"}) == (0, {"ready"})


def test_transactions_of_a_captured_client() -> None:
    path = next(CAPTURES.glob("kafka-python-*txn.pcap.gz"))
    result = CliRunner().invoke(command, [str(path), "--json"])
    found = {tuple(row["transactions"]) for row in json.loads(result.stdout)} - {()}
    assert (result.exit_code, found) == (0, {("TV1",)})
    assert "; transactions of TV1\n" in CliRunner().invoke(command, [str(path)]).stdout


def old_client(tmp_path: Path) -> Path:
    """Return a capture of a client that sends ListOffsets v0."""
    talk = Talk()
    request = encode_request(ListOffsetsRequest(replica_id=-1), 0, correlation_id=1, client_id="old")
    segments = [*talk.open(), *talk.say(True, prefixed(request))]
    segments += talk.say(False, prefixed(encode_response(ListOffsetsResponse(), 0, correlation_id=1)))
    file = tmp_path / "old.pcap"
    file.write_bytes(pcap(packets([*segments, *talk.close()])))
    return file


def test_blocked_client_is_exit_code_1(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(old_client(tmp_path))])
    assert result.exit_code == 1
    assert result.stdout == "blocked  client old: removed requests: ListOffsets v0 (1)\n"
    assert result.stderr == "1 of the clients cannot use Kafka 4.2\n"


def test_capture_without_traffic_is_exit_code_1(tmp_path: Path) -> None:
    """Otherwise a check in CI would pass without any data."""
    result = CliRunner().invoke(command, [str(tmp_path)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {tmp_path}: no capture files ")
    (tmp_path / "empty.pcap").write_bytes(pcap([]))
    result = CliRunner().invoke(command, [str(tmp_path)])
    assert (result.exit_code, result.stderr) == (1, "Error: no Kafka traffic in the captures\n")


def test_page_has_the_rows_of_the_text(tmp_path: Path) -> None:
    paths = [str(old_client(tmp_path)), str(next(CAPTURES.glob("kafka-python-*txn.pcap.gz")))]
    html = tmp_path / "ready.html"
    result = CliRunner().invoke(command, [*paths, "--html", str(html)])
    assert result.exit_code == 1
    content = html.read_text("utf-8")
    for line in result.stdout.splitlines():
        state, _, name, *_ = line.split()
        assert f"<td>{state}</td><td>{name.rstrip(':')}</td>" in content
    assert content.index("<td>blocked</td><td>old</td>") < content.index("<td>ready</td>")
    assert "ListOffsets v0 (1)" in content


def test_tables_give_the_rows_of_their_capture(tmp_path: Path) -> None:
    path, folder = str(next(CAPTURES.glob("kafka-python-*txn.pcap.gz"))), str(tmp_path / "tables")
    assert CliRunner().invoke(groups.command, [path, "--tables", folder]).exit_code == 0
    results = [CliRunner().invoke(command, [source, "--json"]) for source in (path, folder)]
    assert results[0].exit_code == results[1].exit_code == 0
    assert json.loads(results[0].stdout) == json.loads(results[1].stdout)


def test_tables_of_a_damaged_capture_are_exit_code_1(tmp_path: Path) -> None:
    """Otherwise a check in CI would pass although calls are missing, which the capture itself reports."""
    path, folder = tmp_path / "cut.pcap", str(tmp_path / "tables")
    path.write_bytes(old_client(tmp_path).read_bytes()[:-10])
    assert CliRunner().invoke(groups.command, [str(path), "--tables", folder]).exit_code == 1
    results = [CliRunner().invoke(command, [source, "--json"]) for source in (str(path), folder)]
    assert [result.exit_code for result in results] == [1, 1]
    assert f"{path} at byte " in results[1].stderr
    assert results[0].stderr == results[1].stderr


def test_stream_in_parts_has_the_rows_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(CAPTURES.glob("confluent-kafka-2.16.1__kafka-3.9.1__three.pcap.gz"))
    whole = json.loads(CliRunner().invoke(command, [str(path), "--json"]).stdout)
    monkeypatch.setattr(analysed, "MOST_CALLS", 30)
    monkeypatch.setattr(reading, "_stdin", lambda: io.BytesIO(gzip.decompress(path.read_bytes())))
    result = CliRunner().invoke(command, ["-", "--json"])
    assert (result.exit_code, json.loads(result.stdout)) == (0, whole)


def test_counts_of_parts_are_summed() -> None:
    log = CallLog()
    log.call("old", 1, ListOffsetsRequest(replica_id=-1), ListOffsetsResponse(), 0)
    summary = Summary()
    for _ in range(3):
        summary.add(log.tables())
    (row,) = statements(summary.tables)
    assert row.removed == ("ListOffsets v0 (3)",)
