"""``mockbroker ctl`` against a broker in a separate process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tools.ctl_process import Ctl, run_ctl, running
from tools.live_page import free_port

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.cli import main
from mockbroker.cli.ctl.groups import tasks

HOSTILE = "a\x1b]0;title\x07\x1b[31m\r\nb\u202ec\u200f\x9b\x7f"
SHOWN = r"a\x1b]0;title\x07\x1b[31m\r\nb\u202ec\u200f\x9b\x7f"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctl]:
    with running(tmp_path_factory.mktemp("ctl"), "--brokers", "2") as ctl:
        yield ctl


@pytest.fixture
def ctl(shared: Ctl) -> Ctl:
    """Return the broker in the state of its start."""
    shared.run("clock", "resume")
    shared.run("reset")
    return shared


def rows(text: str) -> list[list[str]]:
    """Return the words of the lines of a table, after its header."""
    return [line.split() for line in text.splitlines()[1:]]


def is_inert(text: str) -> bool:
    """Report whether a text has no character that a terminal interprets, except line ends."""
    return all(character == "\n" or unicodedata.category(character)[0] != "C" for character in text)


@pytest.mark.parametrize("group", ["brokers", "clock", "connections", "faults", "groups", "topics"])
def test_help_shows_the_whole_summary_of_each_command(group: str) -> None:
    shown = CliRunner().invoke(main, ["ctl", group, "--help"], terminal_width=80).output
    assert "Commands:" in shown
    assert "..." not in shown.partition("Commands:")[2]


def test_an_unknown_group_is_named_with_the_existing_groups(ctl: Ctl) -> None:
    ctl.run("groups", "set-offsets", "billing", "orders:1=1")
    assert (
        "group 'bills' does not exist; existing groups: 'billing'" in ctl.run("groups", "show", "bills", code=1).stderr
    )


def test_groups_are_set_shown_and_listed(ctl: Ctl) -> None:
    ctl.run("topics", "produce", "orders", "a", "b", "c", "--partition", "1")
    shown = ctl.text("groups", "set-offsets", "billing", "orders:1=1", "orders:2=0")
    assert "group billing: type classic, state Empty" in shown
    assert rows(shown)[-2:] == [["orders", "1", "1", "2", '""'], ["orders", "2", "0", "0", '""']]
    assert rows(ctl.text("groups"))[0][:6] == ["billing", "classic", "Empty", "0", "0", "2"]
    assert ctl.text("groups") == ctl.text("groups", "list")
    assert ctl.text("groups", "show", "billing") == shown
    assert ctl.json("groups", "wait", "billing", "--state", "Empty")["offsets"][0]["lag"] == 2


def test_a_member_is_evicted_after_a_rebalance(ctl: Ctl) -> None:
    with ctl.connect("worker-1") as connection:
        member = ctl.join(connection, "g")
        assert member in ctl.text("groups", "wait", "g", "--state", "Stable", "--members", "1")
        assert "state PreparingRebalance" in ctl.text("groups", "rebalance", "g", "--reason", "test")
        assert ctl.text("groups", "evict", "g", member, "--reason", "test") == f"evicted {member}"
        gone = connection.ask(HeartbeatRequest(group_id="g", member_id=member, generation_id=1), 3)
        assert gone.error_code == 25  # UNKNOWN_MEMBER_ID
        assert "Empty" in ctl.text("groups", "show", "g")


def test_topics_are_created_read_and_deleted(ctl: Ctl) -> None:
    assert ctl.text("topics", "create", "t", "--partitions", "2", "--config", "retention.ms=60000") == (
        "created t with 2 partitions"
    )
    assert ctl.text("topics", "produce", "t", "x", "y", "--key", "k", "--partition", "1") == "0\n1"
    assert [row[:3] for row in rows(ctl.text("topics")) if row[0] == "t"] == [["t", "2", "2"]]
    assert [row[3:] for row in rows(ctl.text("topics", "records", "t"))] == [["k", "x"], ["k", "y"]]
    ctl.run("topics", "delete-records", "t", "1", "1")
    assert [each["value"] for each in ctl.json("topics", "records", "t", "--offset", "0")["items"]] == ["y"]
    assert ctl.text("topics", "move-leader", "t", "1", "1") == "the leader of partition 1 is broker 1"
    assert ctl.text("topics", "delete", "t") == "deleted t"
    assert "t" not in {row[0] for row in rows(ctl.text("topics"))}


def test_brokers_stop_and_start(ctl: Ctl) -> None:
    assert ctl.text("brokers", "kill", "1", "--noticed-after-ms", "0") == "broker 1 is stopped"
    assert [row[-1] for row in rows(ctl.text("brokers"))] == ["running", "stopped"]
    assert ctl.text("brokers", "start", "1") == "broker 1 is running"
    assert ctl.text("brokers", "stop", "1") == "broker 1 is stopped"
    ctl.run("brokers", "start", "1")
    assert ctl.text("brokers", "freeze", "0") == ctl.text("brokers", "thaw", "0") == "broker 0 is running"
    assert "is broker 1" in ctl.text("groups", "move-coordinator", "g", "1")


def test_a_stopped_clock_is_advanced(ctl: Ctl) -> None:
    assert ctl.text("clock").startswith("real 20")
    assert ctl.text("clock", "stop").startswith("manual 20")
    before = ctl.json("clock")["time_ms"]
    ctl.run("clock", "advance", "1.5m")
    assert ctl.json("clock", "advance", "45s")["time_ms"] == before + 135_000
    ctl.run("clock", "resume")
    assert "cannot be advanced" in ctl.run("clock", "advance", "1s", code=1).stderr


def test_advancing_the_clock_prints_what_happened(ctl: Ctl) -> None:
    ctl.run("clock", "stop")
    with ctl.connect("worker-1") as connection:
        member = ctl.join(connection, "g")
        shown = ctl.text("clock", "advance", "11s")
    assert f"expire  group g  client worker-1  member {member}" in shown


def test_connections_are_listed_and_closed(ctl: Ctl) -> None:
    with ctl.connect("worker-1") as connection:
        connection.ask(ApiVersionsRequest(), 0)
        (row,) = rows(ctl.text("connections"))
        assert row[1] == "worker-1"
        assert ctl.text("connections", "close", row[0], "--reset") == f"closed connection {row[0]}"
        assert connection.read_frame() is None
    assert ctl.json("connections")["items"] == []


def test_an_unknown_connection_is_named_with_the_open_ones(ctl: Ctl) -> None:
    with ctl.connect("worker-1") as connection:
        connection.ask(ApiVersionsRequest(), 0)
        ((number, *_),) = rows(ctl.text("connections"))
        failed = ctl.run("connections", "close", "999", code=1).stderr
    assert failed == f"Error: connection 999 is not open; open connections: {number}\n"


def test_requests_name_errors_and_filters(ctl: Ctl) -> None:
    with ctl.connect("worker-1") as connection:
        connection.ask(HeartbeatRequest(group_id="none", member_id="m"), 3)
        connection.ask(ApiVersionsRequest(), 0)
        (row,) = rows(ctl.text("requests", "--group", "none"))
        assert [row[2], row[4], row[7], row[8]] == ["Heartbeat", "worker-1", "UNKNOWN_MEMBER_ID", "-"]
        assert [each["api"] for each in ctl.json("requests", "--last", "1")["items"]] == ["ApiVersions"]


def test_events_are_filtered_and_limited(ctl: Ctl) -> None:
    for group in ("a", "b", "b"):
        ctl.run("groups", "set-offsets", group, "orders:0=1")
    assert len(ctl.text("events", "--group", "b", "--kind", "commit").splitlines()) == 2
    last = ctl.json("events", "--last", "1")
    assert [each["group"] for each in last["items"]] == ["b"]
    assert ctl.json("events", "--after", str(last["last"]))["items"] == []


def test_events_are_followed_beyond_a_restart(tmp_path: Path) -> None:
    port = str(free_port())
    for name in ("first", "second"):
        tmp_path.joinpath(name).mkdir()
    with running(tmp_path / "first", "--http", port) as ctl:
        ctl.run("groups", "set-offsets", HOSTILE, "orders:0=1")
        command = [sys.executable, "-m", "mockbroker", "ctl", "--url", ctl.url, "events", "-f", "--after", "0"]
        pipe = subprocess.PIPE
        follower = subprocess.Popen(command, stdout=pipe, stderr=pipe, encoding="utf-8")
        assert follower.stdout is not None
        line = follower.stdout.readline()
        assert SHOWN in line
        assert is_inert(line)
        ctl.run("groups", "set-offsets", "later", "orders:0=1")
        assert "group later" in follower.stdout.readline()
        ctl.process.send_signal(signal.SIGTERM)
        ctl.process.wait(10)
    with running(tmp_path / "second", "--http", port) as ctl:
        ctl.run("groups", "set-offsets", "restarted", "orders:0=1")
        line = follower.stdout.readline()
        if "gap" in line:  # the follower reconnected before the first event of the new journal
            line = follower.stdout.readline()
        assert "group restarted" in line
        follower.send_signal(signal.SIGINT)
        _, errors = follower.communicate(timeout=30)
    assert f"{ctl.url}: the event stream has ended; reconnecting\n{ctl.url}: reconnected\n" in errors


def test_transactions_of_a_cluster_without_any(ctl: Ctl) -> None:
    assert ctl.json("transactions")["items"] == []
    assert ctl.text("transactions").startswith("TRANSACTIONAL ID")


def test_names_of_clients_are_shown_escaped(ctl: Ctl) -> None:
    with ctl.connect(HOSTILE) as connection:
        ctl.join(connection, HOSTILE)
        ctl.run("topics", "produce", "orders", HOSTILE, "--key", HOSTILE)
        ctl.run("groups", "rebalance", HOSTILE, "--reason", HOSTILE)
        for words in [
            ["groups"],
            ["groups", "show", HOSTILE],
            ["connections"],
            ["requests"],
            ["events"],
            ["topics", "records", "orders"],
        ]:
            text = ctl.text(*words)
            assert SHOWN in text, words
            assert is_inert(text), words
            as_json = ctl.run("--json", *words).stdout
            assert is_inert(as_json), words
            assert as_json.isascii(), words
        failed = ctl.run("groups", "wait", HOSTILE, "--members", "9", "--timeout-ms", "0", code=1).stderr
        assert SHOWN in failed
        assert is_inert(failed)


def test_json_may_follow_the_name_of_a_command(ctl: Ctl) -> None:
    assert json.loads(ctl.text("groups", "--json")) == ctl.json("groups", "list")
    assert json.loads(ctl.text("groups", "list", "--json")) == {"items": [], "next": None}
    assert json.loads(ctl.text("clock", "--json"))["mode"] == "real"


def test_errors_are_problem_details_with_json(ctl: Ctl) -> None:
    problem = json.loads(ctl.run("--json", "groups", "show", "none", code=1).stderr)
    assert (problem["status"], problem["title"]) == (404, "Not Found")
    assert ctl.run("groups", "show", "none", code=1).stderr.startswith("Error: group 'none' does not exist")


def test_the_url_is_in_the_environment(ctl: Ctl) -> None:
    assert run_ctl("brokers", MOCKBROKER_URL=f"{ctl.url}/").exit_code == 0


def test_long_lists_are_read_to_the_end(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mockbroker.cli.control_client.PAGE", 2)
    for number in range(5):
        ctl.run("groups", "set-offsets", f"g{number}", "orders:0=1")
    assert [row[0] for row in rows(ctl.text("groups"))] == [f"g{number}" for number in range(5)]
    events = ctl.json("events", "--kind", "commit", "--last", "3")
    assert [each["group"] for each in events["items"]] == ["g2", "g3", "g4"]


def test_a_token_is_read_from_file_or_environment(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    with running(tmp_path, "--http-token-file", str(token)) as ctl:
        assert "a token is needed" in ctl.run("brokers", code=1).stderr
        ctl.run("--token-file", str(token), "brokers")
        assert run_ctl("--url", ctl.url, "brokers", MOCKBROKER_HTTP_TOKEN="secret").exit_code == 0


def test_help_needs_no_server() -> None:
    assert run_ctl("groups", "-h").exit_code == run_ctl("faults", "add", "--help").exit_code == 0


def test_tasks_are_shown_by_type() -> None:
    assert (
        tasks({"active": {"0": [0, 2], "1": [1]}, "standby": {}, "warmup": {"1": [0]}}) == "active 0:0,2 1:1 warmup 1:0"
    )
    assert tasks(None) is None
