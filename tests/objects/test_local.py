"""A local disk: paths, names of files, and versions."""

import ctypes
import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from objects.racing import race
from support.child_process import GIVE_UP_PRIVILEGES
from tieredfs import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RequestPolicy,
    StorageFullError,
    StorageUnavailableError,
    StoreCapability,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.objects.backends.local import nameless as local_nameless
from tieredfs.objects.backends.local import names as local_names

EXCLUSIVE = StoreCapability.EXCLUSIVE_CREATE


AT_FDCWD, EXCHANGE = -100, 2  # Linux's


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two names")
class TestAFolderThatBecomesALink:
    """A folder and a link out of the root take turns under one name.

    Code that checks the folder first, and opens its items by name, leaves the root.
    """

    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        """A folder outside of the root, with files of the same names."""
        folder = tmp_path / "outside"
        folder.mkdir()
        (folder / "file").write_bytes(b"outside")
        (folder / f".{0:016x}.tieredfs-tmp").touch()
        return folder

    @pytest.fixture
    def flipping(self, tmp_path: Path, outside: Path) -> Iterator[ObjectStore]:
        """A store in which ``folder`` is one, then a link, then a folder again."""
        root = tmp_path / "root"
        (root / "folder").mkdir(parents=True)
        (root / "folder" / "file").write_bytes(b"inside!")
        (tmp_path / "link").symlink_to(outside)
        done = threading.Event()
        names = os.fsencode(root / "folder"), os.fsencode(tmp_path / "link")

        def flip() -> None:
            exchange = ctypes.CDLL(None, use_errno=True).renameat2
            while not done.is_set():
                assert not exchange(AT_FDCWD, names[0], AT_FDCWD, names[1], EXCHANGE)

        with ThreadPoolExecutor(1) as pool:
            flips = pool.submit(flip)
            try:
                yield ObjectStore(str(root))
            finally:
                done.set()
                flips.result()

    def test_nothing_is_read_or_listed_through_it(
        self, flipping: ObjectStore, outside: Path
    ) -> None:
        size = len(b"inside!")
        outside.joinpath("other").touch()
        assert len((outside / "file").read_bytes()) == size
        number = str((outside / "file").stat().st_ino)
        for _ in range(400):
            try:
                assert flipping.get("folder/file") == b"inside!"
                assert flipping.get_range("folder/file", 0, size) == b"inside!"
                assert not flipping.head("folder/file").version.endswith(f"-{number}")
                found = [entry.key for entry in flipping.list("folder/")]
                assert found in ([], ["folder/file"])
            except NotFoundError:
                continue

    def test_nothing_is_changed_through_it(
        self, flipping: ObjectStore, outside: Path
    ) -> None:
        before = {path.name: path.stat().st_mtime_ns for path in outside.iterdir()}
        writes: tuple[Callable[[], None], ...] = (
            lambda: flipping.put("folder/file", b"inside!", overwrite=True),
            lambda: flipping.put("folder/new/file", b"1", overwrite=False),
            lambda: flipping.delete(["folder/file", "folder/new/file"]),
        )
        for _ in range(200):
            for write in writes:
                with suppress(TieredFSError):
                    write()
        now = {path.name: path.stat().st_mtime_ns for path in outside.iterdir()}
        assert now == before


class TestADeepKey:
    KEY = "a/" * 600 + "x"

    @pytest.fixture
    def deep(self, tmp_path: Path) -> Iterator[ObjectStore]:
        """A store with one object far below its root."""
        store = ObjectStore(str(tmp_path / "root"))
        store.put(self.KEY, b"1", overwrite=False)
        yield store
        subprocess.run(["/bin/rm", "-r", tmp_path / "root"], check=True)  # noqa: S603 - ours; pytest's removal recurses

    def test_is_an_object_like_any_other(self, deep: ObjectStore) -> None:
        assert deep.get(self.KEY) == b"1"
        assert deep.head(self.KEY).size == 1
        deep.copy(self.KEY, f"{self.KEY}y")
        deep.delete([self.KEY])
        assert [entry.key for entry in deep.list()] == [f"{self.KEY}y"]
        assert deep.abort_uploads() == []

    @pytest.mark.parametrize("delimiter", ["", "/"])
    def test_is_listed_in_one_step_a_folder(
        self, deep: ObjectStore, monkeypatch: pytest.MonkeyPatch, delimiter: str
    ) -> None:
        opened = 0
        plain = os.open

        def count(*arguments: object, **options: object) -> int:
            nonlocal opened
            opened += 1
            return plain(*arguments, **options)  # type: ignore[arg-type] # passed on

        monkeypatch.setattr(os, "open", count)
        found = [entry.key for entry in deep.list(delimiter=delimiter)]
        assert found == (["a/"] if delimiter else [self.KEY])
        assert opened < 2 * 600


