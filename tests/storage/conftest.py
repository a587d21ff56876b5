"""Distributions that bring plugins."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Distribute = Callable[..., str]

_HEAD = """
from tieredfs import RemoteStorageManager

class Base(RemoteStorageManager):
    def list_partitions(self, topic=None):
        return []
    def list_segments(self, partition, min_offset=0):
        return []
    def fetch_log_segment(self, metadata, start=0, end=None, *, layout=b""):
        raise NotImplementedError
    def fetch_index(self, metadata, index_type):
        raise NotImplementedError
"""


@pytest.fixture
def distribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distribute:
    """Install a distribution, for this test, that brings one plugin.

    The function takes the plugin's name and the source of its class ``P``, which may
    inherit from ``Base``; it returns the name of the module.
    """
    made = 0

    def install(
        name: str, source: str, *, target: str = "P", version: str = "1.2"
    ) -> str:
        nonlocal made
        made += 1
        module = f"fake_plugin_{made}_{tmp_path.name}"
        folder = tmp_path / f"site{made}"
        info = folder / f"fake_{made}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: fake-{made}\nVersion: {version}\n"
        )
        (info / "entry_points.txt").write_text(
            f"[tieredfs.plugins]\n{name} = {module}:{target}\n"
        )
        (folder / f"{module}.py").write_text(_HEAD + source)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setitem(sys.modules, module, None)  # forgotten after the test
        monkeypatch.delitem(sys.modules, module)
        return module

    return install
