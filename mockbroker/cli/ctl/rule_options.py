"""The options of ``mockbroker ctl faults add``: one option for each key of a fault rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

import click

from kwire.completion import api_names, complete, error_names
from mockbroker.cli import completion
from mockbroker.cli.tables import escape

F = TypeVar("F", bound=Callable[..., Any])
ALWAYS = "always"
DIGITS = 18  # maximum digits of a number


def _json(_: click.Context, param: click.Parameter, value: str | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"the value is not valid JSON: {error}", param=param) from error


def _times(_: click.Context, param: click.Parameter, value: str | None) -> str | int | None:
    if value is None or value == ALWAYS:
        return value
    if not (value.isascii() and value.isdecimal() and len(value) <= DIGITS):
        raise click.BadParameter(
            f"{escape(value)} is not valid: expected a number of requests, or {ALWAYS}", param=param
        )
    return int(value)


TEXTS = {  # options that are texts, with their help
    "name": "Name of the rule; generated if absent.",
    "version": 'API versions, such as "5-8".',
    "listener": "Name of the listener.",
    "client_id": "Client id; this and other names may have the wildcards * and ?.",
    "group": "Group id.",
    "member_id": "Member id.",
    "instance_id": "The group.instance.id.",
    "topic": "Name of the topic.",
    "transactional_id": "The transactional.id.",
    "principal": "Principal of the connection, such as User:alice.",
    "where": "Expression over the fields of the request, as in kwire capture --where.",
    "on": "connect: the rule is about new connections.",
    "address": "Address of the client, with --on connect.",
    "error": "Action: the error that matching elements get, such as REBALANCE_IN_PROGRESS.",
    "when": "before or after the request is processed, for a delay, a hold or --no-response.",
    "disconnect": "Action: close the connection before, after or mid-response.",
    "of": "response or request, which --bytes-per-second limits.",
    "malform": "Action: form of malformed response.",
}
COMPLETED = {"error": complete(error_names), "topic": completion.topics, "group": completion.groups}
NUMBERS = {
    "broker": "Id of the broker.",
    "partition": "Index of the partition.",
    "skip": "The first matching requests are passed on.",
    "every": "After --skip: apply to the first matching request, then to every n-th one.",
    "seed": "Seed of the random numbers.",
    "delay_ms": "Action, alone or beside another: delay in milliseconds of the broker's clock.",
    "jitter_ms": "Upper bound of random milliseconds that are added to the delay.",
    "bytes": "Bytes of the response that are sent first, with --disconnect mid-response.",
    "throttle_ms": "Action: throttle time of the response.",
    "bytes_per_second": "Action: rate at which the response is sent, or the request is read.",
}
FLAGS = {
    "hold": "Action: hold the request until it is released.",
    "no_response": "Action: send nothing further on the connection.",
    "evict": "Action: evict the member that has sent the request.",
    "fail_tls": "Action: break off the TLS handshake, with --on connect.",
    "reset": "Close the connection by a TCP reset.",
}
CONDITIONS = ("client_id", "group", "member_id", "instance_id", "topic", "partition", "transactional_id", "principal")
ORDER = (  # of the help
    *("name", "api", "version", "broker", "listener", *CONDITIONS, "where", "on", "address"),
    *("skip", "every", "probability", "seed", "times"),
    *("error", "delay_ms", "jitter_ms", "when", "disconnect", "bytes", "reset", "hold", "no_response", "throttle_ms"),
    *("respond", "bytes_per_second", "of", "malform", "parameters", "evict", "fail_tls"),
)


def _option(name: str) -> Callable[[F], F]:
    flag = f"--{name.replace('_', '-')}"
    if name in FLAGS:
        return click.option(flag, name, is_flag=True, default=None, help=FLAGS[name])
    if name in NUMBERS:
        return click.option(flag, name, type=int, help=NUMBERS[name])
    if name in TEXTS:
        return click.option(flag, name, help=TEXTS[name], shell_complete=COMPLETED.get(name))
    return OTHERS[name]


OTHERS: Mapping[str, Callable[[Any], Any]] = {
    "api": click.option(
        "--api",
        "api",
        multiple=True,
        shell_complete=complete(api_names),
        help="Name of an API, such as OffsetCommit. Repeatable.",
    ),
    "probability": click.option(
        "--probability", "probability", type=float, help="Probability that the rule applies, from 0 to 1."
    ),
    "times": click.option(
        "--times",
        "times",
        metavar="N|always",
        callback=_times,
        help="Number of requests that the rule applies to (default: 1).",
    ),
    "respond": click.option(
        "--respond", "respond", metavar="JSON", callback=_json, help="Action: body of the response."
    ),
    "parameters": click.option(
        "--parameter", "parameters", multiple=True, metavar="NAME=VALUE", help="Parameter of --malform. Repeatable."
    ),
}


def rule_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the keys of a fault rule to a command.

    The function of the command gets its argument ``options``: a dictionary of the given options. Its keys are names of
    keyword arguments of ``faults.add``.
    """

    @wraps(function)
    def with_options(*args: Any, **given: Any) -> Any:
        values = {name: given.pop(name) for name in ORDER}
        options = {name: value for name, value in values.items() if value is not None and value != ()}
        if "api" in options and len(options["api"]) == 1:
            options["api"] = options["api"][0]
        if "parameters" in options:
            options["parameters"] = dict(map(_parameter, options["parameters"]))
        return function(*args, options=options, **given)

    command: Callable[..., Any] = with_options
    for name in reversed(ORDER):
        command = _option(name)(command)
    return command


def _parameter(text: str) -> tuple[str, str | int]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--parameter {escape(text)}: expected NAME=VALUE")
    digits = value.removeprefix("-")
    return name, int(value) if digits.isascii() and digits.isdecimal() and len(digits) <= DIGITS else value