class TestANameThatIsTooLong:
    KEYS = ("x" * 256, "ä" * 128, f"a/{'x' * 300}/b")

    @pytest.mark.parametrize("key", KEYS)
    def test_is_not_there(self, tmp_path: Path, key: str) -> None:
        store = ObjectStore(str(tmp_path))
        store.put("a/b", b"1", overwrite=True)
        for read in (store.get, store.head, lambda key: store.get_range(key, 0, 1)):
            with pytest.raises(NotFoundError):
                read(key)
        with pytest.raises(NotFoundError):
            store.copy(key, "copy")
        store.delete([key])
        assert list(store.list(f"{key}/")) == []
        assert list(store.list(f"{key}/", delimiter="/")) == []

    @pytest.mark.parametrize("overwrite", [False, True])
    @pytest.mark.parametrize("key", KEYS)
    def test_cannot_be_written(self, tmp_path: Path, key: str, overwrite: bool) -> None:
        store = ObjectStore(str(tmp_path))
        store.put("a/b", b"1", overwrite=True)
        longest = max(len(name.encode()) for name in key.split("/"))
        with pytest.raises(InvalidArgumentError, match=f"a name of {longest} bytes"):
            store.put(key, b"1", overwrite=overwrite)
        with pytest.raises(InvalidArgumentError, match=f"a name of {longest} bytes"):
            store.copy("a/b", key)
        assert [path.name for path in tmp_path.rglob("*")] == ["a", "b"]


def test_a_socket_is_not_an_object(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path))
    folder = os.open(tmp_path, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as bound:
        # Its path may have a hundred bytes.
        bound.bind(f"/proc/self/fd/{folder}/key")
    os.close(folder)
    for read in (store.get, store.head, lambda key: store.get_range(key, 0, 1)):
        with pytest.raises(NotFoundError):
            read("key")
    assert list(store.list()) == []


def test_a_file_that_cannot_be_looked_at_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of NFS that is gone from the server."""
    store = ObjectStore(str(tmp_path), policy=RequestPolicy(attempts=1))
    store.put("key", b"1", overwrite=False)
    opened = []
    plain = os.fstat

    def fail(descriptor: int) -> os.stat_result:
        opened.append(descriptor)
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    for call in (
        lambda: store.get("key"),
        lambda: store.get_range("key", 0, 1),
        lambda: store.put_file("copy", tmp_path / "key", overwrite=True),
    ):
        opened.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fstat", fail)
            with suppress(TieredFSError, OSError):
                call()
        assert opened
        with pytest.raises(OSError, match="Bad file descriptor"):
            plain(opened[0])


@pytest.mark.parametrize(
    ("raised", "error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left"), StorageFullError, "the store is full"),
        (OSError(errno.EDQUOT, "Disk quota"), StorageFullError, "the store is full"),
        (
            OSError(errno.EFBIG, "File too large"),
            UnsupportedOperationError,
            "too large",
        ),
        (OSError(errno.EINVAL, "Invalid"), InvalidArgumentError, "Invalid"),
        (MemoryError("no"), MemoryError, "no"),
        (RecursionError("deep"), RecursionError, "deep"),
        (ValueError("a mistake"), ValueError, "a mistake"),
    ],
    ids=repr,
)
def test_a_permanent_failure_is_raised_immediately_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    raised: Exception,
    error: type[Exception],
    said: str,
) -> None:
    store = ObjectStore(str(tmp_path))
    assert EXCLUSIVE in store.probe_capabilities()
    tries = []

    def fail(descriptor: int) -> None:
        tries.append(descriptor)
        raise type(raised)(*raised.args)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(error, match=said) as caught:
            store.put("key", b"1", overwrite=False)
    assert type(caught.value) is error
    assert len(tries) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_error_that_each_try_raises_anew_ends_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raised by a second try, it is among its own causes."""
    store = ObjectStore(str(tmp_path), policy=RequestPolicy(backoff=0.001))
    assert EXCLUSIVE in store.probe_capabilities()
    tries = []
    same = OSError(errno.EIO, "Input/output error")

    def fail(descriptor: int) -> None:
        tries.append(descriptor)
        raise same

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StorageUnavailableError, match="Input/output error"):
            store.put("key", b"1", overwrite=True)
    assert len(tries) == 5


