"""The option --demo of ``mockbroker serve``, which runs the clients of a demo against the cluster."""

from __future__ import annotations

from collections.abc import MutableMapping

import click

from kwire.lazy_dataclass import dataclass
from mockbroker.api.cluster import Cluster
from mockbroker.api.plan import MANUAL
from mockbroker.base.settings import Settings
from mockbroker.lab.live_demo import GROUP, MEMBERS, PARTITIONS, TOPIC, Pace, run_demo
from mockbroker.net.listeners import of_settings

INITIAL_DELAY = "group.initial.rebalance.delay.ms"
INITIAL_DELAY_MS = "500"  # instead of Kafka's 3 s, so that the page has members at once
COLUMN = 10  # characters of the first column


@dataclass(frozen=True, slots=True)
class Demo:
    """The clients that the option --demo runs.

    Attributes:
        listener: Name of the listener that the consumers of the demo connect to.
        partitions: Number of partitions of the topic that the demo uses.
    """

    listener: str
    partitions: int

    async def run(self, cluster: Cluster, release: str, data: str, url: str) -> None:
        """Print the address of the live page and a description of the demo, and run the demo until it is cancelled.

        Args:
            cluster: The cluster that the clients connect to.
            release: Name of the Kafka release that the cluster emulates.
            data: Description of where the cluster stores its data.
            url: URL of the control API.
        """
        pace = Pace()
        lines = {
            "live page": f"{url}/",
            "emulating": f"Kafka {release}, data {data}",
            "demo": f"topic {TOPIC} ({self.partitions} partitions), group {GROUP} with {MEMBERS} members, "
            f"rebalance every {pace.period:.0f} s",
        }
        for name, text in lines.items():
            click.echo(f"{name:<{COLUMN}} {text}", err=True)
        await run_demo(cluster, cluster.listeners[self.listener], self.partitions, pace)


def prepare(clock: str, settings: MutableMapping[str, str], topics: MutableMapping[str, int]) -> Demo:
    """Return the demo of the option --demo. Add the topic and the setting that the demo needs to ``topics`` and
    ``settings``.

    Args:
        clock: Value of --clock.
        settings: The broker settings; the function adds the initial rebalance delay if it is not set.
        topics: Number of partitions by topic name; the function adds the topic of the demo if it is not there.

    Raises:
        click.UsageError: The demo does not work with the given options.
    """
    if clock == MANUAL:
        raise click.UsageError("--demo: the consumers of the demo need a running clock: use --clock real")
    plain = [each.name for each in of_settings(Settings.parse(settings)) if not (each.tls or each.sasl)]
    if not plain:
        raise click.UsageError("--demo: the consumers of the demo use neither TLS nor SASL: add --listener PLAINTEXT")
    settings.setdefault(INITIAL_DELAY, INITIAL_DELAY_MS)
    return Demo(plain[0], topics.setdefault(TOPIC, PARTITIONS))
