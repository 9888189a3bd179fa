"""A client in the simulation that pushes metrics, and changes the subscriptions of metrics (KIP-714)."""

from __future__ import annotations

from math import inf
from typing import Any
from uuid import UUID

from kwire import ErrorCode as E
from kwire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.messages.push_telemetry import PushTelemetryRequest
from mockbroker.lab.simulation.clients.operator import Operator
from mockbroker.lab.simulation.network import Wire

CLIENT_METRICS, SET = 16, 0
ZERO = UUID(int=0)
NO_COMPRESSION = 0
SLACK = 0.001  # seconds


class TelemetryClient(Operator):
    """The only client that pushes metrics and changes subscriptions.

    A broker forgets the client when the connection ends, or when a subscription changes.

    Attributes:
        instance: client instance id; ZERO before the first response.
        wire: connection to the broker that has answered the last request for the subscriptions; None without it.
        subscription: subscription id in this response.
        interval: push interval in this response, seconds.
        pushed: broker times between which the last push was accepted, seconds.
        is_first: whether no push was accepted since this response.
        is_over: whether the client has announced its last push.
    """

    def begin(self) -> None:
        super().begin()
        self.instance = ZERO
        self.wire: Wire | None = None
        self.subscription, self.interval = 0, inf
        self.pushed = -inf, -inf
        self.is_first, self.is_over = True, False

    def _time(self) -> float:
        return self.history.broker_time(self.queue.now)

    def lost(self, wire: Wire) -> None:
        if wire is self.wire:
            self.wire = None

    def operate(self, wire: Wire) -> None:
        if self.dice.chance(0.1):
            self._subscribe(wire)
        elif self.wire is None or self.dice.chance(0.15):
            self._get(wire)
        elif self.dice.chance(0.2):
            self._push_invalid(self.wire)
        else:
            self._push(self.wire)

    def _subscribe(self, wire: Wire) -> None:
        kind = IncrementalAlterConfigsRequest.Resource
        values = {"interval.ms": self.dice.pick(["1000", "3000"]), "metrics": self.dice.pick(["*", "org.apache."])}
        configs = [kind.Config(name=name, config_operation=SET, value=value) for name, value in values.items()]
        resource = kind(resource_type=CLIENT_METRICS, resource_name="simulated", configs=configs)
        self.wire = None

        def subscribed(answer: Any) -> None:
            self.expect("a subscription of metrics", answer.responses[0].error_code, [E.NONE])

        self.request(wire, IncrementalAlterConfigsRequest(resources=[resource]), 1, subscribed)

    def _get(self, wire: Wire) -> None:
        is_known = wire is self.wire

        def answered(answer: Any) -> None:
            self.expect("GetTelemetrySubscriptions", answer.error_code, [E.NONE, E.THROTTLING_QUOTA_EXCEEDED])
            if answer.error_code or not wire.open:
                return
            if is_known:
                self.expect("the subscription id", answer.subscription_id, [self.subscription])
            self.instance, self.subscription = answer.client_instance_id, answer.subscription_id
            self.wire, self.interval = wire, answer.push_interval_ms / 1000
            self.pushed, self.is_first, self.is_over = (-inf, -inf), True, False

        self.request(wire, GetTelemetrySubscriptionsRequest(client_instance_id=self.instance), 0, answered)

    def _possible(self, sent_at: float, done_at: float, error: E) -> list[E]:
        """Return the errors that are possible for a push.

        Args:
            sent_at: broker time of the request, seconds.
            done_at: broker time of the response, seconds.
            error: error of the push if it is not refused as too early; NONE for a valid push.
        """
        if self.is_over:
            return [E.INVALID_REQUEST]
        possible: list[E] = []
        if done_at - self.pushed[0] >= self.interval - SLACK:
            possible.append(error)
        if sent_at - self.pushed[1] < self.interval + SLACK:
            possible.append(E.THROTTLING_QUOTA_EXCEEDED)
        return possible

    def _push(self, wire: Wire) -> None:
        is_last = self.dice.chance(0.05)
        sent_at, is_first = self._time(), self.is_first

        def pushed(answer: Any) -> None:
            if wire is not self.wire:
                return
            error, done_at = answer.error_code, self._time()
            possible = [E.NONE] if (is_first or is_last) and not self.is_over else None
            if possible is None:
                possible = self._possible(sent_at, done_at, E.NONE)
            self.expect(f"PushTelemetry at {sent_at:.3f}-{done_at:.3f}, {self.pushed} before", error, possible)
            if not error:
                self.pushed, self.is_first, self.is_over = (sent_at, done_at), False, is_last

        request = PushTelemetryRequest(
            client_instance_id=self.instance,
            subscription_id=self.subscription,
            terminating=is_last,
            compression_type=NO_COMPRESSION,
            metrics=self.dice.pick([b"", b"metrics"]),
        )
        self.request(wire, request, 0, pushed)

    def _push_invalid(self, wire: Wire) -> None:
        """Push with a reserved instance id. Other invalid pushes count as pushes, and change the next error."""
        request = PushTelemetryRequest(client_instance_id=ZERO, metrics=b"metrics")
        self.request(
            wire,
            request,
            0,
            lambda answer: self.expect("a push without instance id", answer.error_code, [E.INVALID_REQUEST]),
        )
