"""A cluster in a trio program: three brokers, and the events of their groups."""

import trio

from mockbroker import open_cluster


async def main() -> None:
    async with open_cluster(brokers=3, topics={"orders": 6}) as cluster:
        print("clients connect to", cluster.bootstrap_servers)
        print("events so far:", len(cluster.events()))


if __name__ == "__main__":
    trio.run(main)
