"""The handler of DescribeConfigs v0-4, for topics, brokers, loggers, groups and client metrics.

Only configurations that have an effect in mockbroker have a documentation text, which is mockbroker's own. Not
modelled: configurations of groups before 4.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kwire import ErrorCode
from kwire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from mockbroker.base.config_sources import DEFAULT, ConfigSource
from mockbroker.base.documentation import documentation
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.settings import Settings
from mockbroker.base.texts import OF_ERRORS, shortened
from mockbroker.broker.broker import Broker
from mockbroker.broker.broker_configs import BrokerConfig, broker_configs, cluster_wide_configs
from mockbroker.topics import client_metrics_configs, group_configs
from mockbroker.topics import configs as topic_configs
from mockbroker.topics.broker_alteration import INTEGER
from mockbroker.topics.model import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    legal_topic_name,
    name_error,
)

Resource = DescribeConfigsRequest.Resource
Result = DescribeConfigsResponse.Result
Config = Result.Config
OF_LOGGER = 6  # config source of DescribeConfigs
SLICE = 20  # resources of a request that are described before other requests; they take about 10 ms
CONFIG_SIZE = 10  # approximate bytes of a configuration in a response, without name and value
SINCE = {16: "Client metrics exist since 3.7.", 32: "Configurations of groups exist since 4.0."}  # by resource type
WITHOUT_MESSAGE = {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}  # errors without a message


def handle(broker: Broker, call: Call[DescribeConfigsRequest], now: float) -> Effects:  # noqa: ARG001
    """Respond with the configurations of each resource in the request.

    As in Kafka, a duplicate resource is described twice, and a resource of an unknown type makes all resources
    INVALID_REQUEST.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
        now: the broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    return begin(call.ticket, _describe_all(broker, call))


def _describe_all(broker: Broker, call: Call[DescribeConfigsRequest]) -> Steps:
    if not _types(broker) >= {resource.resource_type for resource in call.request.resources}:
        return [Reply(call.ticket, DescribeConfigsResponse(results=[*map(_refused, call.request.resources)]))]
    requested = {_key(resource): resource for resource in call.request.resources}
    keys, room, results = [*map(_key, call.request.resources)], broker.response_room(), list[Result]()
    for at in range(0, len(keys), SLICE):
        if at:
            yield []
        results += room.describe_each(keys[at : at + SLICE], lambda key: _describe(broker, call, requested[key]), _size)
    return [Reply(call.ticket, DescribeConfigsResponse(results=results))]


def _types(broker: Broker) -> set[int]:
    """Return the numbers of the resource types that the emulated release describes."""
    types = {2, 4, 8}
    if broker.release.has_client_metrics:
        types.add(16)
    if not broker.release.quirks.configs_before_4_0:
        types.add(32)
    return types


def _refused(requested: Resource) -> Result:
    """Return the result of a resource in a request that names a resource of an unknown type."""
    return Result(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=SINCE.get(requested.resource_type, OF_ERRORS[ErrorCode.INVALID_REQUEST]),
        resource_type=requested.resource_type,
        resource_name=requested.resource_name,
    )


def _key(requested: Resource) -> tuple[int, str, tuple[str, ...]]:
    return requested.resource_type, requested.resource_name, tuple(requested.configuration_keys or ())


def _size(described: Result) -> int:
    configs = ((config.name, config.value or "", len(config.synonyms)) for config in described.configs)
    return len(described.resource_name) + sum(
        (CONFIG_SIZE + len(name) + len(value)) * (1 + synonyms) for name, value, synonyms in configs
    )


