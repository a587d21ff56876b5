"""The rules of the contract, asked about what the plugin's original wrote."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest
import s3fs

from support.samples import DATA, KEYS
from tieredfs import ObjectStore, RemoteStorageManager
from tieredfs.testing import RemoteStorageTests, state_machine_test
from tieredfs_aiven import Aiven


class TestPlain(RemoteStorageTests):
    variant: ClassVar[str] = "plain"
    keys: ClassVar[tuple[str, ...]] = ("",)  # what they begin with

    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        if not next(store.list(), None):
            samples = ObjectStore(str(DATA / self.variant / "objects"))
            for key in (entry.key for entry in samples.list()):
                if key.startswith(self.keys):
                    store.put(key, samples.get(key), overwrite=True)
        return Aiven(store, encryption_keys=KEYS)


class TestCompressedAndEncrypted(TestPlain):
    variant = "zstd-encrypted"


@pytest.fixture(scope="module")
def bucket(s3: dict[str, object]) -> ObjectStore:
    """A bucket for all rules: a layout that is read only leaves it as it is."""
    s3fs.S3FileSystem(skip_instance_cache=True, **s3).mkdir("rules")
    return ObjectStore("s3://rules", s3)


class TestCompressedAndEncryptedInS3(TestCompressedAndEncrypted):
    keys = ("cluster-1/one-batch_topic-", "cluster-1/plain-")  # a server is slow

    @pytest.fixture
    def tieredfs_store(self, bucket: ObjectStore) -> ObjectStore:
        """The bucket, which the first test fills."""
        return bucket


@contextmanager
def open_folder() -> Iterator[ObjectStore]:
    """Yield an empty local folder."""
    with TemporaryDirectory() as folder:
        yield ObjectStore(folder)


TestPlainMachine = state_machine_test(TestPlain, examples=10)
TestPlainMachineInAFolder = state_machine_test(
    TestPlain, open_store=open_folder, examples=5, steps=15
)
TestCompressedAndEncryptedMachine = state_machine_test(
    TestCompressedAndEncrypted, examples=3, steps=15
)
