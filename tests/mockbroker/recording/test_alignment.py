from __future__ import annotations

from random import Random

import pytest

from kwire.frames import pack
from mockbroker.recording.alignment import FrameAligner

FRAMES = [pack(bytes([number]) * size) for number, size in enumerate((4, 0, 300, 1, 7_000, 30))]


@pytest.mark.parametrize("seed", range(20))
def test_complete_frames_are_returned_in_pieces_of_any_size(seed: int) -> None:
    random, aligner, stream = Random(seed), FrameAligner(), b"".join(FRAMES)
    ends = {sum(map(len, FRAMES[:number])) for number in range(len(FRAMES) + 1)}
    at = returned = 0
    while at < len(stream):
        end = min(at + random.choice([1, 3, 50, 5_000]), len(stream))
        pieces = aligner.complete(1, True, stream[at:end], ends_frame=end in ends)
        at = end
        complete = max(each for each in ends if each <= at)
        assert b"".join(pieces) == stream[returned:complete]
        assert aligner.size == at - complete
        returned = complete


def test_directions_and_connections_do_not_mix() -> None:
    aligner, (frame, *_) = FrameAligner(), FRAMES
    for number, to_broker in ((1, True), (1, False), (2, True)):
        assert aligner.complete(number, to_broker, frame[:5], ends_frame=False) == []
    aligner.forget(1)
    assert aligner.size == 5
    assert b"".join(aligner.complete(2, True, frame[5:], ends_frame=True)) == frame
    assert b"".join(aligner.complete(1, True, frame, ends_frame=True)) == frame


def test_a_frame_in_tiny_pieces_takes_few_buffers() -> None:
    aligner, frame = FrameAligner(), pack(bytes(100_000))
    for at in range(0, len(frame) - 2, 2):
        assert aligner.complete(1, True, frame[at : at + 2], ends_frame=False) == []
    buffers = aligner.complete(1, True, frame[-2:], ends_frame=False)
    assert b"".join(buffers) == frame
    assert len(buffers) < 40