def mode_of(path: Path) -> int:
    """Return who may do what with a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_an_overwrite_keeps_the_mode_of_a_file(tmp_path: Path, mode: int) -> None:
    store = ObjectStore(str(tmp_path))
    store.put("key", b"1", overwrite=True)
    (tmp_path / "key").chmod(mode)
    store.put("key", b"2", overwrite=True)
    assert mode_of(tmp_path / "key") == mode
    store.copy("key", "other")
    store.copy("other", "key")
    assert mode_of(tmp_path / "key") == mode


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_the_mode_of_a_new_file_follows_the_umask(tmp_path: Path, umask: int) -> None:
    program = (
        f"import os, sys, tieredfs; os.umask({umask})\n"
        "store = tieredfs.ObjectStore(sys.argv[1])\n"
        "store.put('a', b'1', overwrite=True)\n"
        "store.put('b', b'1', overwrite=False)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)  # noqa: S603 - our own interpreter
    assert {mode_of(path) for path in tmp_path.iterdir()} == {0o666 & ~umask}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_overwrite_keeps_the_owner_of_a_file(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path))
    store.put("key", b"1", overwrite=True)
    os.chown(tmp_path / "key", 1234, 2345)
    (tmp_path / "key").chmod(0o640)
    store.put("key", b"2", overwrite=True)
    found = (tmp_path / "key").stat()
    assert (found.st_uid, found.st_gid) == (1234, 2345)
    assert mode_of(tmp_path / "key") == 0o640
    program = (
        f"{GIVE_UP_PRIVILEGES}\nimport sys, tieredfs\n"
        "tieredfs.ObjectStore(sys.argv[1]).put('key', b'3', overwrite=True)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)  # noqa: S603 - our own interpreter
    assert store.get("key") == b"3"
    assert mode_of(tmp_path / "key") == 0o640


def test_a_folder_that_may_not_be_read_is_refused_before_anything_is_put(
    tmp_path: Path,
) -> None:
    program = (
        f"{GIVE_UP_PRIVILEGES}\nimport sys, tieredfs\n"
        "store = tieredfs.ObjectStore(sys.argv[1])\n"
        "for key in ('put', 'create', 'folder/put', 'folder/create'):\n"
        "    try:\n"
        "        store.put(key, b'1', overwrite='put' in key)\n"
        "    except tieredfs.PermissionDeniedError as error:\n"
        "        assert 'cannot be synced' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError(key)\n"
    )
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    root.chmod(0o333)
    try:
        subprocess.run([sys.executable, "-c", program, str(root)], check=True)  # noqa: S603 - our own interpreter
    finally:
        root.chmod(0o700)
    assert list(root.iterdir()) == []


@pytest.fixture(params=[True, False], ids=["nameless", "named"])
def nameless(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the disk has files without a name, to be written and then linked."""
    is_there: bool = request.param
    monkeypatch.setattr(local_nameless, "_can", {})
    if not is_there:
        monkeypatch.setattr(local_nameless, "_FLAG", 0)
    return is_there


