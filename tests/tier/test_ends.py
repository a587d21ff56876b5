"""A program that reads a tier ends although its store hangs."""

import signal
import threading
from pathlib import Path

import pytest

from servers import Bucket, ProxiedBucket, Request
from support.blocked_program import IN_A_THREAD, NEVER, end_of, line_of, start_program
from support.kafka_data import REMOTE
from support.stores import files_of, fill, open_store

TIER = """
import os, threading
from tieredfs import Tier, open_storage
from tieredfs.cache import with_index_cache
storage = open_storage(store)
tier = Tier(with_index_cache(storage, os.environ["CACHE"]))
topic = tier.topic("two-partitions")
def read():
    for _ in topic.scan(start="2023-11-20T22:13:21Z"):
        pass
"""

INTERRUPTED = (
    TIER
    + """
print("reading")
try:
    with tier:
        read()
except KeyboardInterrupt:
    print("ended")
"""
)

CLOSED = (
    TIER
    + """
print("reading")
threading.Thread(target=read, daemon=True).start()
sys.stdin.readline()
tier.close()
print("ended")
"""
)


@pytest.mark.parametrize("where", [r"\.index", r"\.log"])
@pytest.mark.parametrize(
    "program",
    [INTERRUPTED, IN_A_THREAD + INTERRUPTED, CLOSED],
    ids=["Ctrl-C", "Ctrl-C in a thread", "close"],
)
def test_a_program_that_reads_ends_while_its_store_hangs(
    program: str,
    where: str,
    s3_proxied: ProxiedBucket,
    data: Path,
    tmp_path: Path,
) -> None:
    place = Bucket(s3_proxied.url, s3_proxied.storage_options)
    fill(open_store(place), files_of(data / "kafka" / "two-partitions" / REMOTE))
    asked = threading.Semaphore(0)

    def ask(_: Request) -> bool:
        asked.release()
        return True

    s3_proxied.proxy.add("GET", where, when=ask, hang=NEVER)
    env = {"CACHE": str(tmp_path / "cache")}
    with start_program(program, *place, env=env) as process:
        try:
            assert line_of(process) == "reading"
            assert asked.acquire(timeout=60)
            if program is not CLOSED:
                process.send_signal(signal.SIGINT)
            else:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
            assert line_of(process) == "ended"
            assert end_of(process)[0] == 0
        finally:
            process.kill()
