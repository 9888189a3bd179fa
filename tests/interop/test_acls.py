"""Real clients on a cluster with an authorizer: what ACLs allow, the errors of each client, and kafka-acls.sh."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from interop.kafka_tools import acls
from interop.secure import TOPIC, VALUE, Way, come_in
from interop.stage import CONFIG, FAMILIES, LIMIT, MARKS, need_client

from mockbroker import ThreadCluster, run_cluster
from mockbroker.security.acl import Acl, Operation, PatternType, Permission, ResourceType

pytestmark = MARKS

USERS = {"alice": "alice-secret", "mallory": "mallory-secret"}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
DENIED = {  # the error of each client if its user may neither write nor read
    "kafka-python": "TopicAuthorizationFailed",
    "confluent-kafka": "Group authorization failed",  # librdkafka finds the coordinator first
    "aiokafka": "TopicAuthorizationFailed",
    "kcat": "",  # kcat prints no record
    "java": "TopicAuthorizationException",
    "franz-go": "TOPIC_AUTHORIZATION_FAILED",
    "kafkajs": "Not authorized to access topics",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    """Yield a cluster on which clients of the listener PLAINTEXT are super users."""
    with run_cluster(
        topics={TOPIC: 1}, config=CONFIG | AUTHORIZER, listeners=["PLAINTEXT", "SASL_PLAINTEXT"], users=USERS
    ) as found:
        yield found


def allow(cluster: ThreadCluster) -> None:
    allowed = [(ResourceType.TOPIC, "ord", PatternType.PREFIXED), (ResourceType.GROUP, "*", PatternType.LITERAL)]
    alices = [
        Acl(kind, pattern, name, "User:alice", "*", Operation.ALL, Permission.ALLOW) for kind, name, pattern in allowed
    ]
    cluster._perform(lambda served: served._router.broker.cluster.acls.add(alices))


def outcome(family: str, way: Way) -> str:
    """Return the value that a client read, or its error."""
    try:
        return come_in(family, way)
    except Exception as failure:  # each client has different exceptions
        return f"{type(failure).__name__}: {failure}"


@pytest.mark.scenario("ACLs")
@pytest.mark.parametrize("family", FAMILIES)
def test_acls_allow_and_deny(cluster: ThreadCluster, family: str) -> None:
    cluster.reset()
    allow(cluster)
    servers = cluster.listeners["SASL_PLAINTEXT"]
    assert come_in(family, Way(servers=servers, mechanism="PLAIN")) == VALUE
    denied = Way(servers=servers, mechanism="PLAIN", user="mallory", password="mallory-secret")
    output = outcome(family, denied)
    assert DENIED[family] in output
    assert output != VALUE
    assert [record.value for record in cluster.records(TOPIC)] == [VALUE.encode()]


def test_kafka_acls_tool(cluster: ThreadCluster) -> None:
    cluster.reset()
    plaintext = cluster.listeners["PLAINTEXT"]
    acls(plaintext, "--add", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "orders")
    listed = acls(plaintext, "--list", "--resource-pattern-type", "match", "--topic", "orders")
    assert listed == [
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`:",
        "(principal=User:bob, host=*, operation=READ, permissionType=ALLOW)",
    ]
    acls(plaintext, "--remove", "--force", "--topic", "orders")
    assert acls(plaintext, "--list") == []


def test_kafka_python_administers_acls(cluster: ThreadCluster) -> None:
    need_client("kafka-python")
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        KafkaAdminClient,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )

    cluster.reset()
    admin = KafkaAdminClient(bootstrap_servers=cluster.listeners["PLAINTEXT"])
    bobs = ACL(
        "User:bob", "*", ACLOperation.READ, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, "orders")
    )
    of_topics = ResourcePatternFilter(ResourceType.TOPIC, None, ACLResourcePatternType.ANY)
    matching = ACLFilter("User:bob", None, ACLOperation.ANY, ACLPermissionType.ANY, of_topics)
    assert admin.create_acls([bobs])["succeeded"] == [bobs]
    assert admin.describe_acls(matching)[0] == [bobs]
    ((_, deleted, error),) = admin.delete_acls([matching])
    assert (deleted, error.errno) == ([bobs], 0)
    assert admin.describe_acls(matching)[0] == []
    admin.close()


def test_librdkafka_administers_acls(cluster: ThreadCluster) -> None:
    need_client("confluent-kafka")
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    cluster.reset()
    admin = AdminClient({"bootstrap.servers": cluster.listeners["PLAINTEXT"]})
    bobs = AclBinding(
        ResourceType.TOPIC,
        "ord",
        ResourcePatternType.PREFIXED,
        "User:bob",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    (created,) = admin.create_acls([bobs]).values()
    created.result(LIMIT)
    matching = AclBindingFilter(
        ResourceType.TOPIC, "orders", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(matching).result(LIMIT) == [bobs]
    (deleted,) = admin.delete_acls([matching]).values()
    assert deleted.result(LIMIT) == [bobs]
    assert admin.describe_acls(matching).result(LIMIT) == []
