"""A broker's log directory that rclone has copied to a real S3 server."""

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from servers import Bucket, SeaweedS3
from servers.process import executable
from support.copied_logs import recorded_log
from support.golden import rows_of
from support.log_directories import recorded
from tieredfs import CorruptDataError, open_tier
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.objects import RequestCounter

_DEADLINE = 60


def copy_with_rclone(folder: Path, server: SeaweedS3, bucket: Bucket) -> str:
    """Copy a folder into a bucket as a backup job does, and return its URL."""
    options = server.storage_options()
    remote = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ACCESS_KEY_ID": options["key"],
        "SECRET_ACCESS_KEY": options["secret"],
        "ENDPOINT": options["endpoint_url"],
        "REGION": options["config_kwargs"]["region_name"],
        "FORCE_PATH_STYLE": "true",
        "NO_CHECK_BUCKET": "true",
    }
    told = {f"RCLONE_CONFIG_THERE_{name}": value for name, value in remote.items()}
    target = f"there:{urlsplit(bucket.url).netloc}/backup/kafka"
    subprocess.run(  # noqa: S603 - our own arguments
        [executable("rclone"), "--config=/dev/null", "copy", str(folder), target],
        env={**os.environ, **told},
        check=True,
        timeout=_DEADLINE,
        capture_output=True,
    )
    return f"{bucket.url}/backup/kafka"


@pytest.mark.parametrize("name", ["epochs", "compacted"])
def test_a_directory_that_rclone_has_copied_is_read_as_the_broker_wrote_it(
    tmp_path: Path, s3_server: SeaweedS3, s3_bucket: Bucket, name: str
) -> None:
    root = recorded(name, tmp_path / "logs")
    (root / "meta.properties").write_text("version=1\n")
    (root / ".DS_Store").touch()
    url = copy_with_rclone(root, s3_server, s3_bucket)
    tier = open_tier(url, storage_options=s3_bucket.storage_options)
    assert tier.topics() == [name]
    log = recorded_log(name)
    found = rows_of(tier.topic(name).scan().to_table())
    assert found == [log.rows[offset] for offset in sorted(log.rows)]
    storage = tier.storage
    (report,) = verify(storage, storage.list_partitions(), Depth.EVERYTHING)
    assert report.problems == ()


def test_a_later_copy_of_some_files_is_seen_and_a_cut_one_is_named(
    tmp_path: Path, s3_server: SeaweedS3, s3_bucket: Bucket
) -> None:
    root = recorded("epochs", tmp_path / "logs")
    cut = root / "epochs-0" / f"{200:020d}.log"
    whole = cut.read_bytes()
    cut.chmod(0o644)
    cut.write_bytes(whole[: len(whole) // 3])
    url = copy_with_rclone(root, s3_server, s3_bucket)
    topic = open_tier(url, storage_options=s3_bucket.storage_options).topic("epochs")
    with pytest.raises(CorruptDataError, match=cut.stem):
        topic.scan().to_table()
    left = topic.scan(on_gap="skip").to_table()["offset"].to_pylist()
    assert left[:200] + left[-200:] == [*range(200), *range(400, 600)]
    cut.write_bytes(whole)
    copy_with_rclone(root, s3_server, s3_bucket)
    assert topic.scan().to_table().num_rows == 600


def test_few_requests_read_it(
    tmp_path: Path, s3_server: SeaweedS3, s3_bucket: Bucket
) -> None:
    url = copy_with_rclone(recorded("epochs", tmp_path / "l"), s3_server, s3_bucket)
    tier = open_tier(
        f"kafka-log+{url}", storage_options=s3_bucket.storage_options, cache_dir=None
    )
    counter = RequestCounter()
    storage = tier.storage.with_observer(counter)
    (partition,) = storage.list_partitions()
    segments = storage.list_segments(partition)
    assert len(segments) == 4
    assert counter.by_verb() == {"list": 3, "get": 3}
