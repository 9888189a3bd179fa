"""A stream that kills its own process at a fault point: a call of a function that changes files.

    python faulty_stream.py INPUT OUTPUT FUNCTION before|after CALL FORMAT

CALL is the number of the call, from 1; with 0 the stream runs to its end.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from typing import Any

from kwire.spark import delta, parts, stream
from kwire.spark.output import Output
from kwire.spark.session import session
from kwire.spark.stream import Stream

OWNERS = {
    "of_buckets": stream,
    "write_update": stream,
    "_delete_stale": parts,
    "overwrite": delta,
    "replace": delta,
    "put": Output,
    "_save_summary": Stream,
    "_renew": Stream,
}


def main() -> None:
    """Run the stream of the arguments."""
    source, place, name, when, call, form = sys.argv[1:]
    if int(call):
        set_fault(OWNERS[name], name, when, int(call))
    followed = Stream([source], Output(place, form), "c", settle=0.0, files=1)
    spark = session("local[2]")
    followed.start(spark, once=True).awaitTermination()
    followed.finish(spark)


def set_fault(owner: Any, name: str, when: str, call: int) -> None:
    """Replace a function by one that kills the process at a call."""
    function, numbers = getattr(owner, name), count(1)

    def faulty(*arguments: Any, **more: Any) -> Any:
        number = next(numbers)
        if number == call and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **more)
        if number == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, faulty)


if __name__ == "__main__":
    main()
