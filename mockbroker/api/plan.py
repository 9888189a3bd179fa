"""The validated start configuration of a cluster, and the broker built from it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from kwire.counted import counted
from kwire.lazy_dataclass import dataclass
from mockbroker.api import records
from mockbroker.base.kafka_settings import kafka_settings
from mockbroker.base.release import RELEASES
from mockbroker.base.settings import BROKER_ID, NODE_ID, READ_AS_TOPIC_DEFAULTS, Settings, SettingsError
from mockbroker.broker.broker import Broker
from mockbroker.net.clock import BrokerTime
from mockbroker.net.listeners import Listener, of_settings, users_of
from mockbroker.net.log_levels import set_levels
from mockbroker.security.listener_sasl import all_mechanisms, jaas_users
from mockbroker.security.users import SCRAM_HASHES, ScramCredentials, Users
from mockbroker.topics.model import Node

if TYPE_CHECKING:
    from mockbroker.api.fault_options import RuleGiven
    from mockbroker.faults.rule import Rule
    from mockbroker.faults.stage import FaultStage
    from mockbroker.storage.data_dir import DataDir

SALT_BYTES = 16  # of SCRAM credentials
REPLICATION = (  # limited to the brokers
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
MANUAL: Final = "manual"
CLOCKS = ("real", MANUAL)
MAX_NODE_ID = 2**31 - 1


def check_integer(name: str, value: object) -> None:
    """Check that the argument ``name`` of ``open_cluster`` is an integer. Raises: SettingsError."""
    if not isinstance(value, int):
        raise SettingsError(f"{name} is {value!r}: expected an integer")


def _check_dict(name: str, given: Mapping[Any, object] | None, values: type, example: str) -> None:
    """Check that an argument of ``open_cluster`` is a dict whose keys are str.

    Args:
        name: The name of the argument.
        given: The argument.
        values: The type of the values.
        example: The end of the message for an argument that is not a dict.

    Raises: SettingsError.
    """
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise SettingsError(f"{name} is {given!r}: expected a dict, {example}")
    for key, value in given.items():
        if not isinstance(key, str):
            raise SettingsError(f"{name}: the name {key!r} is not a str")
        if not isinstance(value, values):
            raise SettingsError(f"{name}: the value of {key} is not a {values.__name__}")


@dataclass(frozen=True, slots=True)
class Plan:
    """The validated start configuration of a cluster.

    Attributes:
        brokers: number of brokers.
        settings: the broker settings.
        topics: topics to create: name to number of partitions.
        as_version: the Kafka release to emulate.
        listeners: the listeners of each broker; ``bootstrap_servers`` contains the first listener.
        users: SASL users: name to password.
        scram: SCRAM credentials derived from the passwords.
        clock: ``"real"`` or ``"manual"``.
        faults: pairs of an initial fault rule and a flag. The flag is True if the rule may remain unapplied in a test.
    """

    brokers: int
    settings: Settings
    topics: Mapping[str, int]
    as_version: str
    listeners: Sequence[Listener]
    users: Mapping[str, str] = field(repr=False)
    scram: ScramCredentials = field(repr=False)
    clock: str
    faults: Sequence[tuple[Rule, bool]] = ()

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
        faults: Sequence[RuleGiven] = (),
    ) -> Plan:
        """Validate the arguments of ``open_cluster``, and return the plan. For the arguments, see ``open_cluster``.

        Raises: SettingsError, InvalidRule, RuleExists, TooManyRules.
        """
        if isinstance(listeners, str):  # an iterable, too: of its characters
            raise SettingsError(f"listeners is {listeners!r}: expected a list, such as [{listeners!r}]")
        listeners = list(listeners or ())
        for listener in listeners:
            if not isinstance(listener, str):
                raise SettingsError(f"listeners: {listener!r} is not a str: write a listener as SASL_SSL")
        _check_dict("config", config, object, 'such as {"group.max.size": 2}')
        _check_dict("users", users, str, 'such as {"alice": "secret"}')
        settings = Settings.parse(dict(config or {}) | ({"listeners": ",".join(listeners)} if listeners else {}))
        passwords = jaas_users(settings) | users_of(settings.mockbroker_users) | dict(users or {})
        parsed_listeners = of_settings(settings, users=bool(passwords))
        check_integer("brokers", brokers)
        if brokers < 1:
            raise SettingsError(f"brokers is {brokers}: a cluster needs at least 1")
        factor = settings.default_replication_factor
        if factor > brokers:
            raise SettingsError(
                f"default.replication.factor is {factor}, but the cluster has only {counted(brokers, 'broker')}: "
                f"start with {factor} brokers"
            )
        if not isinstance(as_version, str):
            raise SettingsError(f"as_version is {as_version!r}: expected a str, such as '3.9'")
        if as_version not in RELEASES:
            raise SettingsError(f"as_version {as_version!r} is unknown: expected one of {', '.join(RELEASES)}")
        if clock not in CLOCKS:
            raise SettingsError(f"clock {clock!r} is unknown: expected one of {', '.join(CLOCKS)}")
        _check_topic_defaults(settings, as_version)
        records.check_topics(topics or {})
        mechanisms = all_mechanisms(settings, [listener.name for listener in parsed_listeners if listener.sasl])
        scram = _derive_scram(mechanisms, passwords)
        if isinstance(faults, (str, Mapping)) or not isinstance(faults, Iterable):
            example = '[{"api": "Fetch", "error": "UNKNOWN_SERVER_ERROR"}]'
            raise SettingsError(f"faults is {faults!r}: expected a list of rules, such as {example}")
        rules = _checked_rules(faults, settings) if faults else ()
        return cls(brokers, settings, dict(topics or {}), as_version, parsed_listeners, passwords, scram, clock, rules)

    def broker(self, nodes: Iterable[Node], clock: BrokerTime, data_dir: DataDir | None = None) -> Broker:
        """Restart the clock, and return a new broker with the topics of the plan.

        If ``data_dir`` is given, the broker also has the content of the directory. The levels of mockbroker's loggers
        are reset.

        Args:
            nodes: the brokers of the cluster and their addresses.
            clock: the clock to restart. It stays stopped if the plan's clock is ``"manual"``.
            data_dir: the data directory; None for a cluster in memory. The topics in the directory are kept.

        Raises: SettingsError if a topic of the directory has fewer partitions than the plan; DataDirError.
        """
        clock.restart(stopped=self.clock == MANUAL)
        users = Users(self.users, self.scram)
        now = clock.read()
        wall_at_zero = time.time() - now  # before the directory is read, which can take seconds
        brokers = list(nodes)
        cluster = None if data_dir is None else data_dir.open(brokers, uuid4)
        broker = Broker(
            brokers, self.settings, uuid4, RELEASES[self.as_version], wall_at_zero, users, cluster, started=now
        )
        set_levels({})
        broker.loggers.set_levels = set_levels
        for name, partitions in self.topics.items():
            existing = broker.cluster.topics.get(name)
            if existing is None:
                records.create_topic(broker, name, partitions)
            elif len(existing.partitions) < partitions:
                raise SettingsError(
                    f"topic {name}: the number of partitions is {partitions}, but {len(existing.partitions)} in the "
                    f"data directory: start with {len(existing.partitions)}, and add partitions with CreatePartitions"
                )
        broker.groups.schedule_offset_expiration(clock.read())
        return broker

    def add_faults(self, stage: FaultStage) -> None:
        """Add the initial fault rules to the stage that applies fault rules; their counters begin at 0."""
        for rule, optional in self.faults:
            stage.add(rule)
            if optional:
                stage.optional.add(rule.name)

    @property
    def first_node(self) -> int:
        """The id of the first broker: ``node.id``, else ``broker.id``; 0 if neither is set or the value is negative."""
        others = self.settings.others
        given = int(others.get(NODE_ID) or others.get(BROKER_ID) or 0)
        return min(max(given, 0), MAX_NODE_ID - self.brokers)

    def without_effect(self) -> list[str]:
        """Return the settings of the plan that have no effect, as texts for a message.

        A replication factor that exceeds the number of brokers is also in the result.
        """
        values = self.settings.by_name()
        too_high = [name for name in REPLICATION if name in self.settings.given and int(values[name]) > self.brokers]
        count = counted(self.brokers, "broker")
        return [*self.settings.without_effect(), *(f"{name} {values[name]} ({count})" for name in too_high)]


def _checked_rules(faults: Sequence[RuleGiven], settings: Settings) -> list[tuple[Rule, bool]]:
    """Return pairs of a parsed fault rule and a flag: True if the rule is optional. A rule without a name gets a
    generated one.

    Args:
        faults: the rules as keyword arguments of ``faults.add`` or as JSON objects.
        settings: the broker settings, which limit the number of rules.

    Raises: InvalidRule if a rule is not valid; RuleExists if two rules have the same name; TooManyRules if there are
    more than ``mockbroker.faults.max.rules``.
    """
    from mockbroker.api.fault_options import split_given
    from mockbroker.broker.handlers import HANDLERS
    from mockbroker.faults.parsing import parse_rule
    from mockbroker.faults.rules import Rules
    from mockbroker.faults.sections import InvalidRule

    rules = Rules(settings.mockbroker_faults_max_rules)
    checked = []
    for index, given in enumerate(faults):
        form, optional = split_given(given)
        try:
            checked.append((rules.add(parse_rule(form, HANDLERS)).rule, optional))
        except InvalidRule as error:
            raise InvalidRule([problem.inside(f"faults[{index}]") for problem in error.problems]) from None
    return checked


def _check_topic_defaults(settings: Settings, as_version: str) -> None:
    """Check that the emulated release accepts the broker settings that are the defaults of topic configurations.

    Args:
        settings: The broker settings.
        as_version: The emulated Kafka release.

    Raises: SettingsError if the release does not accept a setting.
    """
    for name in sorted(READ_AS_TOPIC_DEFAULTS & settings.others.keys()):
        definition = kafka_settings()[name].get(as_version)
        if definition is not None and (problem := definition.problem(settings.others[name])):
            raise SettingsError(f"{name} (Kafka {as_version}): {problem}")


def _derive_scram(enabled: Collection[str], passwords: Mapping[str, str]) -> ScramCredentials:
    """Return the SCRAM credentials of all users.

    Args:
        enabled: Names of the enabled SASL mechanisms.
        passwords: User name -> password.
    """
    mechanisms = [name for name in SCRAM_HASHES if name in enabled]
    if not mechanisms or not passwords:
        return {}
    from mockbroker.broker.sasl.scram import derive

    return derive(passwords, mechanisms, lambda: token_bytes(SALT_BYTES))