def _describe(broker: Broker, call: Call[DescribeConfigsRequest], requested: Resource) -> Result:
    result = Result(resource_type=requested.resource_type, resource_name=requested.resource_name, error_message="")
    match requested.resource_type:
        case 2:
            configs, error = _topic(broker, requested.resource_name, call.client.node)
        case 4:
            configs, error = _broker(broker, requested.resource_name, call.client.node)
        case 8:
            configs, error = _loggers(broker, requested.resource_name, call.client.node)
        case 16:
            configs, error = _client_metrics(broker, requested.resource_name)
        case _:
            configs, error = _group(broker, requested.resource_name)
    result.error_code = error
    if error not in WITHOUT_MESSAGE:
        result.error_message = _error_message(call, requested)
    names = frozenset(requested.configuration_keys or ())
    for name, config in configs.items():
        if not names or name in names:  # no names: all
            result.configs.append(_adapt(config, call))
    return result


def _error_message(call: Call[DescribeConfigsRequest], requested: Resource) -> str:
    """Return the error message for a resource in a request.

    Where Kafka returns no error, the message is mockbroker's own.

    Args:
        call: the request, its client, and its ticket (the object that identifies the request).
        requested: the resource.
    """
    name = requested.resource_name
    match requested.resource_type:
        case 2:
            return name_error(name) or ""
        case 16 if not name:
            return "Client metrics subscription name must not be empty"
        case 32 if not name:
            return "Group name must not be empty"
        case 8 if not name:
            return "Broker id must not be empty"
        case 4 | 8 if not INTEGER.fullmatch(name):
            return f"Broker id must be an integer, but it is: {shortened(name)}"
        case 4:
            return f"Unexpected broker id, expected {call.client.node} or empty string, but received {shortened(name)}"
        case 8 if int(name) != call.client.node:
            return f"Unexpected broker id, expected {call.client.node} but received {shortened(name)}"
    return OF_ERRORS[ErrorCode.INVALID_REQUEST]


def _adapt(config: Config, call: Call[DescribeConfigsRequest]) -> Config:
    """Return a configuration as the API version of a request requires.

    Synonyms exist since v1 (if requested), the type since v3. In v0, is_default is always false, as in Kafka 3.9.

    Args:
        config: The configuration, which may be changed.
        call: The request, its client, and its ticket (the object that identifies the request).
    """
    if not call.request.include_synonyms:
        config.synonyms = []
    if call.version < 3:
        config.config_type = 0
    if not call.request.include_documentation and config.config_source != OF_LOGGER:
        config.documentation = None
    return config


