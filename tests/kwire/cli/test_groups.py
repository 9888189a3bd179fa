from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from captures import snapped, tls_hello
from commands import command, kwire, printed
from tools.captures import CAPTURES, capture
from tools.pcap import Talk, packets, pcap
from tools.rotating_group import rotating_group

from kwire.analysis import parquet
from kwire.analysis.report import by_group
from kwire.analysis.report.html_page import page
from kwire.capture import reading
from kwire.capture.rows import LAST
from kwire.cli import analysed
from kwire.cli.groups import finding_lines, text

PROBLEM = ("file", "position", "client", "reason", "packets", "note")
NAME = "java-4.2.0__kafka-4.2.0__cooperative.pcap.gz"
CAPTURE = str(CAPTURES / NAME)


def test_text() -> None:
    done = kwire("groups", CAPTURE)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "group g-cooperative-java-4.2.0-r3: classic; 2 members, 5 rebalances, 0 violations"
    assert sum("revocation: m1 - JoinGroup after it revoked partitions" in line for line in lines) == 1
    topic = "t-cooperative-java-4.2.0-r3"
    assert f"      m2: {topic} 2  (+ {topic} 2)" in lines or f"      m2: {topic} 2" in lines
    assert any(line.startswith("      stopped (cooperative): m2 ") and "1 partition moved" in line for line in lines)
    assert any(line.startswith(f"  committed {topic}-0: ") and "lag 0" in line for line in lines)


def test_json() -> None:
    result = json.loads(kwire("groups", "--json", CAPTURE).stdout)
    (group,) = result["groups"]
    assert result["problems"] == []
    assert group["group_id"] == "g-cooperative-java-4.2.0-r3"
    assert group["generations"] == [1, 2, 3, 4, 5]
    assert [member["name"] for member in group["members"]] == ["m1", "m2"]
    third = group["rebalances"][2]
    one, two = (member["member_id"] for member in group["members"])
    assert (third["trigger"], third["trigger_member"], third["members_after"]) == ("revocation", one, [one, two])
    assert [len(third["assignment_before"].get(member, [])) for member in (one, two)] == [2, 0]
    assert [len(third["assignment_after"].get(member, [])) for member in (one, two)] == [2, 1]
    assert third["stw_ms"][one] is None
    assert third["stw_ms"][two] == third["stw_ms_max"] > 0
    assert third["started_ts"].endswith("+00:00")
    assert {row["refused"] for row in group["commits"]} == {0}


def test_equal_findings_are_one_entry() -> None:
    rows = rotating_group(3, 12, 6)["findings"]
    assert list(finding_lines([*rows, {**rows[0], "group_id": "other", "sentence": "Another group."}])) == [
        "13 findings",
        "  notice    costly-rebalance  22:13:20.000-22:13:20.120  Generation 1 of `billing` stopped consumption for 120 ms.",
        "      see rebalances to_generation=1 life=1",
        "      and 11 more like it, 22:13:21.000-22:13:31.120; --json lists them",
        "  notice    costly-rebalance  22:13:20.000-22:13:20.120  Another group.",
        "      see rebalances to_generation=1 life=1",
        "",
    ]


def test_findings_name_the_cluster_of_a_group_that_several_have() -> None:
    rows = [{**rotating_group(3, 2, 1)["findings"][0], "cluster": cluster} for cluster in ("alpha", "beta")]
    sentences = [line for line in finding_lines(rows, {rows[0]["group_id"]}) if "costly" in line]
    assert [line.rpartition(" (")[2] for line in sentences] == ["cluster alpha)", "cluster beta)"]


THREE = str(CAPTURES / "confluent-kafka-2.16.1__kafka-4.2.0__three.pcap.gz")


def test_what_if_as_text() -> None:
    done = kwire("groups", THREE, "--what-if", "sticky")
    assert (done.exit_code, done.stderr) == (0, "")
    plain = kwire("groups", THREE).stdout.splitlines()
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in plain] == plain
    topic = "t-three-confluent-kafka-2.16.1"
    assert lines[len(plain) - 1 : -1] == [
        "  what if sticky: partitions moved 5 instead of 6, rebalances 5, imbalance up to 1",
        "      partitions without an owner, added up: 0.310 s instead of 0.310 s: 0.000 s avoided",
        "      generation 1: moved 0, imbalance 0, without an owner 0.0 ms instead of 0.0 ms",
        "      generation 2: moved 1, imbalance 1, without an owner 11.0 ms instead of 11.0 ms",
        "      generation 3: moved 1 instead of 2, imbalance 0, without an owner 35.9 ms instead of 35.9 ms",
        f"          m1: {topic} 0",
        f"          m2: {topic} 2",
        f"          m3: {topic} 1",
        "      generation 4: moved 1, imbalance 1, without an owner 174.5 ms instead of 174.5 ms",
        f"          m1: {topic} 0 2",
        f"          m3: {topic} 1",
        "      generation 5: moved 2, imbalance 0, without an owner 89.1 ms instead of 89.1 ms",
    ]


