"""DescribeConfigs: v0-4. All topic and broker configurations of the release.

Not modelled: documentation texts; configurations of loggers, client metrics and groups.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kwire import ErrorCode
from kwire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.texts import OF_ERRORS, shortened
from mockbroker.broker.broker import Broker
from mockbroker.broker.broker_configs import BrokerConfig, broker_configs
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics import configs as topic_configs
from mockbroker.topics.configs import DEFAULT, STATIC_BROKER
from mockbroker.topics.model import legal_topic_name, name_error

Resource = DescribeConfigsRequest.Resource
Result = DescribeConfigsResponse.Result
Config = Result.Config
TOPIC, BROKER = 2, 4  # resource types
CONFIG_SIZE = 10  # approximate bytes of a configuration in a response, without name and value
NOT_DESCRIBED = {8: "loggers of brokers", 16: "client metrics", 32: "groups"}  # by resource type
INTEGER = re.compile(r"[+-]?\d{1,10}")
WITHOUT_MESSAGE = {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}  # errors without a message


def handle(broker: Broker, call: Call[DescribeConfigsRequest], now: float) -> Effects:  # noqa: ARG001
    """Describe each resource in the request, duplicates included, as Kafka does."""
    requested = {_key(resource): resource for resource in call.request.resources}
    keys = map(_key, call.request.resources)
    results = broker.response_room().describe_each(keys, lambda key: _describe(broker, call, requested[key]), _size)
    return [Reply(call.ticket, DescribeConfigsResponse(results=results))]


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
            configs, error = _topic(broker, requested.resource_name)
        case 4:
            configs, error = _broker(broker, requested.resource_name)
        case _:
            configs, error = {}, ErrorCode.INVALID_REQUEST
    result.error_code = error
    if error not in WITHOUT_MESSAGE:
        result.error_message = _error_message(call, requested)
    names = frozenset(requested.configuration_keys or ())
    for name, config in configs.items():
        if not names or name in names:  # no names: all
            result.configs.append(_adapt(config, call))
    return result


def _error_message(call: Call[DescribeConfigsRequest], requested: Resource) -> str:
    """Return the error message of a resource; mockbroker has its own message only where Kafka returns no error."""
    name = requested.resource_name
    match requested.resource_type:
        case 2:
            return name_error(name) or ""
        case 4 if not name:
            return "Cluster-wide defaults are not supported: request the configurations of a broker by its id."
        case 8 if not name:
            return "Broker id must not be empty"
        case 4 | 8 if not INTEGER.fullmatch(name):
            return f"Broker id must be an integer, but it is: {shortened(name)}"
        case 4:
            return f"Unexpected broker id, expected {call.client.node} or empty string, but received {shortened(name)}"
        case 8 if int(name) != call.client.node:
            return f"Unexpected broker id, expected {call.client.node} but received {shortened(name)}"
        case resource_type if resource_type in NOT_DESCRIBED:
            return (
                f"Configurations of {NOT_DESCRIBED[resource_type]} are not supported, only those of topics and brokers."
            )
    return OF_ERRORS[ErrorCode.INVALID_REQUEST]


def _adapt(config: Config, call: Call[DescribeConfigsRequest]) -> Config:
    """Adapt a configuration to the API version: synonyms exist from v1 on, if requested, and the type from v3 on.

    In v0, is_default is always false, as in Kafka 3.9.
    """
    if not call.request.include_synonyms:
        config.synonyms = []
    if call.version < 3:
        config.config_type = 0
    config.documentation = None
    return config


def _topic(broker: Broker, name: str) -> tuple[Mapping[str, Config], ErrorCode]:
    if not legal_topic_name(name):
        return {}, ErrorCode.INVALID_TOPIC_EXCEPTION
    topic = broker.cluster.topics.get(name)
    if topic is None:
        return {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    configs = {}
    for key, config in topic_configs.topic_configs(broker.release).items():
        sources = list(topic_configs.sources(topic.configs, key, broker.settings, broker.release))
        synonyms = sources if config.synonym else sources[:-1]  # without the default, which is no broker configuration
        configs[key] = Config(
            name=key,
            value=topic_configs.reported(key, config, sources[0].value),
            config_source=sources[0].source,
            config_type=config.type,
            synonyms=[
                Config.Synonym(
                    name=each.name, value=topic_configs.reported(key, config, each.value), source=each.source
                )
                for each in synonyms
            ],
        )
    return configs, ErrorCode.NONE


def _broker(broker: Broker, name: str) -> tuple[Mapping[str, Config], ErrorCode]:
    node = broker.cluster.nodes.get(int(name)) if name.isdecimal() else None
    if node is None:
        return {}, ErrorCode.INVALID_REQUEST
    return {
        config.name: _of_broker(config) for config in broker_configs(broker.settings, broker.release, node)
    }, ErrorCode.NONE


def _of_broker(config: BrokerConfig) -> Config:
    source = STATIC_BROKER if config.is_given else DEFAULT
    synonyms = [Config.Synonym(name=config.name, value=config.value, source=source)] if config.value is not None else []
    if config.is_given and config.default is not None:
        synonyms.append(Config.Synonym(name=config.name, value=config.default, source=DEFAULT))
    return Config(
        name=config.name,
        value=config.value,
        is_sensitive=config.is_sensitive,
        read_only=config.read_only,
        config_source=source,
        config_type=config.type,
        synonyms=synonyms,
    )


HANDLER = Handler(Versions.parse("0-4"), handle)
