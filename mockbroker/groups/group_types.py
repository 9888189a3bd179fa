"""The table of all group types, and of the conversions between them."""

from __future__ import annotations

from mockbroker.groups.classic.group_type import CLASSIC_TYPE
from mockbroker.groups.classic.state import CLASSIC
from mockbroker.groups.consumer.group_type import CONSUMER_TYPE
from mockbroker.groups.consumer.state import CONSUMER
from mockbroker.groups.group_type import GroupTypes
from mockbroker.groups.migration import convert, mixed
from mockbroker.groups.share.group_type import SHARE_TYPE
from mockbroker.groups.streams.group_type import STREAMS_TYPE

GROUP_TYPES = GroupTypes(
    [CLASSIC_TYPE, CONSUMER_TYPE, SHARE_TYPE, STREAMS_TYPE],
    cross_type_handlers={
        (CLASSIC, CONSUMER): convert.upgrade,
        (CONSUMER, CLASSIC): mixed.receive,
    },
    conversions={CONSUMER: convert.downgrade_without},
)
