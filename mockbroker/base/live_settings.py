"""The settings of a running cluster. AlterConfigs can change them.

A setting of one broker takes precedence over the cluster-wide default, and the cluster-wide default takes precedence
over the static setting (the one that the cluster was started with).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kwire.lazy_dataclass import dataclass
from mockbroker.base.settings import Settings

DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER = 2, 3, 4  # config sources of DescribeConfigs
ALL_BROKERS = ""  # resource name of the cluster-wide defaults
MIN_IN_SYNC = "min.insync.replicas"


class Layer(Protocol):
    """The interface to one source of settings, such as the settings that AlterConfigs has set for one broker.

    Attributes:
        source: Number of the source in DescribeConfigs.
    """

    @property
    def source(self) -> int: ...

    def text(self, name: str) -> str | None:
        """Return the value of the setting ``name`` as text; None if this source does not set it."""
        ...


@dataclass(frozen=True, slots=True)
class _Static:
    settings: Settings
    source = STATIC_BROKER

    def text(self, name: str) -> str | None:
        return self.settings.text(name) if name in self.settings.given else None


@dataclass(frozen=True, slots=True)
class _Dynamic:
    source: int
    configs: Mapping[str, str]

    def text(self, name: str) -> str | None:
        return self.configs.get(name)


class LiveSettings(Settings):
    """Settings that change while the cluster runs. All objects that refer to a LiveSettings see new values immediately.

    The class is not a dataclass, because generating methods for so many fields would slow down the import.

    Args:
        static: The settings that the cluster was started with.

    Attributes:
        static: The settings that the cluster was started with.
        cluster_wide: Settings that AlterConfigs has set for all brokers, by name.
        of_broker: Settings that AlterConfigs has set for one broker, by name.
        layers: The sources of the settings, in order of precedence, the highest first.
    """

    __slots__ = ("cluster_wide", "layers", "of_broker", "static")

    static: Settings
    cluster_wide: Mapping[str, str]
    of_broker: Mapping[str, str]
    layers: tuple[Layer, ...]

    def __init__(self, static: Settings) -> None:
        self.change(static, {}, {})

    def change(self, static: Settings, cluster_wide: Mapping[str, str], of_broker: Mapping[str, str]) -> None:
        """Compute all values again from three sources: static, cluster-wide and per broker.

        A value that mockbroker cannot use is ignored.

        Args:
            static: The settings that the cluster was started with.
            cluster_wide: Settings that AlterConfigs has set for all brokers, by name.
            of_broker: Settings that AlterConfigs has set for one broker, by name.
        """
        merged = static.with_values({**cluster_wide, **of_broker})
        for name in Settings.__annotations__:
            object.__setattr__(self, name, getattr(merged, name))
        object.__setattr__(self, "static", static)
        object.__setattr__(self, "cluster_wide", cluster_wide)
        object.__setattr__(self, "of_broker", of_broker)
        dynamic = _Dynamic(DYNAMIC_BROKER, of_broker), _Dynamic(DYNAMIC_DEFAULT_BROKER, cluster_wide)
        object.__setattr__(self, "layers", (*dynamic, _Static(static)))


def layers(settings: Settings) -> tuple[Layer, ...]:
    """Return the sources of a broker's settings, such as its dynamic settings, in order of precedence, the highest
    first.
    """
    return settings.layers if isinstance(settings, LiveSettings) else (_Static(settings),)


class ListenerFiles(Protocol):
    """The interface to the open listeners and to their keystores and truststores.

    The server implements the interface and reads the files that the settings of a broker name.
    """

    def refusal(self, node: int, configs: Mapping[str, str]) -> str | None:
        """Return the reason why a broker's listeners cannot use the keystores and truststores in new settings.

        The result is None if the listeners can use them.

        Args:
            node: Id of the broker.
            configs: The new dynamic settings of the broker, by name: the complete set, without cluster-wide settings.
        """
        ...

    def names(self, node: int) -> list[str]:
        """Return the names of a broker's listeners. ``node``: id of the broker."""
        ...

    def reload(self, node: int) -> None:
        """Read the keystores and truststores of a broker's listeners after a change of its settings.

        ``node``: id of the broker.
        """
        ...


