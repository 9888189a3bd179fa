"""The handler of CreateTopics v0-7.

A configuration without effect (docs/limits.md) is validated, stored and reported like any other configuration.
"""

from __future__ import annotations

from collections import Counter

from kwire import ErrorCode
from kwire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.settings import MAX_NEW_PARTITIONS
from mockbroker.broker.broker import Broker
from mockbroker.broker.controller_timeouts import TIMED_OUT, is_expired
from mockbroker.broker.slices import chunks
from mockbroker.broker.topic_creation import TOO_MANY, TopicError, new_replicas, requested_partitions
from mockbroker.topics import configs as topic_configs

RequestTopic = CreateTopicsRequest.Topic
ResponseTopic = CreateTopicsResponse.Topic
TOPIC_COST = 20  # elements of a slice that a new topic counts as, because its replicas are checked and created


DUPLICATE = TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def handle(broker: Broker, call: Call[CreateTopicsRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _create_topics(broker, call))


def _create_topics(broker: Broker, call: Call[CreateTopicsRequest]) -> Steps:
    """Create the topics of a request.

    If a name occurs twice, no topic is created for it, and the response contains one error.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.

    If the topics have more than MAX_NEW_PARTITIONS partitions in total, no topic is created. If the request has
    expired, each topic gets REQUEST_TIMED_OUT, unless all names are duplicates.
    """
    many = len(call.request.topics) > broker.slice_size
    if many:
        yield []  # a slice has decoded the topics, the next one counts them
    counts = Counter(topic.name for topic in call.request.topics)
    partitions = sum(
        requested_partitions(broker.settings, topic) for topic in call.request.topics if counts[topic.name] == 1
    )
    if is_expired(call.request.timeout_ms) and 1 in counts.values():
        timed_out: list[ResponseTopic] = []
        for number, part in enumerate(chunks(call.request.topics, broker.slice_size)):
            if number:
                yield []
            timed_out += [ResponseTopic(name=each.name, error_code=TIMED_OUT, error_message=None) for each in part]
        return [Reply(call.ticket, CreateTopicsResponse(topics=timed_out))]
    remaining = 0 if many else broker.slice_size
    responses: dict[str, ResponseTopic] = {}
    for topic in call.request.topics:
        if remaining <= 0:
            yield []
            remaining = broker.slice_size
        rejected = counts[topic.name] > 1 or partitions > MAX_NEW_PARTITIONS
        remaining -= 1 if rejected else TOPIC_COST
        if counts[topic.name] > 1:
            responses[topic.name] = _error_response(topic, DUPLICATE)
        elif partitions > MAX_NEW_PARTITIONS:
            responses[topic.name] = _error_response(topic, TOO_MANY)
        else:
            responses[topic.name] = _create(broker, topic, validate_only=call.request.validate_only)
    return [Reply(call.ticket, CreateTopicsResponse(topics=list(responses.values())))]


def _create(broker: Broker, topic: RequestTopic, *, validate_only: bool) -> ResponseTopic:
    configs = {config.name: config.value for config in topic.configs}
    replicas = new_replicas(broker.cluster, broker.settings, broker.release, topic)
    if isinstance(replicas, TopicError):
        return _error_response(topic, replicas)
    response = ResponseTopic(
        name=topic.name,
        error_message=None,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=_reported(broker, configs),
    )
    if validate_only:
        response.topic_id = broker.cluster.new_topic_id()
    else:
        response.topic_id = broker.cluster.create_topic(topic.name, replicas, configs).topic_id
    return response


def _error_response(topic: RequestTopic, error: TopicError) -> ResponseTopic:
    return ResponseTopic(name=topic.name, error_code=error.error, error_message=error.text)


def _reported(broker: Broker, configs: topic_configs.Configs) -> list[ResponseTopic.Config]:
    """Return all configurations of a new topic for the CreateTopics response.

    The values are returned as they are in the request; DescribeConfigs returns normalized values.

    Args:
        broker: The state of the cluster.
        configs: Configurations of the topic in the request, by name.
    """
    reported: list[ResponseTopic.Config] = []
    settings = broker.settings_of(broker.cluster.controller)
    for name in topic_configs.topic_configs(broker.release):
        first = topic_configs.effective_source(configs, name, settings, broker.release)
        reported.append(ResponseTopic.Config(name=name, value=first.value, config_source=first.source))
    return reported
