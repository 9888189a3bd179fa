"""``mockbroker import``: its output and its exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from golden import ROOT

from mockbroker.cli import main

LOG_DIRS = ROOT / "fixtures" / "log_dirs"
STOPPED = LOG_DIRS / "4.2.0-stopped" / "data"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["import", *map(str, arguments)], catch_exceptions=False)


def test_a_table() -> None:
    result = run("--log-dir", STOPPED)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "GROUP        TYPE      STATE   GENERATION  MEMBERS  OFFSETS  WAITING",
        "c-empty      classic   Empty            2        0        4        0",
        "c-stable     classic   Stable           2        3        4        0",
        "n-empty      consumer  Empty            2        0        4        0",
        "n-stable     consumer  Stable           3        3        4        0",
        "s-expires    classic   Empty            0        0        1        0",
        "s-one-left   classic   Empty            0        0        1        0",
        "s-simple     classic   Empty            0        0        2        0",
        "t-committed  classic   Empty            0        0        2        0",
        "t-open       classic   Empty            0        0        0        2",
        "t-overtaken  classic   Empty            0        0        2        0",
        "t-waiting    classic   Empty            0        0        1        2",
    ]
    assert result.stderr == "skipped groups of type share (unsupported): 1: h-share\n"


def lines(result: Result) -> tuple[dict[str, dict[str, object]], dict[str, object]]:
    *groups, rest = map(json.loads, result.stdout.splitlines())
    return {group["group_id"]: group for group in groups}, rest


def test_json() -> None:
    result = run("--json", "--log-dir", STOPPED)
    assert result.exit_code == 0
    groups, rest = lines(result)
    reported = json.loads((STOPPED.parent / "said.json").read_text("utf-8"))
    classic = next(group for group in reported["DescribeGroups"] if group["group_id"] == "c-stable")
    group = groups["c-stable"]
    assert {member["member_id"]: member["subscription_bytes"] for member in group["members"]} == {
        member["member_id"]: member["member_metadata"] for member in classic["members"]
    }
    assert sorted(member["instance_id"] or "" for member in group["members"]) == ["", "", "shelf-1"]
    assert all(member["subscribed_topics"] == ["orders"] for member in group["members"])
    assert sorted(index for member in group["members"] for index in member["assignment"]["orders"]) == [0, 1, 2, 3]
    assert (group["protocol"], group["state"], group["generation"]) == ("range", "Stable", 2)

    (described,) = [group for group in reported["ConsumerGroupDescribe"] if group["group_id"] == "n-stable"]
    assert {member["member_id"]: member["assignment"] for member in groups["n-stable"]["members"]} == {
        member["member_id"]: {
            line["topic_name"]: line["partitions"] for line in member["assignment"]["topic_partitions"]
        }
        for member in described["members"]
    }
    assert all(member["target"] == member["assignment"] for member in groups["n-stable"]["members"])

    simple = groups["s-simple"]["offsets"]
    assert [(each["topic"], each["partition"], each["offset"]) for each in simple] == [
        ("bills-2026-01", 1, 2**40),
        ("orders", 0, 5),
    ]
    assert {each["metadata"] for each in simple} == {"café \N{TEACUP WITHOUT HANDLE}"}
    assert {each["expire_timestamp_ms"] for each in simple} == {None}
    (expires,) = groups["s-expires"]["offsets"]
    assert expires["expire_timestamp_ms"] - expires["commit_timestamp_ms"] == 365 * 86_400_000
    (waiting,) = groups["t-open"]["waiting"]
    assert [(each["partition"], each["offset"]) for each in waiting["offsets"]] == [(0, 7), (1, 7)]

    assert rest["passed_over"] == {"share": ["h-share"]}
    assert rest["topics"]["orders"]["partitions"] == 4
    assert (rest["problems"], rest["notes"]) == ([], [])


def test_damage_is_printed_after_the_readable_groups(tmp_path: Path) -> None:
    shutil.copytree(STOPPED, tmp_path / "data")
    path = tmp_path / "data" / "__consumer_offsets-0" / f"{0:020}.log"
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(100))
    result = run("--log-dir", tmp_path / "data")
    assert result.exit_code == 1
    assert result.stdout == run("--log-dir", STOPPED).stdout
    problem = f"{path} at byte {whole}: length: batch size 12 is out of range (61-104857600 bytes); read up to offset "
    assert result.stderr.splitlines()[-1].startswith(problem)
    again = run("--json", "--log-dir", tmp_path / "data")
    assert again.exit_code == 1
    (problem,) = lines(again)[1]["problems"]
    assert (problem["file"], problem["byte"]) == (str(path), whole)


def test_no_log_directory(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent", LOG_DIRS / "README.md"):
        result = run("--log-dir", path)
        assert result.exit_code == 1
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"Error: {path}: ")


def test_wrong_usage() -> None:
    assert run().exit_code == 2


def test_names_fit_for_a_terminal(tmp_path: Path) -> None:
    from tests.mockbroker.importing.test_groups import LogDir, commit

    log_dir = LogDir(tmp_path)
    log_dir.write(commit("red\x1b[31m", 1), commit("", 1))
    result = run("--log-dir", tmp_path)
    assert [row.split()[0] for row in result.stdout.splitlines()[1:]] == ["''", "red\\x1b[31m"]


@pytest.mark.parametrize("folder", sorted(LOG_DIRS.glob("*/data")), ids=lambda path: path.parent.name)
def test_every_directory_is_read(folder: Path) -> None:
    result = run("--json", "--log-dir", folder)
    assert result.exit_code == 0
    groups, _ = lines(result)
    assert {"c-stable", "s-simple", "t-committed"} <= groups.keys()


def test_a_data_directory(tmp_path: Path) -> None:
    result = run("--log-dir", STOPPED, "--data-dir", tmp_path / "out")
    assert result.exit_code == 0
    assert result.stdout == run("--log-dir", STOPPED).stdout
    waiting = "2 pending offsets of open transactions are not imported"
    assert result.stderr.splitlines()[:2] == [f"group 't-open': {waiting}", f"group 't-waiting': {waiting}"]
    again = run("--log-dir", STOPPED, "--data-dir", tmp_path / "out")
    assert again.exit_code == 1
    assert again.stdout == ""
    assert (
        again.stderr
        == f"Error: data directory {tmp_path / 'out'}: the folder is not empty; use an empty or a new one\n"
    )


def test_a_log_directory_without_a_group(tmp_path: Path) -> None:
    """A broker that no consumer has used has no offsets topic. With --data-dir only the topics are needed."""
    log_dir, made = tmp_path / "logs", tmp_path / "made"
    (log_dir / "orders-0").mkdir(parents=True)
    (log_dir / "meta.properties").touch()
    result = run("--log-dir", log_dir)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "no partition of __consumer_offsets and therefore no group found",
        f"Error: {log_dir}: no consumer group found",
    ]
    assert run("--log-dir", log_dir, "--data-dir", made).exit_code == 0


def test_folder_without_log_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "java-17").mkdir()
    result = run("--log-dir", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{tmp_path}: not a Kafka log directory" in result.stderr
