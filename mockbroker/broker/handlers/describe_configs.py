"""DescribeConfigs: v0-4. Topics with all of Kafka's configurations, brokers with the settings of their release.

Not modelled: documentation texts, loggers, client metrics, groups as resources.
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
CONFIG = 10  # bytes in a response without name and value
NOT_DESCRIBED = {8: "loggers of brokers", 16: "client metrics", 32: "groups"}  # resource types of Kafka
NUMBER = re.compile(r"[+-]?\d{1,10}")
SILENT = {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}  # told without a text


def handle(broker: Broker, call: Call[DescribeConfigsRequest], now: float) -> Effects:  # noqa: ARG001
    """A resource that is named twice is described twice, as by Kafka."""
    asked = {_key(resource): resource for resource in call.request.resources}
    keys = map(_key, call.request.resources)
    results = broker.response_room().describe_each(keys, lambda key: _describe(broker, call, asked[key]), _size)
    return [Reply(call.ticket, DescribeConfigsResponse(results=results))]


def _key(asked: Resource) -> tuple[int, str, tuple[str, ...]]:
    return asked.resource_type, asked.resource_name, tuple(asked.configuration_keys or ())


def _size(described: Result) -> int:
    configs = ((config.name, config.value or "", len(config.synonyms)) for config in described.configs)
    return len(described.resource_name) + sum(
        (CONFIG + len(name) + len(value)) * (1 + synonyms) for name, value, synonyms in configs
    )


def _describe(broker: Broker, call: Call[DescribeConfigsRequest], asked: Resource) -> Result:
    result = Result(resource_type=asked.resource_type, resource_name=asked.resource_name, error_message="")
    match asked.resource_type:
        case 2:
            configs, error = _topic(broker, asked.resource_name)
        case 4:
            configs, error = _broker(broker, asked.resource_name)
        case _:
            configs, error = {}, ErrorCode.INVALID_REQUEST
    result.error_code = error
    if error not in SILENT:
        result.error_message = _refusal(call, asked)
    wanted = frozenset(asked.configuration_keys or ())
    for name, config in configs.items():
        if not wanted or name in wanted:  # none named is all of them
            result.configs.append(_shaped(config, call))
    return result


def _refusal(call: Call[DescribeConfigsRequest], asked: Resource) -> str:
    """Why a resource is not broker_configs, in Kafka's words where Kafka refuses it too."""
    name = asked.resource_name
    match asked.resource_type:
        case 2:
            return name_error(name) or ""
        case 4 if not name:
            return "The defaults of all brokers are not described: give the id of a broker."
        case 8 if not name:
            return "Broker id must not be empty"
        case 4 | 8 if not NUMBER.fullmatch(name):
            return f"Broker id must be an integer, but it is: {shortened(name)}"
        case 4:
            return f"Unexpected broker id, expected {call.client.node} or empty string, but received {shortened(name)}"
        case 8 if int(name) != call.client.node:
            return f"Unexpected broker id, expected {call.client.node} but received {shortened(name)}"
        case kind if kind in NOT_DESCRIBED:
            return f"Configurations of {NOT_DESCRIBED[kind]} are not described here, only those of topics and brokers."
    return OF_ERRORS[ErrorCode.INVALID_REQUEST]


def _shaped(config: Config, call: Call[DescribeConfigsRequest]) -> Config:
    """v1 adds synonyms, if asked for; v3 the type. v0 says of nothing that it is the default, as Kafka 3.9."""
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
    found = {}
    for key, config in topic_configs.topic_configs(broker.release).items():
        sources = list(topic_configs.sources(topic.configs, key, broker.settings, broker.release))
        synonyms = sources if config.synonym else sources[:-1]  # a default that no setting of the broker is
        found[key] = Config(
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
    return found, ErrorCode.NONE


def _broker(broker: Broker, name: str) -> tuple[Mapping[str, Config], ErrorCode]:
    node = broker.cluster.nodes.get(int(name)) if name.isdecimal() else None
    if node is None:
        return {}, ErrorCode.INVALID_REQUEST
    return {one.name: _of_broker(one) for one in broker_configs(broker.settings, broker.release, node)}, ErrorCode.NONE


def _of_broker(one: BrokerConfig) -> Config:
    source = STATIC_BROKER if one.is_given else DEFAULT
    synonyms = [Config.Synonym(name=one.name, value=one.value, source=source)] if one.value is not None else []
    if one.is_given and one.default is not None:
        synonyms.append(Config.Synonym(name=one.name, value=one.default, source=DEFAULT))
    return Config(
        name=one.name,
        value=one.value,
        is_sensitive=one.is_sensitive,
        read_only=one.read_only,
        config_source=source,
        config_type=one.type,
        synonyms=synonyms,
    )


HANDLER = Handler(Versions.parse("0-4"), handle)
