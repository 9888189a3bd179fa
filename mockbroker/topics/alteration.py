"""AlterConfigs and IncrementalAlterConfigs: the changes of the configurations of all resource types.

Source: Kafka's ConfigAdminManager and ConfigurationControlManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from mockbroker.base.broker_loggers import BrokerLoggers
from mockbroker.base.live_settings import ALL_BROKERS, BrokerSettings
from mockbroker.base.release import Release
from mockbroker.topics import broker_alteration, client_metrics_configs, group_configs, logger_alteration
from mockbroker.topics.config_changes import NOT_REFUSED, Change, Refusal, apply, structural_refusal
from mockbroker.topics.configs import configs_error, topic_configs
from mockbroker.topics.dynamic_broker_configs import listener_error
from mockbroker.topics.listener_configs import listeners_error
from mockbroker.topics.model import ClusterState, name_error

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32  # resource types
Resource: TypeAlias = tuple[int, str]  # type and name
SINCE = {CLIENT_METRICS: "client metrics exist since 3.7", GROUP: "configurations of groups exist since 4.0"}
REPEATED = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """The execution of one AlterConfigs or IncrementalAlterConfigs request: call ``alter_all``.

    Attributes:
        cluster: the cluster to change.
        release: the emulated Kafka release.
        brokers: the settings of the brokers.
        loggers: the loggers of the brokers.
        node: id of the broker that received the request.
        replace_all: True for AlterConfigs, which removes the configurations that the request omits; False for
            IncrementalAlterConfigs.
        validate_only: True to check the changes without applying them.
    """

    cluster: ClusterState
    release: Release
    brokers: BrokerSettings
    loggers: BrokerLoggers
    node: int
    replace_all: bool = False
    validate_only: bool = False

    def alter_all(self, requested: Sequence[tuple[Resource, Sequence[Change]]]) -> list[Refusal]:
        """Alter the configurations of each resource, and return a result for each, in order: NOT_REFUSED or the error.

        A resource that occurs twice in the request is rejected. With ``validate_only``, nothing is changed.

        ``requested``: type and name of each resource, with its changes.
        """
        counts = Counter(resource for resource, _ in requested)
        return [
            REPEATED if counts[resource] > 1 else self._alter(*resource, changes) for resource, changes in requested
        ]

    def _alter(self, resource_type: int, name: str, changes: Sequence[Change]) -> Refusal:
        """Change one resource. Return NOT_REFUSED or the first error.

        The checks have Kafka's order: names without duplicates, no null values, the type of the resource, the
        operations, the name of the resource, the values, and last that the topic exists.

        Args:
            resource_type: type of the resource.
            name: name of the resource.
            changes: the changes, in order.
        """
        if refusal := structural_refusal(changes):
            return refusal
        if resource_type == BROKER:
            return self._alter_broker(name, changes)
        if resource_type == BROKER_LOGGER and not self.replace_all:
            return self._alter_loggers(name, changes)
        if resource_type == GROUP and not self.release.quirks.configs_before_4_0:
            return self._alter_group(name, changes)
        if resource_type == CLIENT_METRICS and self.release.has_client_metrics:
            return self._alter_client_metrics(name, changes)
        return self._alter_topic(name, changes) if resource_type == TOPIC else _unknown_type(resource_type)

    def _alter_topic(self, name: str, changes: Sequence[Change]) -> Refusal:
        topic = self.cluster.topics.get(name)
        before = {} if topic is None or self.replace_all else topic.configs
        changed = apply(before, changes, topic_configs(self.release))
        if isinstance(changed, Refusal):
            return changed
        if not name:
            return Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if text := name_error(name):
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
        if text := configs_error(changed, self.release):
            return Refusal(ErrorCode.INVALID_CONFIG, text)
        if topic is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        if not self.validate_only:
            self.cluster.configure(topic, changed)
        return NOT_REFUSED

    def _alter_broker(self, name: str, changes: Sequence[Change]) -> Refusal:
        changed = broker_alteration.changed(
            self.brokers, self.release, self.node, name, changes, replace_all=self.replace_all
        )
        if isinstance(changed, Refusal):
            return changed
        listeners = self.brokers.listener_files
        files = listeners if name != ALL_BROKERS else None
        if files is not None and (reason := files.refusal(self.node, changed)):
            return Refusal(ErrorCode.INVALID_REQUEST, listener_error(reason))
        if listeners is not None and (text := self._listeners_error(name, changed, listeners.names(self.node))):
            return Refusal(ErrorCode.INVALID_REQUEST, text)
        if not self.validate_only:
            self.cluster.configure_broker(name, changed)
            self.brokers.refresh()
            if files is not None:
                files.reload(self.node)
        return NOT_REFUSED

    def _listeners_error(self, name: str, changed: Mapping[str, str], listeners: Sequence[str]) -> str | None:
        """Return the error message if the listeners of this broker do not permit a change of settings; None if they do.

        Args:
            name: The changed resource: broker id as text, or ALL_BROKERS.
            changed: The dynamic settings of the resource after the change.
            listeners: Names of the listeners.
        """
        cluster_wide, own = self.brokers.set_on(ALL_BROKERS), self.brokers.set_on(str(self.node))
        after = {**changed, **own} if name == ALL_BROKERS else {**cluster_wide, **changed}
        return listeners_error(self.brokers.static, {**cluster_wide, **own}, after, listeners)

    def _alter_loggers(self, name: str, changes: Sequence[Change]) -> Refusal:
        levels = logger_alteration.changed(self.node, name, changes)
        if isinstance(levels, Refusal):
            return levels
        if not self.validate_only:
            self.loggers.change(levels)
        return NOT_REFUSED

    def _alter_client_metrics(self, name: str, changes: Sequence[Change]) -> Refusal:
        configured = self.cluster.client_metrics
        changed = apply({} if self.replace_all else configured.get(name, {}), changes, {})
        if isinstance(changed, Refusal):
            return changed
        if error := client_metrics_configs.configs_error(name, changed):
            return Refusal(*error)
        if limit := client_metrics_configs.limit_error(name, changed, configured):
            return Refusal(ErrorCode.INVALID_REQUEST, limit)
        if not self.validate_only:
            self.cluster.configure_client_metrics(name, changed)
        return NOT_REFUSED

    def _alter_group(self, group_id: str, changes: Sequence[Change]) -> Refusal:
        """Change the configurations of a group, even if the group does not exist. Return NOT_REFUSED or the error.

        Args:
            group_id: group id.
            changes: the changes, in order.
        """
        configured = self.cluster.group_configs
        own = {} if self.replace_all else configured.get(group_id, {})
        changed = apply(own, changes, group_configs.GROUP_CONFIGS)
        if isinstance(changed, Refusal):
            return changed
        if not group_id:
            return Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        if group_id not in configured and len(configured) >= group_configs.MAX_GROUPS:
            limit = (
                f"{len(configured)} groups have configurations, the maximum: start a new cluster, or use fewer groups."
            )
            return Refusal(ErrorCode.INVALID_REQUEST, limit)
        if text := group_configs.configs_error(changed, self.brokers.cluster):
            return Refusal(ErrorCode.INVALID_CONFIG, text)
        if not self.validate_only:
            self.cluster.configure_group(group_id, changed)
        return NOT_REFUSED


def _unknown_type(resource_type: int) -> Refusal:
    since = f": {SINCE[resource_type]}" if resource_type in SINCE else ""
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}{since}")
