"""The rules of the contract, in every way in which a segment can be stored."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
import s3fs

from support.samples import KEYS
from tieredfs import ObjectStore, RemoteStorageManager
from tieredfs.testing import RemoteStorageTests, state_machine_test
from tieredfs_aiven import Aiven

ENCRYPTED: Mapping[str, Any] = {"encryption_keys": KEYS, "encryption_key_id": "k1"}


class TestPlain(RemoteStorageTests):
    options: ClassVar[Mapping[str, Any]] = {"chunk_size": 200}

    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        return Aiven(store, **self.options)


class Compressed(TestPlain):
    options: ClassVar[Mapping[str, Any]] = {
        "chunk_size": 1000,
        "compression": "zstd",
        "key_prefix": "tier-",
    }


class Encrypted(TestPlain):
    options: ClassVar[Mapping[str, Any]] = {
        **ENCRYPTED,
        "custom_metadata": ["REMOTE_SIZE", "OBJECT_PREFIX"],
    }


class TestCompressedAndEncrypted(TestPlain):
    options: ClassVar[Mapping[str, Any]] = {
        **ENCRYPTED,
        "chunk_size": 700,
        "compression": "zstd",
        "key_prefix": "a/",
        "custom_metadata": ["REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY"],
    }


class InS3(TestCompressedAndEncrypted):
    @pytest.fixture
    def tieredfs_store(
        self, s3: dict[str, object], request: pytest.FixtureRequest
    ) -> ObjectStore:
        """A bucket for each rule."""
        bucket = request.node.name.replace("_", "-")[:60].strip("-")
        s3fs.S3FileSystem(skip_instance_cache=True, **s3).mkdir(bucket)
        return ObjectStore(f"s3://{bucket}", s3)


if os.environ.get("HYPOTHESIS_PROFILE") == "proofs":  # a quarter of an hour more

    class TestCompressed(Compressed):
        """Only compressed."""

    class TestEncrypted(Encrypted):
        """Only encrypted."""

    class TestCompressedAndEncryptedInS3(InS3):
        """Both, in a bucket."""


@contextmanager
def open_folder() -> Iterator[ObjectStore]:
    """Yield an empty local folder."""
    with TemporaryDirectory() as folder:
        yield ObjectStore(folder)


TestPlainMachine = state_machine_test(TestPlain, examples=10)
TestCompressedMachineInAFolder = state_machine_test(
    Compressed, open_store=open_folder, examples=5, steps=15
)
TestCompressedAndEncryptedMachine = state_machine_test(
    TestCompressedAndEncrypted, examples=5, steps=15
)
