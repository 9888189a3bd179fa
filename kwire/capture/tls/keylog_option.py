"""The option ``--keylog``, which commands use to decrypt TLS connections in captures."""

from __future__ import annotations

import click

from kwire.capture.tls.keylog import KeyLogError, KeyLogFile


def _opened(_context: click.Context, _option: click.Parameter, path: str | None) -> KeyLogFile | None:
    try:
        return None if path is None else KeyLogFile(path)
    except OSError as error:
        raise click.UsageError(f"--keylog: cannot read {path}: {error.strerror}") from error
    except KeyLogError as error:
        raise click.UsageError(f"--keylog: {error}") from error


keylog_option = click.option(
    "--keylog",
    metavar="FILE",
    callback=_opened,
    help="Decrypt TLS with the secrets in this file, which a client wrote to SSLKEYLOGFILE.",
)