class BrokerSettings:
    """The settings of all brokers of a running cluster.

    Args:
        static: the settings that the cluster was started with.
        configs: settings that AlterConfigs has set, by broker id as text or ALL_BROKERS.

    Attributes:
        cluster: the settings of the cluster, without settings of single brokers.
        keeps_min_in_sync: whether the cluster always has a cluster-wide ``min.insync.replicas``, as Kafka's feature
            ``eligible.leader.replicas.version`` (KIP-966) requires. Until AlterConfigs sets the cluster-wide value, it
            equals the static value.
        listener_files: the keystores and truststores of the listeners; None if the cluster has no sockets.
    """

    def __init__(
        self, static: Settings, configs: dict[str, Mapping[str, str]], *, keeps_min_in_sync: bool = False
    ) -> None:
        self.static = static
        self.configs = configs
        self.keeps_min_in_sync = keeps_min_in_sync
        self.listener_files: ListenerFiles | None = None
        self.cluster = LiveSettings(static)
        self._by_broker: dict[int, LiveSettings] = {}
        self.refresh()

    def keep_min_in_sync(self, keeps: bool) -> None:
        """Set ``keeps_min_in_sync`` when the feature ``eligible.leader.replicas.version`` is enabled or disabled.

        After the feature is disabled, the cluster keeps its cluster-wide ``min.insync.replicas``.

        ``keeps``: True if the feature is enabled.
        """
        if keeps == self.keeps_min_in_sync:
            return
        cluster_wide = self.set_on(ALL_BROKERS)
        self.keeps_min_in_sync = keeps
        if cluster_wide and not keeps:
            self.configs[ALL_BROKERS] = cluster_wide
        self.refresh()

    def of(self, node: int) -> Settings:
        """Return the settings of a broker. ``node``: broker id."""
        return self._by_broker.get(node, self.cluster)

    def set_on(self, name: str) -> Mapping[str, str]:
        """Return the settings that AlterConfigs has set for one broker, or for all brokers.

        If ``keeps_min_in_sync`` is True, the settings for all brokers always contain ``min.insync.replicas``.

        ``name``: broker id as text, or ALL_BROKERS.
        """
        own = self.configs.get(name, {})
        if name == ALL_BROKERS and self.keeps_min_in_sync:
            return {MIN_IN_SYNC: str(self.static.min_insync_replicas)} | dict(own)
        return own

    def without_static_min_in_sync(self, configs: Mapping[str, str]) -> dict[str, str]:
        """Return a copy of cluster-wide settings, without ``min.insync.replicas`` if its value is only the static
        default.

        ``min.insync.replicas`` is removed if AlterConfigs has not set it and its value equals the static setting.

        ``configs``: the cluster-wide settings as ``set_on`` returns them, possibly changed.
        """
        is_static = MIN_IN_SYNC not in self.configs.get(ALL_BROKERS, {})
        unchanged = is_static and configs.get(MIN_IN_SYNC) == str(self.static.min_insync_replicas)
        return {name: value for name, value in configs.items() if not (unchanged and name == MIN_IN_SYNC)}

    def refresh(self) -> None:
        """Compute the settings of all brokers again after a change of ``configs``."""
        cluster_wide = self.set_on(ALL_BROKERS)
        self.cluster.change(self.static, cluster_wide, {})
        nodes = {int(name) for name in self.configs if name.isdecimal() and name == str(int(name))}
        for node in nodes | self._by_broker.keys():
            one = self._by_broker.setdefault(node, LiveSettings(self.static))
            one.change(self.static, cluster_wide, self.configs.get(str(node), {}))
