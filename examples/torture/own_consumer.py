"""A consumer with mockbroker.consumer, for ``mockbroker torture -- python own_consumer.py``.

An argument sets the group protocol: classic or consumer.
"""

import os
import sys

import trio

from mockbroker.consumer import ConsumerError, open_consumer

protocol = sys.argv[1] if len(sys.argv) > 1 else "classic"
servers, topic = os.environ["MOCKBROKER_BOOTSTRAP_SERVERS"], os.environ["MOCKBROKER_TOPIC"]


async def main() -> None:
    while True:
        try:
            async with open_consumer(
                servers,
                group=os.environ["MOCKBROKER_GROUP"],
                topics=[topic],
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                group_protocol=protocol,
                session_timeout=6.0,
                heartbeat_interval=0.5,
                request_timeout=3.0,
                metadata_max_age=3.0,
                max_poll_interval=10.0,
            ) as consumer:
                while True:
                    if await consumer.poll(0.5):
                        await consumer.commit()
        except ConsumerError as error:
            print(f"{error!r}", flush=True)
            await trio.sleep(0.5)


trio.run(main)
