"""A client in trio: kwire's ClientSide encodes and decodes, a stream transports the bytes."""

import pytest
import trio

from kwire import ClientSide
from kwire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from mockbroker import ThreadCluster

LATEST = -1
Topic = ListOffsetsRequest.Topic


async def ask(stream: trio.SocketStream, side: ClientSide, body: object, version: int) -> object:
    """Send a request and return its response."""
    await stream.send_all(side.send(body, version))
    async for data in stream:
        side.receive(bytes(data))
        if response := side.next_response():
            return response.body
    raise ConnectionError("the broker closed the connection")


@pytest.mark.trio
@pytest.mark.kafka(topics={"orders": 1})
async def test_the_end_of_a_partition(kafka_cluster: ThreadCluster) -> None:
    kafka_cluster.produce("orders", ["tea", "milk"])
    node = kafka_cluster.nodes[0]
    async with await trio.open_tcp_stream(node.host, node.port) as stream:
        wanted = Topic(name="orders", partitions=[Topic.Partition(partition_index=0, timestamp=LATEST)])
        answer = await ask(stream, ClientSide("mine"), ListOffsetsRequest(topics=[wanted]), 6)
    assert isinstance(answer, ListOffsetsResponse)
    assert answer.topics[0].partitions[0].offset == 2
    (request,) = kafka_cluster.requests("ListOffsets")
    assert (request.client_id, request.body.topics) == ("mine", [wanted])
