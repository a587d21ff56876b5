"""Every layout keeps every rule on the object stores of the clouds.

A run of CI asks a quarter of the rules, each of them on another server than the one
before; ``tox -e proofs`` asks all.
"""

from itertools import product
from pathlib import Path
from typing import Final

import pytest

from proofs.extent import extent
from support.stores import CLOUDS, make_place, open_store
from testing.any_calls import WRITABLE, try_any_calls
from testing.layouts import LAYOUTS
from tieredfs import RemoteStorageManager
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing import CHECKS, Check
from tieredfs.testing.applicability import why_not_applicable

ASKED: Final[dict[str, type[RemoteStorageManager]]] = {
    "single-object": SingleObject,
    "kafka-local": KafkaLocal,
    "kafka-log-epochs": KafkaLog,
}
RULES: Final = [
    (check, layout, kind)
    for check, layout, kind in product(CHECKS, ASKED, CLOUDS)
    if not why_not_applicable(check, ASKED[layout].capabilities)
]
SEQUENCES: Final = list(product(WRITABLE, CLOUDS))


@pytest.mark.parametrize(
    ("check", "layout", "kind"),
    RULES[:: extent(1, 8)],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_layout_keeps_a_rule_on_a_server(
    check: Check,
    layout: str,
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    check(LAYOUTS[layout], open_store(make_place(kind, request, tmp_path)))


@pytest.mark.parametrize(("layout", "kind"), SEQUENCES[:: extent(1, 8)])
def test_any_calls_in_any_order_agree_with_the_model(
    layout: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    try_any_calls(
        layout,
        lambda folder: make_place(kind, request, tmp_path / folder),
        examples=extent(10, 3),
    )
