from tieredfs.testing import RemoteStorageTests, state_machine_test
from tieredfs_zipped import ZipFiles


class TestZipFiles(RemoteStorageTests):
    def make_storage(self, store):
        return ZipFiles(store)


TestZipFilesMachine = state_machine_test(TestZipFiles)
