"""The option ``--interface``, with which commands read a network interface instead of files."""

from __future__ import annotations

import errno
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import click

from kwire.capture.files.packet_ring import ANY, PacketRing, interface_names, stopped_by_signals
from kwire.cli.lines import alone
from kwire.command import one_line

interface_option = click.option(
    "--interface",
    metavar="NAME",
    help=f"Read this network interface instead of files, until Ctrl-C; {ANY} for all. Linux only, for root or "
    "CAP_NET_RAW.",
)


@contextmanager
def opened_ring(paths: Collection[str], interface: str | None) -> Iterator[PacketRing | None]:
    """Open the network interface of the command line, for a ``with`` block. The value is None for files and stdin.

    Inside the block, the first Ctrl-C ends the input of an interface instead of ending the command. For stdin, the
    first Ctrl-C is ignored: the program that writes to stdin also gets Ctrl-C, and the input ends when this program
    ends. For files, Ctrl-C ends the command.

    Args:
        paths: paths on the command line.
        interface: value of ``--interface``; None without the option.

    Raises: click.UsageError for missing arguments, arguments that cannot be combined, or an unknown interface;
    click.ClickException if the interface cannot be read.
    """
    if interface is None:
        if not paths:
            raise click.UsageError("nothing to read: expected FILE, DIR, - for stdin, or --interface NAME")
        alone(paths)
        if "-" not in paths:
            yield None
            return
        with stopped_by_signals(lambda: None, [signal.SIGINT]):
            yield None
        return
    if paths:
        raise click.UsageError(f"--interface {one_line(interface)} cannot be combined with files or stdin")
    try:
        ring = PacketRing(interface)
    except OSError as error:
        raise _reported(interface, error) from error
    with ring, stopped_by_signals(ring.stop):
        yield ring


def _reported(interface: str, error: OSError) -> click.ClickException:
    """Return the exception for an interface that cannot be opened. Its message says what the user can do.

    Args:
        interface: name of the interface.
        error: error of the operating system.
    """
    name = one_line(interface)
    if error.errno in (errno.EPERM, errno.EACCES):
        return click.ClickException(
            f"no permission to read interface {name}: run as root, give the Python interpreter the capability "
            f"CAP_NET_RAW, or pipe tcpdump -i {name} -U -w - to this command with the argument -"
        )
    if error.errno == errno.ENODEV:
        known = ", ".join(map(one_line, [*interface_names(), ANY]))
        return click.UsageError(f"no network interface has the name {name} (interfaces: {known})")
    return click.ClickException(f"cannot read interface {name}: {error.strerror}")
