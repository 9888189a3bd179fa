from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from commands import kwire, printed

import mockbroker
from kwire import encode_request
from kwire.frames import pack
from kwire.fuzz.findings import HANG, Finding
from kwire.fuzz.live import Fuzzer, Trouble
from kwire.fuzz.session import Names, Step
from kwire.messages.metadata import MetadataRequest


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with mockbroker.run_cluster(config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def finding(tmp_path: Path) -> Path:
    step = Step(pack(encode_request(MetadataRequest(), 9, correlation_id=1)), "Metadata v9: nothing", broken=True)
    path = tmp_path / "hang-0-0.json"
    path.write_text(json.dumps(Finding(HANG, "no answer", 0, 0, Names("0" * 8, UUID(int=0)), (step,)).to_json()))
    return path


def test_text(broker: str) -> None:
    result = kwire("fuzz", broker, "--count", "100", "--seed", "3")
    assert result.exit_code == 0
    assert result.stdout.startswith("100 cases with seed 3 in ")
    assert result.stdout.endswith("findings 0\n")
    assert result.stderr == "100 of 100 cases done, 0 findings so far\n"


def test_json(broker: str, tmp_path: Path) -> None:
    result = kwire("fuzz", broker, "--count", "30", "--api", "join_group", "--json", "--save", str(tmp_path / "new"))
    (line,) = printed(result)
    assert result.exit_code == 0
    assert (line["summary"]["cases"], line["summary"]["findings"], line["summary"]["seed"]) == (30, 0, 0)
    assert not (tmp_path / "new").exists()


def test_the_same_seed_does_the_same(broker: str) -> None:
    first, second = (printed(kwire("fuzz", broker, "--count", "60", "--json"))[-1]["summary"] for _ in range(2))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_replay(broker: str, finding: Path) -> None:
    result = kwire("fuzz", broker, "--replay", str(finding))
    assert (result.exit_code, result.stdout) == (0, "not reproduced: hang: no response and no close within the time that the request allows\n")  # fmt: skip
    (line,) = printed(kwire("fuzz", broker, "--replay", str(finding), "--json"))
    assert line == {"then": {"kind": "hang", "detail": "no answer"}, "now": None}


@pytest.mark.parametrize("where", ["", "localhost", "localhost:", ":9092", "localhost:0", "localhost:x", "h:99999"])
def test_not_an_address(where: str) -> None:
    result = kwire("fuzz", where)
    assert result.exit_code == 2
    assert "expected HOST:PORT" in result.stderr


def test_wrong_usage(broker: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    assert "unknown API" in kwire("fuzz", broker, "--api", "Nothing").stderr
    assert "not a valid finding" in kwire("fuzz", broker, "--replay", str(bad)).stderr
    for arguments in (["--api", "Nothing"], ["--replay", str(bad)], ["--replay", "nowhere"], ["--count", "0"], ["--seed", "x"]):  # fmt: skip
        assert kwire("fuzz", broker, *arguments).exit_code == 2


@pytest.mark.parametrize("option", ["--seed 0", "--count 1000", "--api Heartbeat", "--save new"])
def test_replay_refuses_options_without_effect(finding: Path, option: str) -> None:
    result = kwire("fuzz", "127.0.0.1:1", "--replay", str(finding), *option.split())
    assert result.exit_code == 2
    assert f"--replay cannot be combined with {option.partition(' ')[0]}\n" in result.stderr


def test_no_broker_is_listening() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = kwire("fuzz", f"127.0.0.1:{port}")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"cannot prepare 127.0.0.1:{port} for fuzzing: " in result.stderr


def test_host_name_that_is_not_valid() -> None:
    result = kwire("fuzz", "kafka..local:9092")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: cannot prepare kafka..local:9092 for fuzzing: the host name is not valid\n"


def test_a_finding(monkeypatch: pytest.MonkeyPatch, broker: str, finding: Path, tmp_path: Path) -> None:
    given = Finding.from_json(finding.read_bytes())

    def run(fuzzer: Fuzzer, cases: range) -> Iterator[Finding | None]:
        fuzzer.findings += 1
        yield from (None, given)

    monkeypatch.setattr(Fuzzer, "run", run)
    result = kwire("fuzz", broker, "--save", str(tmp_path / "new"))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "hang in case 0, 1 step: no answer"
    assert Finding.from_json((tmp_path / "new" / "hang-0-0.json").read_bytes()) == given
    line, summary = printed(kwire("fuzz", broker, "--json"))
    assert (Finding.from_json(json.dumps(line)), summary["summary"]["findings"]) == (given, 1)


def test_folder_that_cannot_be_written(broker: str, finding: Path) -> None:
    result = kwire("fuzz", broker, "--save", str(finding / "new"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--save: cannot write {finding / 'new'}: {finding} is not a writable folder" in result.stderr


def test_a_finding_that_cannot_be_saved(
    monkeypatch: pytest.MonkeyPatch, broker: str, finding: Path, tmp_path: Path
) -> None:
    given = Finding.from_json(finding.read_bytes())
    monkeypatch.setattr(Fuzzer, "run", lambda *_: iter([given]))
    (tmp_path / "new" / "hang-0-0.json").mkdir(parents=True)
    result = kwire("fuzz", broker, "--save", str(tmp_path / "new"))
    assert (result.exit_code, result.stdout) == (1, "hang in case 0, 1 step: no answer\n")
    assert result.stderr == f"Error: cannot write {tmp_path / 'new' / 'hang-0-0.json'}: Is a directory\n"


def test_replay_that_is_found_again(monkeypatch: pytest.MonkeyPatch, broker: str, finding: Path) -> None:
    monkeypatch.setattr(Fuzzer, "replay", lambda _, given: Trouble(given.kind, "as before"))
    result = kwire("fuzz", broker, "--replay", str(finding))
    assert (result.exit_code, result.stdout) == (1, "reproduced: hang: as before\n")
