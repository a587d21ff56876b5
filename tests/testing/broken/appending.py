"""Plugins that append in a wrong way."""

from contextlib import suppress
from typing import Final

from typing_extensions import override

from testing.broken.copying import Staging
from testing.broken.plugin import Broken, Native
from tieredfs import (
    LogSegmentData,
    NotFoundError,
    SegmentMetadata,
)
from tieredfs import testing as rules
from tieredfs.errors import AlreadyExistsError
from tieredfs.format.segment.key_scheme import OWN_FOLDER
from tieredfs.storage.layouts.single_object.layout import SingleObject

__all__ = ["BROKEN"]


class LetsEverybodyAppend(Native):
    """Takes an append for a copy."""

    @override
    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        return self.copy_log_segment(metadata, data)


class LooksBeforeItAppends(SingleObject):
    """Looks whether the offset is free, and copies: several writers may have looked."""

    @override
    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        with suppress(NotFoundError):
            if self.list_segments(metadata.partition, metadata.start_offset):
                raise AlreadyExistsError(str(metadata))
        return self.copy_log_segment(metadata, data)


class BelievesItsAppendComplete(Staging):
    """Takes a staged append that is gone for one that another writer has completed."""

    @override
    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        staged, key, custom = self.stage(metadata, data)
        claim = f"{OWN_FOLDER}claimed/{metadata.partition}/{metadata.start_offset}"
        self.store.put(claim, metadata.id.encode(), overwrite=False)
        with suppress(NotFoundError):
            self.store.copy(staged, key)
            self.store.delete([staged])
        return custom


class ClaimsForEver(SingleObject):
    """Claims an offset first, so that a writer that died next blocks all others."""

    @override
    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        claim = f"{OWN_FOLDER}claimed/{metadata.partition}/{metadata.start_offset}"
        self.store.put(claim, metadata.id.encode(), overwrite=False)
        return self.copy_log_segment(metadata, data)


class AppendsAfterAGap(SingleObject):
    """Appends wherever no segment begins."""

    @override
    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        with suppress(NotFoundError):
            for one in self.list_segments(metadata.partition):
                if one.start_offset == metadata.start_offset:
                    raise AlreadyExistsError(str(metadata))
        return self.copy_log_segment(metadata, data)


BROKEN: Final = (
    Broken(
        rules.check_append_that_leaves_a_gap_is_refused,
        AppendsAfterAGap,
        "An append after a gap of the log, at 40, returned",
    ),
    Broken(
        rules.check_append_has_one_winner, LetsEverybodyAppend, "4 writers 4 succeeded"
    ),
    Broken(
        rules.check_append_has_one_winner,
        LooksBeforeItAppends,
        "4 writers 4 succeeded",
        bug="two winners of one append",
    ),
    Broken(
        rules.check_append_survives_a_cleaner,
        BelievesItsAppendComplete,
        "ran before write 2, and the append returned",
        bug="succeeds with nothing stored when a cleaner ran in between",
    ),
    Broken(
        rules.check_append_that_died_blocks_no_other,
        ClaimsForEver,
        "An append died at write 2",
    ),
)
