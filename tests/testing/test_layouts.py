from pathlib import Path

import pytest

from support.stores import make_place, open_store
from testing.layouts import LAYOUTS, WRAPPED
from tieredfs.testing import CHECKS, Check, check_empty_storage_lists_nothing

EVERY = {**LAYOUTS, **WRAPPED}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("layout", EVERY)
def test_every_layout_keeps_every_rule(check: Check, layout: str) -> None:
    check(EVERY[layout])


@pytest.mark.parametrize("layout", ["single-object", "kafka-local"])
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_the_rules_hold_on_other_stores(
    kind: str, layout: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = open_store(make_place(kind, request, tmp_path))
    # First what needs a place where nothing ever was: SeaweedFS lists empty folders.
    check_empty_storage_lists_nothing(LAYOUTS[layout], store)
    for check in CHECKS:
        if check is not check_empty_storage_lists_nothing:
            check(LAYOUTS[layout], store)
            store.delete([entry.key for entry in store.list()])
