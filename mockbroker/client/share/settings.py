"""The settings of a share consumer, with Kafka's names and defaults; durations are in seconds.

Source: org.apache.kafka.clients.consumer.ShareConsumerConfig.
"""

from __future__ import annotations

from typing import Literal

from kwire.lazy_dataclass import dataclass
from mockbroker.client.settings import ClientSettings

IMPLICIT, EXPLICIT = "implicit", "explicit"  # acknowledgement modes
BATCH_OPTIMIZED, RECORD_LIMIT = "batch_optimized", "record_limit"  # acquire modes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings(ClientSettings):
    """The settings of a share consumer, by Kafka's names with ``_`` for the dots and without ``_ms``.

    Attributes:
        share_acknowledgement_mode: ``implicit``: a poll accepts the records of the poll before it; ``explicit``: each
            record must be acknowledged before the next poll.
        share_acquire_mode: ``record_limit``: a poll returns at most ``max_poll_records``; ``batch_optimized``: it may
            return more, up to the end of a record batch.
    """

    client_id: str | None = "mockbroker-share-consumer"
    share_acknowledgement_mode: Literal["implicit", "explicit"] = "implicit"
    share_acquire_mode: Literal["batch_optimized", "record_limit"] = "batch_optimized"

    def __post_init__(self) -> None:
        """Check the values of the settings.

        Raises: ValueError for an invalid value; TypeError for a value of the wrong type.
        """
        super(ShareSettings, self).__post_init__()  # noqa: UP008 - slots
        if self.share_acknowledgement_mode not in (IMPLICIT, EXPLICIT):
            raise ValueError(
                f"share_acknowledgement_mode is {self.share_acknowledgement_mode!r}: use implicit or explicit"
            )
        if self.share_acquire_mode not in (BATCH_OPTIMIZED, RECORD_LIMIT):
            raise ValueError(f"share_acquire_mode is {self.share_acquire_mode!r}: use batch_optimized or record_limit")