def _topic(broker: Broker, name: str, node: int) -> tuple[Mapping[str, Config], ErrorCode]:
    if not legal_topic_name(name):
        return {}, ErrorCode.INVALID_TOPIC_EXCEPTION
    topic = broker.cluster.topics.get(name)
    if topic is None:
        return {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    configs = {}
    settings = broker.settings_of(node)
    own = {**_of_internal_topic(name, settings), **topic.configs}
    for key, config in topic_configs.topic_configs(broker.release).items():
        sources = topic_configs.sources(own, key, settings, broker.release)
        if key in own:
            sources[0] = replace(sources[0], value=topic_configs.reported(key, config, sources[0].value))
        effective = topic_configs.effective_source(own, key, settings, broker.release)
        configs[key] = Config(
            name=key,
            value=topic_configs.reported(key, config, effective.value),
            config_source=sources[0].source if sources else effective.source,
            config_type=config.type,
            synonyms=_synonyms(sources),
            documentation=documentation(config.synonym),
        )
    return configs, ErrorCode.NONE


def _of_internal_topic(name: str, settings: Settings) -> dict[str, str]:
    """Return the configurations with which Kafka creates an internal topic; none for any other topic.

    Here they have no effect. Source: the methods that return configurations of topics in GroupCoordinatorService,
    TransactionStateManager and ShareCoordinatorService.

    Args:
        name: topic name.
        settings: settings of the broker, of which some are values of these configurations.
    """
    segment_bytes, min_in_sync = "104857600", "2"  # Kafka's defaults of the settings
    if name == OFFSETS_TOPIC:
        segment_bytes = settings.text("offsets.topic.segment.bytes") or segment_bytes
        return {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": segment_bytes}
    if name == TRANSACTIONS_TOPIC:
        return {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": settings.text("transaction.state.log.min.isr") or min_in_sync,
            "segment.bytes": settings.text("transaction.state.log.segment.bytes") or segment_bytes,
            "unclean.leader.election.enable": "false",
        }
    if name == SHARE_STATE_TOPIC:
        return {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": settings.text("share.coordinator.state.topic.min.isr") or min_in_sync,
            "retention.ms": "-1",
            "segment.bytes": settings.text("share.coordinator.state.topic.segment.bytes") or segment_bytes,
        }
    return {}


def _synonyms(sources: Iterable[ConfigSource], *, is_sensitive: bool = False) -> list[Config.Synonym]:
    return [
        Config.Synonym(name=each.name, value=None if is_sensitive else each.value, source=each.source)
        for each in sources
    ]


def _loggers(broker: Broker, name: str, node: int) -> tuple[Mapping[str, Config], ErrorCode]:
    if not INTEGER.fullmatch(name) or int(name) != node:
        return {}, ErrorCode.INVALID_REQUEST
    levels = broker.loggers.effective()
    return {
        logger: Config(name=logger, value=level, config_source=OF_LOGGER, config_type=0, documentation="")
        for logger, level in levels.items()
    }, ErrorCode.NONE


def _client_metrics(broker: Broker, name: str) -> tuple[Mapping[str, Config], ErrorCode]:
    """Return the configurations of a client metrics subscription, or the defaults if the subscription is unknown.

    Args:
        broker: The state of the cluster.
        name: Name of the subscription.

    Returns: configuration name -> configuration, and an error code.
    """
    if not name:
        return {}, ErrorCode.INVALID_REQUEST
    own = broker.cluster.client_metrics.get(name, {})
    configs = {}
    for key, config in client_metrics_configs.CONFIGS.items():
        value = topic_configs.reported(key, config, own.get(key, config.default))
        found = [ConfigSource(key, value, client_metrics_configs.OF_SUBSCRIPTION)] if key in own else []
        configs[key] = Config(
            name=key,
            value=value,
            config_source=found[0].source if found else DEFAULT,
            config_type=config.type,
            synonyms=_synonyms(found),
            documentation=None,
        )
    return configs, ErrorCode.NONE


def _group(broker: Broker, group_id: str) -> tuple[Mapping[str, Config], ErrorCode]:
    """Return the configurations of a group, or the defaults if the group is unknown.

    Args:
        broker: The state of the cluster.
        group_id: The group id.

    Returns: configuration name -> configuration, and an error code: NONE, or INVALID_REQUEST for an empty group id.
    """
    if not group_id:
        return {}, ErrorCode.INVALID_REQUEST
    own = broker.cluster.group_configs.get(group_id)
    configs = {}
    for name, config in group_configs.GROUP_CONFIGS.items():
        found = group_configs.source(own, name, broker.settings)
        configs[name] = Config(
            name=name,
            value=found.value,
            config_source=found.source,
            config_type=config.type,
            synonyms=_synonyms([found]),
            documentation=documentation(config.synonym),
        )
    return configs, ErrorCode.NONE


def _broker(broker: Broker, name: str, node: int) -> tuple[Mapping[str, Config], ErrorCode]:
    if not name:
        found = cluster_wide_configs(broker.broker_settings, broker.release)
        return {config.name: _of_broker(config) for config in found}, ErrorCode.NONE
    if not INTEGER.fullmatch(name) or int(name) != node:
        return {}, ErrorCode.INVALID_REQUEST
    found = broker_configs(broker.settings_of(node), broker.release, broker.cluster.nodes[node])
    return {config.name: _of_broker(config) for config in found}, ErrorCode.NONE


def _of_broker(config: BrokerConfig) -> Config:
    return Config(
        name=config.name,
        value=config.value,
        is_sensitive=config.is_sensitive,
        read_only=config.read_only,
        config_source=config.source,
        config_type=config.type,
        synonyms=_synonyms(config.sources, is_sensitive=config.is_sensitive),
        documentation=documentation(config.name),
    )
