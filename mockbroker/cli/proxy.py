"""The command ``mockbroker proxy``: forwards the connections of clients to a real cluster."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import click
import trio

from mockbroker.api.proxied_cluster import CAPABILITIES, ProxiedCluster, intercepted, observers
from mockbroker.base.errors import ConflictError, FaultRuleError
from mockbroker.base.settings import Settings, SettingsError
from mockbroker.cli.advertising import advertising_options, read_advertised
from mockbroker.cli.client_properties import LAST_PORT, addresses, read_credentials, tls_context
from mockbroker.cli.end_signals import end_signals
from mockbroker.cli.garbage_collection import limit_garbage_collection
from mockbroker.cli.http_address import HttpAddress, http_address
from mockbroker.cli.ready_file import check_ready_file, write_ready_file
from mockbroker.cli.recording import Recording, open_recording, recording_options
from mockbroker.cli.server_options import (
    EVENTS_IN_MEMORY,
    check_extra,
    control_api,
    faults_option,
    host_option,
    http_options,
    read_faults,
    ready_file_option,
    refused_faults,
)
from mockbroker.net.addresses import is_loopback, reachable
from mockbroker.net.clock import BrokerTime
from mockbroker.net.open_files import raise_open_files_limit
from mockbroker.net.tls import Tls
from mockbroker.proxy.addresses import Address, error_reason
from mockbroker.proxy.relay import Proxy
from mockbroker.proxy.upstream import Upstream


@click.command("proxy")
@click.option("--to", metavar="HOST:PORT,...", required=True, help="Addresses of brokers of the real cluster.")
@host_option
@click.option(
    "--port",
    type=click.IntRange(0, LAST_PORT),
    default=9092,
    show_default=True,
    help="Port that clients are configured with; each broker of the cluster has a free port. 0 picks a free port.",
)
@advertising_options
@click.option("--tls-to", is_flag=True, help="Use TLS for the connections to the cluster.")
@click.option(
    "--tls-to-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="CA certificates of the cluster, instead of those of this machine. Implies --tls-to.",
)
@click.option(
    "--tls-to-certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Key and certificate that the proxy presents to the cluster. Implies --tls-to.",
)
@click.option("--tls-to-unverified", is_flag=True, help="Accept any certificate of the cluster. Implies --tls-to.")
@click.option(
    "--sasl-to",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Log in to the cluster with the sasl.* properties of a Kafka client in this file, for all clients.",
)
@click.option(
    "--tls",
    metavar="auto|FILE",
    help="Use TLS for the connections of clients, with the key and certificate in this PEM file; auto creates "
    "certificates and prints their paths.",
)
@click.option(
    "--tls-client-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Require certificates of clients that are signed by these CA certificates. Needs --tls.",
)
@http_options
@faults_option
@recording_options
@ready_file_option
def command(
    to: str,
    host: str,
    port: int,
    advertise: tuple[str, ...],
    broker_ports: tuple[str, ...],
    tls_to: bool,
    tls_to_ca: Path | None,
    tls_to_certificate: Path | None,
    tls_to_unverified: bool,
    sasl_to: Path | None,
    tls: str | None,
    tls_client_ca: Path | None,
    http: str | None,
    http_hosts: tuple[str, ...],
    http_token_file: Path | None,
    faults_file: Path | None,
    record: str | None,
    record_size: float | None,
    record_time: float | None,
    record_config: Path | None,
    ready_file: Path | None,
) -> None:
    """Forward the connections of clients to a real cluster until SIGTERM, SIGINT or SIGHUP.

    The proxy has a separate address for each broker of the cluster. Prints "ready bootstrap.servers=HOST:PORT" when
    it accepts connections. SASL authentication is forwarded. The cluster may be started later.
    """
    check_ready_file(ready_file)
    for option, given in (("--tls-to-certificate", tls_to_certificate), ("--sasl-to", sasl_to)):
        if given is not None and not is_loopback(host) and tls_client_ca is None:
            raise click.UsageError(
                f"--host {host} with {option}: any client that reaches the proxy would act with the proxy's "
                "credentials; use a loopback address, or --tls with --tls-client-ca"
            )
    credentials = None if sasl_to is None else read_credentials("--sasl-to", sasl_to)
    advertised = read_advertised(advertise, broker_ports, reachable(host), port)
    certificates = _certificates(tls, tls_client_ca, advertised.hosts)
    upstream_tls = None
    if tls_to or tls_to_ca is not None or tls_to_certificate is not None or tls_to_unverified:
        upstream_tls = tls_context(tls_to_ca, tls_to_certificate, unverified=tls_to_unverified)
    upstream = Upstream(addresses(f"--to {to}", to), upstream_tls, credentials)
    faults = read_faults(faults_file)
    recording = open_recording(record, record_size, record_time, record_config, upstream)
    recorders = [] if recording is None else [recording.recorder]
    address = http_address(http, http_hosts, http_token_file)
    check_extra(address)
    try:
        proxy = Proxy(
            upstream,
            host,
            port,
            advertised,
            recorders,
            tls=None if certificates is None else certificates.context,
            open_files=raise_open_files_limit(),
        )
    except OSError as error:
        raise click.ClickException(f"cannot listen on {Address(host, port)}: {error_reason(error)}") from error
    limit_garbage_collection()
    try:
        trio.run(_serve, proxy, upstream, recording, ready_file, faults, address, certificates)
    except (FaultRuleError, ConflictError) as error:  # of --faults
        raise refused_faults(faults_file, error) from error
    finally:
        proxy.close()
        if certificates is not None:
            certificates.close()


async def _serve(
    proxy: Proxy,
    upstream: Upstream,
    recording: Recording | None,
    ready_file: Path | None,
    faults: Sequence[object],
    address: HttpAddress | None,
    certificates: Tls | None,
) -> None:
    listener, details = "PLAINTEXT" if certificates is None else "SSL", dict[str, object]()
    if certificates is not None and certificates.files.ca is not None:
        files = certificates.files
        details["tls"] = {"ca": str(files.ca), "client": str(files.client)}
        click.echo(f"CA certificate {files.ca}, key and certificate for clients {files.client}", err=True)
    cluster, settings = None, Settings.parse({})
    if faults or address is not None:
        proxy.interception = intercepted(settings, BrokerTime(), time.time(), listener)
        cluster = ProxiedCluster(proxy.interception, lambda: proxy.bootstrap)
        cluster.add_faults(faults)
    if proxy.interception is not None and address is not None:
        proxy.observers = [*proxy.observers, *observers(proxy.interception)]
        proxy.interception.router.journal.max_events = EVENTS_IN_MEMORY
    async with proxied_control_api(cluster, settings, address) as url:
        with trio.open_signal_receiver(*end_signals()) as signals:
            async with nullcontext() if recording is None else recording.running(), trio.open_nursery() as nursery:
                await nursery.start(proxy.run)
                write_ready_file(ready_file, {"bootstrap_servers": str(proxy.bootstrap), "http": url, **details})
                click.echo(f"ready bootstrap.servers={proxy.bootstrap}")
                nursery.start_soon(upstream.wait_reachable)
                await anext(signals)
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def proxied_control_api(
    cluster: ProxiedCluster | None, settings: Settings, address: HttpAddress | None
) -> AsyncIterator[str | None]:
    """Serve the control API of a proxy during an ``async with`` block, and yield its base URL.

    Args:
        cluster: The cluster behind the proxy, as the control API shows it; None without --http.
        settings: The broker settings that limit the control API.
        address: Address of the control API; None to serve no control API and yield None.
    """
    if cluster is None or address is None:
        yield None
        return
    async with control_api(cluster, settings, address, "proxy", CAPABILITIES) as url:
        yield url


def _certificates(tls: str | None, client_ca: Path | None, hosts: Sequence[str]) -> Tls | None:
    """Return the certificates that the proxy uses for the connections of clients; None without --tls.

    Args:
        tls: Value of --tls; None if it was not given.
        client_ca: Value of --tls-client-ca; None if it was not given.
        hosts: Hosts that clients connect to. A generated certificate contains these hosts.

    Raises:
        click.UsageError: The certificates cannot be used.
    """
    if tls is None:
        if client_ca is not None:
            raise click.UsageError("--tls-client-ca has no effect without --tls: add --tls")
        return None
    settings = {} if tls == "auto" else {"ssl.keystore.location": tls, "ssl.keystore.type": "PEM"}
    if client_ca is not None:
        settings |= {
            "ssl.truststore.location": str(client_ca),
            "ssl.truststore.type": "PEM",
            "ssl.client.auth": "required",
        }
    try:
        return Tls(Settings.parse(settings), *hosts)
    except SettingsError as error:
        name, _, reason = str(error).partition(": ")
        option = f"--tls-client-ca {client_ca}" if name.startswith("ssl.truststore") else f"--tls {tls}"
        raise click.UsageError(f"{option}: {reason}") from error
