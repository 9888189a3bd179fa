"""The event stream of the live page: first the document, then merge patches (RFC 7396)."""

from __future__ import annotations

from mockbroker.control.control import Control
from mockbroker.control.streams import Stream

MOST_PATCHES = 20  # sent together; a client that lacks more gets the document again, which is shorter


class StateStream(Stream):
    """The streamed response with the document of the live page and its patches. ``control``: the state of the control
    API.
    """

    def __init__(self, control: Control) -> None:
        super().__init__(control, control.state.followers)
        self._version = 0  # of the client's document; 0 if it has none

    @property
    def is_complete(self) -> bool:
        return self._version == self._control.state.version

    async def next_data(self) -> bytes:
        """Return the patches that the client does not have yet; b"" if it has all of them.

        Instead, return the whole document in the first call, and if the patches are no longer stored or are more than
        MOST_PATCHES.
        """
        state = self._control.state
        if self._version and self.is_complete:
            return b""
        patches = state.patches_since(self._version) if self._version else None
        if patches is None or len(patches) > MOST_PATCHES:
            self._version, data = await state.encoded(fresh=False)
            return b"event: state\ndata: " + data + b"\n\n"
        self._version = state.version
        return b"".join(b"event: patch\ndata: " + each + b"\n\n" for each in patches)