def is_new(flags: int) -> bool:
    """Return whether flags of `open` create a file."""
    return bool(flags & os.O_CREAT) or flags & os.O_TMPFILE == os.O_TMPFILE


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_put_leaves_one_file_with_what_was_put(
    tmp_path: Path, nameless: bool, overwrite: bool
) -> None:
    store = ObjectStore(str(tmp_path))
    store.put("a", b"1", overwrite=overwrite)
    if overwrite:
        store.put("a", b"2", overwrite=True)
    else:
        with pytest.raises(AlreadyExistsError):
            store.put("a", b"2", overwrite=False)
    assert store.get("a") == (b"2" if overwrite else b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert local_nameless._can == {tmp_path.stat().st_dev: nameless}


@pytest.mark.usefixtures("nameless")
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_folder_that_is_removed_while_something_is_put_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    policy = RequestPolicy(attempts=3, backoff=0.001)
    store = ObjectStore(str(tmp_path / "root"), policy=policy)
    plain = os.open
    removals = [tmp_path / "root" / "folder"] * 2

    def remove(
        path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if is_new(flags) and removals:
            removals.pop().rmdir()
        return plain(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", remove)
    store.put("folder/key", b"1", overwrite=overwrite)
    assert not removals
    assert store.get("folder/key") == b"1"


class TestVersions:
    @pytest.fixture(params=[1, 1_000, 10_000_000, 1_000_000_000, 2_000_000_000])
    def coarse(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A clock that stands still, on a disk that keeps times so coarsely."""
        step: int = request.param
        now = 1_795_346_323_895_989_664
        keep, sync = os.utime, os.fsync
        stamped = set()

        def truncate(descriptor: int, *, ns: tuple[int, int]) -> None:
            stamped.add(descriptor)
            keep(descriptor, ns=(ns[0] // step * step, ns[1] // step * step))

        def keep_time(descriptor: int) -> None:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if is_file and descriptor not in stamped:
                truncate(descriptor, ns=(now, now))
            stamped.discard(descriptor)
            sync(descriptor)

        monkeypatch.setattr(os, "utime", truncate)
        monkeypatch.setattr(os, "fsync", keep_time)
        monkeypatch.setattr("time.time_ns", lambda: now)

    @pytest.mark.usefixtures("coarse")
    def test_no_two_contents_have_one_time(self, tmp_path: Path) -> None:
        store = ObjectStore(str(tmp_path))
        seen = []
        for number in range(10):
            store.put("key", b"%d" % number, overwrite=True)
            seen.append((tmp_path / "key").stat().st_mtime_ns)
            if number % 2:
                ObjectStore(str(tmp_path)).delete(["key"])
            elif number % 3:
                store.copy("key", "other")
                store.copy("other", "key")
                seen.append((tmp_path / "key").stat().st_mtime_ns)
        assert seen == sorted(set(seen))

    def test_a_file_that_is_not_changed_keeps_its_version(self, tmp_path: Path) -> None:
        store = ObjectStore(str(tmp_path))
        store.put("key", b"1", overwrite=False)
        version = store.head("key").version
        assert [entry.version for entry in store.list()] == [version]
        program = (
            "import sys, tieredfs\n"
            "print(tieredfs.ObjectStore(sys.argv[1]).head('key').version)\n"
        )
        command = [sys.executable, "-c", program, str(tmp_path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own interpreter
        assert done.stdout.strip() == version
        assert bytes(store.get("key")) == b"1"
        store.copy("key", "other")
        assert store.head("key").version == version

    @pytest.mark.parametrize("name", ["EPERM", "ENOSYS", "EOPNOTSUPP"])
    def test_a_disk_without_times_of_ones_own_can_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        def refuse(descriptor: int, **times: object) -> None:
            del descriptor, times
            raise OSError(getattr(errno, name), name)

        monkeypatch.setattr(os, "utime", refuse)
        store = ObjectStore(str(tmp_path))
        store.put("key", b"1", overwrite=False)
        store.put("key", b"2", overwrite=True)
        store.copy("key", "copy")
        store.delete(["key"])
        store.put("key", b"3", overwrite=True)
        assert [store.get("key"), store.get("copy")] == [b"3", b"2"]

    def test_a_file_in_place_of_another_is_seen(self, tmp_path: Path) -> None:
        """As a restored copy is: of the same size, and with the time of the old one."""
        store = ObjectStore(str(tmp_path))
        store.put("key", b"1", overwrite=False)
        before, found = store.head("key"), (tmp_path / "key").stat()
        (tmp_path / "restored").write_bytes(b"2")
        os.utime(tmp_path / "restored", ns=(found.st_atime_ns, found.st_mtime_ns))
        (tmp_path / "restored").replace(tmp_path / "key")
        assert store.head("key") != before


class TestADiskWithoutHardLinks:
    REFUSALS = ("EPERM", "EOPNOTSUPP", "ENOSYS", "EMLINK")

    @pytest.fixture(params=REFUSALS)
    def unlinked(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Links fail as on FAT, exFAT, SMB and many mounts; nothing is known yet."""
        number = getattr(errno, request.param)

        def refuse(*names: str, **folders: int) -> None:
            del names, folders
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "link", refuse)
        monkeypatch.setattr(local_names, "_ways", {})
        monkeypatch.setattr(local_nameless, "_can", {})

    @pytest.fixture
    def unnamed(self, unlinked: None, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nor is there a rename that does not replace."""
        del unlinked
        monkeypatch.setattr(local_names, "_renameat2", None)

    @pytest.mark.usefixtures("unlinked")
    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux renames so")
    def test_still_decides_which_writer_is_first(self, tmp_path: Path) -> None:
        store = ObjectStore(str(tmp_path))
        assert EXCLUSIVE in store.probe_capabilities()
        for number in range(5):
            (won,) = race(store, f"a/{number}", size=100)
            assert store.get(f"a/{number}") == won
        with pytest.raises(AlreadyExistsError):
            store.put("a/1", b"1", overwrite=False)
        assert {path.name for path in (tmp_path / "a").iterdir()} == set("01234")

    @pytest.mark.usefixtures("unnamed")
    def test_lacks_the_capability_when_there_is_no_other_way(
        self, tmp_path: Path
    ) -> None:
        store = ObjectStore(str(tmp_path))
        assert EXCLUSIVE not in store.probe_capabilities()
        with pytest.raises(
            UnsupportedOperationError, match=r"does not support exclusive create$"
        ):
            store.put("a", b"1", overwrite=False)
        store.put("a", b"1", overwrite=True)
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    @pytest.mark.usefixtures("unnamed")
    def test_is_found_out_by_the_first_put_where_nothing_could_be_tried(
        self, tmp_path: Path
    ) -> None:
        store = ObjectStore(str(tmp_path / "root"))
        assert EXCLUSIVE in store.probe_capabilities()
        with pytest.raises(UnsupportedOperationError, match="no hard links"):
            store.put("a", b"1", overwrite=False)
        assert EXCLUSIVE not in store.probe_capabilities()
        assert list((tmp_path / "root").iterdir()) == []

    def test_a_folder_that_refuses_new_files_does_not_decide_for_its_disk(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As one with the attribute of an immutable one, or in a sandbox."""
        plain = os.open
        (tmp_path / "immutable").mkdir()
        inode = (tmp_path / "immutable").stat().st_ino

        def refuse(
            path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
        ) -> int:
            if dir_fd is None or not is_new(flags):
                return plain(path, flags, mode, dir_fd=dir_fd)
            if os.fstat(dir_fd).st_ino == inode:
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
            return plain(path, flags, mode, dir_fd=dir_fd)

        monkeypatch.setattr(local_names, "_ways", {})
        monkeypatch.setattr(os, "open", refuse)
        immutable = ObjectStore(str(tmp_path / "immutable"))
        assert EXCLUSIVE in immutable.probe_capabilities()
        with pytest.raises(PermissionDeniedError):
            immutable.put("a", b"1", overwrite=False)
        fine = ObjectStore(str(tmp_path / "fine"))
        fine.put("a", b"1", overwrite=False)
        assert EXCLUSIVE in fine.probe_capabilities()

    def test_a_rename_that_replaces_in_spite_of_all_is_not_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def replace(source: str, target: str, folder: int) -> None:
            os.replace(source, target, src_dir_fd=folder, dst_dir_fd=folder)

        monkeypatch.setattr(local_names, "_rename", replace)
        monkeypatch.setattr(local_names, "_ways", {})
        store = ObjectStore(str(tmp_path))
        assert len(race(store, "a", size=100)) == 1
        assert EXCLUSIVE in store.probe_capabilities()
