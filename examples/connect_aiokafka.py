"""aiokafka in group `demo`: python examples/connect_aiokafka.py HOST:PORT."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer


async def main() -> None:
    options = {"bootstrap_servers": sys.argv[1], "group_id": "demo", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer("orders", **options) as consumer:
        async for record in consumer:
            print(record.partition, record.offset, record.value.decode(), flush=True)


asyncio.run(main())
