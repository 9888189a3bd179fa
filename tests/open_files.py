"""The open file descriptors of this process."""

import os
import time

SAMPLES, PAUSE = 10, 0.02  # seconds: other threads, such as librdkafka's, open sockets for a moment


def open_files() -> set[str]:
    """Return each open descriptor with what it refers to, as `7 socket:[1234]`."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except OSError:  # closed since the folder was listed, such as the descriptor of the listing itself
            continue
    return found


def opened_since(before: set[str], *, pipes: bool = False) -> set[str]:
    """Return the descriptors that are open now and were not in `before`, without those that another thread closes soon.

    ``pipes``: True to include pipes, which librdkafka's threads of earlier tests open at any time.
    """
    found = {each for each in open_files() - before if pipes or " pipe:" not in each}
    for _ in range(SAMPLES):
        if not found:
            break
        time.sleep(PAUSE)
        found &= open_files()
    return found
