from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from kafka_definitions import broker_jar
from need import need

from kwire.errorcodes import RETRIABLE, ErrorCode

PROGRAM = """
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

public class Codes {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values())
            System.out.println(error.code() + " " + error.name() + " " + (error.exception() instanceof RetriableException));
    }
}
"""


def test_names_and_numbers() -> None:
    assert ErrorCode(27) is ErrorCode.REBALANCE_IN_PROGRESS
    assert ErrorCode.NONE == 0
    assert ErrorCode(-1).name == "UNKNOWN_SERVER_ERROR"
    with pytest.raises(ValueError, match="9999"):
        ErrorCode(9999)


def test_retriable() -> None:
    assert ErrorCode.NOT_COORDINATOR.retriable
    assert not ErrorCode.ILLEGAL_GENERATION.retriable
    assert {code for code in ErrorCode if code.retriable} == RETRIABLE


def test_like_kafka(tmp_path: Path) -> None:
    java = need("java", "it prints Kafka's own table of errors")
    jars = [broker_jar("4.2.0", "kafka-clients"), broker_jar("4.2.0", "slf4j-api")]
    (tmp_path / "Codes.java").write_text(PROGRAM)
    done = subprocess.run(
        [java, "-cp", ":".join(map(str, jars)), tmp_path / "Codes.java"], capture_output=True, text=True, timeout=120
    )
    theirs = {tuple(line.split()) for line in done.stdout.splitlines()}
    ours = {(str(int(code)), code.name, str(code.retriable).lower()) for code in ErrorCode}
    assert theirs, done.stderr
    assert ours == theirs
