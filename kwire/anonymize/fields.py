"""Lists of the fields that anonymization treats specially.

The strings of the fields in HARMLESS are not replaced. Further lists contain the fields with host names and topics,
which are replaced by pseudonyms of hosts and topics. All remaining strings are replaced by pseudonyms of text.

An entry is the name of a field in any message (``mechanism``), or the qualified name of one field
(``JoinGroupRequest.Protocol.name``).
"""

from __future__ import annotations

HARMLESS = frozenset(  # strings that Kafka or the client's library defines
    {
        "assignor_name",
        "client_software_name",
        "client_software_version",
        "configuration_keys",
        "documentation",
        "entity_type",
        "feature",
        "group_state",
        "group_type",
        "mechanism",
        "mechanisms",
        "owner_principal_type",
        "principal_type",
        "protocol_data",
        "protocol_name",
        "protocol_type",
        "requested_metrics",
        "server_assignor",
        "state_filters",
        "states_filter",
        "token_requester_principal_type",
        "transaction_state",
        "types_filter",
        "unknown_state_filters",
        "AlterClientQuotasRequest.Entry.Op.key",
        "AlterConfigsRequest.Resource.Config.name",
        "ApiVersionsResponse.FinalizedFeature.name",
        "ApiVersionsResponse.SupportedFeature.name",
        "BrokerRegistrationRequest.Feature.name",
        "ControllerRegistrationRequest.Feature.name",
        "CreateTopicsRequest.Topic.Config.name",
        "CreateTopicsResponse.Topic.Config.name",
        "DescribeClientQuotasResponse.Entry.Value.key",
        "DescribeConfigsResponse.Result.Config.Synonym.name",
        "DescribeConfigsResponse.Result.Config.name",
        "IncrementalAlterConfigsRequest.Resource.Config.name",
        "JoinGroupRequest.Protocol.name",
    }
)
HOSTS = frozenset({"client_host", "host", "host_filter", "host_name", "v0_host"})
TOPICS = frozenset(  # topics whose declaration has no entity topicName
    {
        "AssignmentInfo.Topic.name",
        "ConsumerProtocolSubscription.topics",
        "TopicPartition.topic",
    }
)
TOPIC_ID = "topic_id"
RESOURCES = frozenset({"resource_name", "resource_name_filter"})  # what they name depends on the resource type
COORDINATOR_KEYS = frozenset(
    {
        "FindCoordinatorRequest.key",
        "FindCoordinatorRequest.coordinator_keys",
        "FindCoordinatorResponse.Coordinator.key",
    }
)
NAMED_TOPOLOGY = "named_topology"  # text as a list of UTF-16 units

TOPIC_NAME = "topicName"  # entity of a topic's name
TOPIC_RESOURCE = 2  # resource type of a topic, both of configurations and of ACLs
BROKER_RESOURCES = (4, 8)  # resource types of configurations whose name is a node id: broker, broker logger
