"""The command ``mockbroker settings``: the settings of brokers and their effects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import click

from kwire.lazy_dataclass import dataclass
from mockbroker.base.documentation import documentation
from mockbroker.base.kafka_settings import definitions, kafka_settings
from mockbroker.base.settings import READ_ELSEWHERE, SECRETS, Settings, is_ours
from mockbroker.cli.tables import json_line, table
from mockbroker.topics.configs import BEFORE_4_0
from mockbroker.topics.dynamic_broker_configs import is_of_one_broker

OURS = "mockbroker"
FIXED, OF_BROKER, OF_CLUSTER = "no", "one broker", "one or all brokers"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A row in the output of ``mockbroker settings``: a broker setting.

    Attributes:
        name: Kafka's name of the setting.
        default: the default in mockbroker; None for null or a secret value.
        effect: description of the effect; None if the setting has no effect in mockbroker.
        changes: brokers whose setting AlterConfigs can change: ``no``, ``one broker`` (only per broker), or ``one or
            all brokers``.
        source: Kafka releases that have the setting, or OURS for a setting that only mockbroker has.
    """

    name: str
    default: str | None
    effect: str | None
    changes: str
    source: str


def rows() -> Iterator[SettingRow]:
    """Yield a row for each setting, sorted by name. Kafka's internal settings are omitted."""
    settings = Settings()
    public = {name for name, spans in kafka_settings().items() if not all(one.internal for one in spans.values())}
    for name in sorted(public | settings.by_name().keys()):
        known = definitions(name)
        is_dynamic = any(each.dynamic for each in known)
        default = settings.text(name) if is_ours(name) else known[0].default
        releases = ", ".join(sorted(kafka_settings().get(name, {})))
        yield SettingRow(
            name=name,
            default=None if name in SECRETS or any(each.is_secret for each in known) else default,
            effect=_effect(name),
            changes=FIXED if not is_dynamic else OF_BROKER if is_of_one_broker(name) else OF_CLUSTER,
            source=f"Kafka {releases}" if releases else OURS,
        )


def _effect(name: str) -> str | None:
    if name in READ_ELSEWHERE and not is_ours(name):
        return "Has an effect; see Kafka's documentation."
    topic = next((key for key, config in BEFORE_4_0.items() if config.synonym == name), None)
    default_of_topics = f"Default of {topic} of topics." if topic else None
    return documentation(name) or default_of_topics


@click.command("settings")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per setting instead of a table.")
@click.option("--with-effect", is_flag=True, help="Print only the settings that have an effect.")
def command(as_json: bool, with_effect: bool) -> None:
    """List all settings of brokers that mockbroker accepts.

    For each setting: its default, whether AlterConfigs can change it, the Kafka releases that have it, and its effect.
    A setting without an effect is accepted and returned by DescribeConfigs, but otherwise ignored.
    """
    listed = [row for row in rows() if row.effect or not with_effect]
    if as_json:
        for row in listed:
            click.echo(json_line(asdict(row)))
        return
    header = "SETTING", "DEFAULT", "CAN BE CHANGED FOR", "SOURCE", "EFFECT"
    texts = ((row.name, row.default, row.changes, row.source, row.effect or "none") for row in listed)
    click.echo(table(header, texts))
