"""DescribeCluster (key 60): an admin client requests the brokers and the controller of the cluster (KIP-700).

v1 adds the endpoint type: brokers or controllers (KIP-919); v2 adds fenced brokers (KIP-1073).
"""

from kwire.schema import Api, Array, Bool, Int8, Int16, Int32, String, request, response, struct

DESCRIBE_CLUSTER = Api(60, versions="0-2", flexible="0+")


@request(DESCRIBE_CLUSTER)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = Bool()
    endpoint_type: int = Int8("1+", default=1)
    include_fenced_brokers: bool = Bool("2+")


@response(DESCRIBE_CLUSTER)
class DescribeClusterResponse:
    @struct
    class Broker:
        broker_id: int = Int32(entity="brokerId")
        host: str = String()
        port: int = Int32()
        rack: str | None = String(null=True, default=None)
        is_fenced: bool = Bool("2+")

    throttle_time_ms: int = Int32()
    error_code: int = Int16()
    error_message: str | None = String(null=True, default=None)
    endpoint_type: int = Int8("1+", default=1)
    cluster_id: str = String()
    controller_id: int = Int32(default=-1, entity="brokerId")
    brokers: list[Broker] = Array(Broker)
    cluster_authorized_operations: int = Int32(default=-2147483648)
