"""Kafka's wire protocol: every message in every version, from one declaration each.

``decode_request`` and ``decode_response`` decode frames (without the length prefix), ``encode_request`` and
``encode_response`` encode them; ``decode`` and ``encode`` handle bodies alone. ``APIS`` maps each API key to its
``Api``, which contains the message classes.
"""

from kwire.lazy import lazy_names

__version__ = "0.2.0"
__getattr__, __dir__ = lazy_names(globals())