def test_what_if_without_some_rebalances() -> None:
    lines = kwire("groups", CAPTURE, "--what-if", "sticky").stdout.splitlines()
    assert "  what if sticky: partitions moved 3, rebalances 3 instead of 4, imbalance up to 1 instead of 2" in lines
    assert any(line.startswith("      generation 3, not needed: moved 0 instead of 1, ") for line in lines)
    lines = kwire("groups", THREE, "--what-if", "cooperative-sticky").stdout.splitlines()
    assert any(line.startswith("      generation 2, and a follow-up: moved 1, ") for line in lines)
    assert any(line.endswith(" s more") for line in lines)


def test_what_if_as_json(tmp_path: Path) -> None:
    (plain,) = json.loads(kwire("groups", "--json", CAPTURE).stdout)["groups"]
    done = kwire("groups", "--json", CAPTURE, "--what-if", "sticky", "--tables", str(tmp_path))
    (group,) = json.loads(done.stdout)["groups"]
    replayed = group.pop("what_if")
    assert group == plain
    assert [row["generation"] for row in replayed["generations"]] == [1, 2, 3, 4]
    second, third = (row["assignment_what_if"] for row in replayed["generations"][1:3])
    assert second == third == plain["rebalances"][2]["assignment_after"]
    added = replayed["sum"]
    assert (added["stopped_ms"], added["stopped_ms_what_if"], added["avoided_ms"]) == (1238.371, 792.976, 445.395)
    assert (added["rebalances"], added["rebalances_what_if"], added["moved"], added["moved_what_if"]) == (4, 3, 3, 3)
    result = parquet.read(tmp_path, ["what_if", "what_if_assignments"])
    assert [row["generation"] for row in result["what_if"]] == [1, 2, 3, 4]
    assert len(result["what_if_assignments"]) == 3 * 4


def test_what_if_names_missing_evidence() -> None:
    capture = str(CAPTURES / "kafka-python-3.0.12__kafka-4.2.0__admin.pcap")
    done = kwire("groups", capture, "--what-if", "sticky")
    assert done.exit_code == 0
    assert "  what if sticky: nothing to replay: no member was seen joining" in done.stdout.splitlines()
    (*_, group) = json.loads(kwire("groups", "--json", capture, "--what-if", "sticky").stdout)["groups"]
    assert group["what_if"] == {"generations": [], "sum": None}


def test_what_if_takes_a_known_assignor() -> None:
    done = kwire("groups", CAPTURE, "--what-if", "best")
    assert (done.exit_code, done.stdout) == (2, "")
    known = "'range', 'roundrobin', 'sticky', 'cooperative-sticky', 'sticky-0.11', 'uniform'"
    assert f"Error: Invalid value for '--what-if': 'best' is not one of {known}." in done.stderr


def test_page_and_tables(tmp_path: Path) -> None:
    page, tables = tmp_path / "page.html", tmp_path / "tables"
    done = kwire("groups", CAPTURE, "--html", str(page), "--tables", str(tables), "--capture-id", "tuesday")
    assert done.exit_code == 0
    assert "g-cooperative-java-4.2.0-r3" in page.read_text("utf-8")
    rows = parquet.read(tables)
    assert len(rows["rebalances"]) == 5
    assert {row["capture_id"] for row in rows["frames"]} == {"tuesday"}


def test_skipped_traffic_is_reported_as_by_capture(tmp_path: Path) -> None:
    """Packets that are not TCP, a connection with TLS, damage: the same in rows, in JSON, in the table, on stderr."""
    sealed = Talk()
    made = list(packets([*sealed.open(), *sealed.say(True, tls_hello(b"broker.example"))]))
    udp = [(time_us, data[:23] + b"\x11" + data[24:], size) for time_us, data, size in made[:1]]
    path, tables = tmp_path / "some.pcap", tmp_path / "tables"
    path.write_bytes(pcap([*made, *udp, *made])[:-10])
    problems = {
        (row["file"], row.get("position"), row["client"], row.get("reason"), row.get("packets"), row.get("note"))
        for row in printed(kwire("capture", str(path)))
    }
    done = kwire("groups", "--json", "--tables", str(tables), str(path))
    rows = parquet.read(tables, ["problems"])["problems"]
    assert problems == {tuple(row[name] for name in PROBLEM) for row in rows}
    shown = json.loads(done.stdout)
    assert {row["reason"]: row["note"] for row in shown["passed_over"]} == {
        "not_tcp": "1 packet skipped: not TCP",
        "tls": "TLS for broker.example",
    }
    (damage,) = [row for row in rows if row["error"]]
    assert shown["problems"] == [f"{path} at byte {damage['position']}: {damage['error']}"]
    assert done.stderr == kwire("capture", str(path)).stderr
    assert done.exit_code == 1


