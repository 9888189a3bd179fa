"""What a cluster starts with: its settings, checked, and the broker made of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import TYPE_CHECKING
from uuid import uuid4

from mockbroker.api import records
from mockbroker.base.release import RELEASES
from mockbroker.base.settings import Settings, SettingsError
from mockbroker.broker.broker import Broker
from mockbroker.broker.sasl.users import SCRAM_HASHES, Scram, Users
from mockbroker.net.clock import BrokerTime
from mockbroker.net.listeners import Listener, of_settings, users_of
from mockbroker.topics.model import Node

if TYPE_CHECKING:
    from mockbroker.storage.data_dir import DataDir

SALT_BYTES = 16
REPLICATION = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")  # as far as brokers go
CLOCKS = ("real", MANUAL := "manual")


@dataclass(frozen=True, slots=True)
class Plan:
    """Start of a cluster.

    brokers: how many.
    topics: partitions by name.
    as_version: the release of Kafka to be like.
    users: passwords by user.
    scram: what a broker keeps of the passwords.
    clock: one of CLOCKS.
    """

    brokers: int
    settings: Settings
    topics: Mapping[str, int]
    as_version: str
    listeners: Sequence[Listener]
    users: Mapping[str, str] = field(repr=False)
    scram: Scram = field(repr=False)
    clock: str

    @classmethod
    def checked(
        cls,
        brokers: int,
        topics: Mapping[str, int] | None,
        config: Mapping[str, object] | None,
        as_version: str,
        listeners: Iterable[str],
        users: Mapping[str, str] | None,
        clock: str,
    ) -> Plan:
        """Return the plan of these arguments of ``open_cluster``. Raises: SettingsError."""
        settings = Settings.parse(dict(config or {}) | ({"listeners": ",".join(listeners)} if listeners else {}))
        passwords = users_of(settings.mockbroker_users) | dict(users or {})
        served = of_settings(settings, users=bool(passwords))
        if brokers < 1:
            raise SettingsError(f"brokers: {brokers} is less than 1")
        factor = settings.default_replication_factor
        if factor > brokers:
            raise SettingsError(
                f"default.replication.factor is {factor}, but the cluster has only {_counted(brokers)}: "
                f"start with {factor} brokers"
            )
        if as_version not in RELEASES:
            raise SettingsError(f"as_version: {as_version} is not one of {', '.join(RELEASES)}")
        if clock not in CLOCKS:
            raise SettingsError(f"clock: {clock} is not one of {', '.join(CLOCKS)}")
        for name, partitions in (topics or {}).items():
            records.check_topic(name, partitions)
        scram = _derive_scram(settings, passwords) if any(listener.sasl for listener in served) else {}
        return cls(brokers, settings, dict(topics or {}), as_version, served, passwords, scram, clock)

    def broker(self, nodes: Iterable[Node], clock: BrokerTime, data_dir: DataDir | None = None) -> Broker:
        """Restart the clock, and return the broker with the content of a data directory; its topics stay as they are.

        Raises: SettingsError, DataDirError.
        """
        clock.restart(stopped=self.clock == MANUAL)
        users = Users(self.users, self.scram)
        wall_at_zero = time.time() - clock.read()
        given = list(nodes)
        cluster = None if data_dir is None else data_dir.open(given, uuid4)
        broker = Broker(given, self.settings, uuid4, RELEASES[self.as_version], wall_at_zero, users, cluster)
        for name, partitions in self.topics.items():
            there = broker.cluster.topics.get(name)
            if there is None:
                records.create_topic(broker, name, partitions)
            elif len(there.partitions) < partitions:
                raise SettingsError(f"topic {name}: the data directory has it with {len(there.partitions)} partitions")
        broker.groups.schedule_sweep(clock.read())
        return broker

    def without_effect(self) -> list[str]:
        """Return the given settings that change nothing, and those that ask for more brokers than there are."""
        values = self.settings.by_name()
        asked = [name for name in REPLICATION if name in self.settings.given and int(values[name]) > self.brokers]
        there = _counted(self.brokers)
        return [*self.settings.without_effect(), *(f"{name} {values[name]} ({there})" for name in asked)]


def _derive_scram(settings: Settings, passwords: Mapping[str, str]) -> Scram:
    """Return the SCRAM credentials of the enabled mechanisms."""
    wanted = [name for name in settings.sasl_enabled_mechanisms.split(",") if name in SCRAM_HASHES]
    if not wanted or not passwords:
        return {}
    from mockbroker.broker.sasl.scram import derive

    return derive(passwords, wanted, lambda: token_bytes(SALT_BYTES))


def _counted(brokers: int) -> str:
    return f"{brokers} broker" if brokers == 1 else f"{brokers} brokers"
