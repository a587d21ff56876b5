"""moto, whose conditional writes look and write in one step.

AWS decides who was first; moto 5.2 looks whether there is an object and then writes
one, and another thread may do the same in between.
"""

from threading import RLock
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

_TURN = RLock()


def _take_turns(name: str) -> None:
    write = getattr(S3Response, name)

    def take_turn(*args: Any, **options: Any) -> object:  # noqa: ANN401 - moto's own
        with _TURN:
            return write(*args, **options)

    setattr(S3Response, name, take_turn)


for _name in ("put_object", "_key_response_post"):
    _take_turns(_name)
main()