@pytest.mark.parametrize("snaplen", [96, 200])
def test_packets_cut_by_a_snap_length_are_damage(snaplen: int, tmp_path: Path) -> None:
    """With 96 bytes no group is known; with 200 its rebalances are marked. Only these two are reported."""
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(snapped(CAPTURES / "confluent-kafka-2.16.1__kafka-4.2.0__kip848.pcap", snaplen))
    result = kwire("groups", "--json", str(cut))
    shown = json.loads(result.stdout)
    (problem,) = shown["problems"]
    assert result.exit_code == 1
    assert problem.startswith(f"{cut}: ")
    assert "packets truncated by the snap length" in problem
    assert {row["reason"] for row in shown["passed_over"]} == {"gaps"}
    assert "no consumer group" not in result.stderr
    assert any(rebalance["incomplete"] for group in shown["groups"] for rebalance in group["rebalances"]) == (
        snaplen == 200
    )
    assert problem in kwire("groups", str(cut)).stderr.splitlines()


@pytest.mark.parametrize("verb", ["capture", "groups"])
def test_a_bar_on_a_terminal(verb: str, tmp_path: Path) -> None:
    """The progress bar also works for a folder."""
    (tmp_path / NAME).write_bytes(Path(CAPTURE).read_bytes())
    ours, theirs = os.openpty()
    with command(verb, str(tmp_path), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the error when the other end of a terminal is closed
            while more := os.read(ours, 4_096):
                shown += more
        os.close(ours)
    assert process.returncode == 0
    assert b"reading" in shown
    assert b"100%" in shown


def test_a_static_member_that_came_back_has_a_line() -> None:
    lines = kwire("groups", str(CAPTURES / "aiokafka-0.14.0__kafka-4.2.0__static.pcap.gz")).stdout.splitlines()
    (found,) = [line for line in lines if "restart: " in line]
    assert "generation 2 continues: restart: m2 ..752bb4af after 1.552 s - instance inst-2 came back" in found
    times = [line.split()[0] for line in lines if line.startswith("  01:")]
    assert times == sorted(times)


def test_times_after_year_9999_stop_no_report() -> None:
    """Packets of a pcapng file may have such times. They have no text."""
    tables = {
        name: [
            {key: value + LAST if value is not None and key.endswith("ts") else value for key, value in row.items()}
            for row in rows
        ]
        for name, rows in capture("aiokafka-0.14.0__kafka-4.2.0__static").items()
    }
    (group,) = by_group.groups(tables)
    lines = [*text(group), *finding_lines(tables["findings"])]
    assert sum("restart: " in line for line in lines) == 1
    assert sum("generation" in line for line in lines) > 1
    assert "inst-2 came back" in page(tables, "late")


def test_folder_and_one_group() -> None:
    group = "g-three-confluent-kafka-2.16.1"
    done = kwire("groups", str(CAPTURES), "--group", group)
    clusters = ("YnTRyemrTQGTu_e9aIewVQ", "y1YOEYR0TwK2-KjO1YFN2Q")  # two of them have a group of this name
    assert [line.split(":")[0] for line in done.stdout.splitlines() if line.startswith("group ")] == [
        f"group {group} (cluster {cluster})" for cluster in clusters
    ]
    result = json.loads(kwire("groups", str(CAPTURES), "--group", group, "--json").stdout)["groups"]
    assert [(one["group_id"], one["cluster"], len(one["rebalances"])) for one in result] == [
        (group, cluster, 6) for cluster in clusters
    ]


def test_truncated_file_is_read_up_to_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(gzip.decompress(Path(CAPTURE).read_bytes())[:40_000])
    done = kwire("groups", str(path))
    assert done.exit_code == 1
    assert done.stdout.startswith("group g-cooperative-java-4.2.0-r3: classic; ")
    assert f"{path} at byte " in done.stderr


def test_file_that_is_not_there() -> None:
    done = kwire("groups", "nowhere.pcap")
    assert done.exit_code == 2
    assert "nowhere.pcap" in done.stderr


GROUPLESS = str(CAPTURES / "aiokafka-0.14.0__kafka-4.2.0__idempotent.pcap")
MISSING = [  # arguments, reason
    ([CAPTURE, "--group", "nope"], "Error: group not in the captures: nope (groups: g-cooperative-java-4.2.0-r3"),
    (
        [CAPTURE, "--group", "nope", "--group", "g-cooperative-java-4.2.0-r3"],
        "Error: group not in the captures: nope (groups: g-coop",
    ),
    ([GROUPLESS], "Error: no consumer group in the captures"),
    ([GROUPLESS, "--group", "nope"], "Error: group not in the captures: nope (groups: none"),
    ([CAPTURE, "--port", "1"], "Error: no Kafka traffic with a broker at port 1 in the captures"),
]


@pytest.mark.parametrize(("arguments", "reason"), MISSING, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_a_group_that_is_not_in_it(arguments: list[str], form: list[str], reason: str) -> None:
    done = kwire("groups", *arguments, *form)
    assert done.exit_code == 1
    assert done.stderr.startswith(reason)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", ["groups", "capture"])
def test_a_capture_with_nothing_in_it(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "empty.pcap"
    (tmp_path / "notes.txt").write_text("no capture")
    done = kwire(verb, str(tmp_path))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {tmp_path}: no capture files (names ending in .pcap, ")
    path.write_bytes(gzip.decompress(Path(CAPTURE).read_bytes())[:24])
    done = kwire(verb, str(path))
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "Error: no Kafka traffic in the captures\n")


def test_filter_without_matching_frames_prints_nothing() -> None:
    done = kwire("capture", "--where", "latency_ms > 1000000", CAPTURE)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")


def test_records_of_share_groups_are_counted_by_member():
    lines = kwire("groups", str(CAPTURES / "java-4.2.0__kafka-4.2.0__share.pcap.gz")).stdout.splitlines()
    assert [line.strip() for line in lines if "records of" in line] == [
        "records of first: acquired 50, accepted 50",
        "records of releases: acquired 30, released 10",
        "records of rejects: acquired 30, rejected 10",
    ]


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pass a capture on stdin."""
    content = gzip.decompress((CAPTURES / "java-4.2.0__kafka-4.2.0__timeout.pcap.gz").read_bytes())
    monkeypatch.setattr(reading, "_stdin", lambda: io.BytesIO(content))


@pytest.mark.usefixtures("stream")
def test_stream_is_reported_in_parts(tmp_path: Path) -> None:
    folder, page = tmp_path / "tables", tmp_path / "page.html"
    done = kwire("groups", "-", "--every", "0.05", "--tables", str(folder), "--html", str(page))
    assert done.exit_code == 0
    parts = [line for line in done.stdout.splitlines() if line.startswith("part ")]
    assert parts == [
        "part 1: the beginning to 01:39:42.328 UTC",
        "part 2: 01:39:42.328 to 01:39:45.093 UTC",
        "part 3: 01:39:45.093 to 01:39:48.271 UTC",
        "part 4: 01:39:48.271 to 01:39:48.775 UTC",
    ]
    assert sorted(path.name for path in tmp_path.glob("*.html")) == [
        "page-2.html",
        "page-3.html",
        "page-4.html",
        "page.html",
    ]
    tables = parquet.read(folder)
    assert {row["capture_id"] for row in tables["rebalances"]} == {"stdin", "stdin-2", "stdin-3", "stdin-4"}
    whole = capture("java-4.2.0__kafka-4.2.0__timeout")
    for name in ("offset_commits", "frames"):
        assert len(tables[name]) == len(whole[name])
    generations = {row["to_generation"]: row["trigger"] for row in tables["rebalances"]}
    assert generations == {row["to_generation"]: row["trigger"] for row in whole["rebalances"]}


@pytest.mark.usefixtures("stream")
def test_part_ends_after_a_number_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysed, "MOST_CALLS", 20)
    done = kwire("groups", "-", "--json")
    decoder, at, calls = json.JSONDecoder(), 0, []
    while at < len(done.stdout):
        part, at = decoder.raw_decode(done.stdout, at)
        at += 1
        calls.append(sum(commit["count"] for group in part["groups"] for commit in group["commits"]))
    assert len(calls) == 4
    assert sum(calls) == len(capture("java-4.2.0__kafka-4.2.0__timeout")["offset_commits"])
