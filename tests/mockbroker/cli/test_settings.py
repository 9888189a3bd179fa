"""The list of settings."""

from __future__ import annotations

import json

from click.testing import CliRunner

from mockbroker.base.kafka_settings import kafka_settings
from mockbroker.base.settings import Settings
from mockbroker.cli.settings import command, rows

KAFKA_BOTH = "Kafka 3.9, 4.2"


def test_each_setting_is_accepted_with_its_default() -> None:
    listed = {row.name: row for row in rows()}
    assert len(listed) > 380
    assert set(Settings().by_name()) <= set(listed)
    known = {name: row.default for name, row in listed.items() if row.default and name in kafka_settings()}
    own = {"listeners", "sasl.enabled.mechanisms", "controller.quorum.voters"}
    Settings.parse({name: value for name, value in known.items() if name not in own})


def test_effects_and_sources() -> None:
    listed = {row.name: row for row in rows()}
    largest = listed["message.max.bytes"]
    assert (largest.default, largest.changes, largest.source) == ("1048588", "one or all brokers", KAFKA_BOTH)
    assert largest.effect == "Maximum size of one record batch."
    assert listed["log.preallocate"].effect == "Default of preallocate of topics."
    assert (listed["broker.heartbeat.interval.ms"].effect, listed["ssl.protocol"].changes) == (None, "one broker")
    assert (listed["mockbroker.users"].default, listed["mockbroker.users"].source) == (None, "mockbroker")
    assert listed["ssl.key.password"].default is None
    keystore = "File with the broker's key and certificates: PEM (the key in PKCS #8), JKS or PKCS12."
    assert listed["ssl.keystore.location"].effect == keystore


def test_output_is_a_table_or_json() -> None:
    lines = CliRunner().invoke(command, ["--json", "--with-effect"]).stdout.splitlines()
    assert {"name", "default", "effect", "changes", "source"} == set(json.loads(lines[0]))
    assert all(json.loads(line)["effect"] for line in lines)
    header, first, *_ = CliRunner().invoke(command, []).stdout.splitlines()
    assert header.split()[:2] == ["SETTING", "DEFAULT"]
    assert first.split()[:2] == ["add.partitions.to.txn.retry.backoff.max.ms", "100"]
