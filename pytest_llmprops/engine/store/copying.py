"""Copy replies from one store to another, and those of a run's folder to the store that did not take them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.engine.store.base import Store
from pytest_llmprops.engine.store.location import open_store

#: store in a run's folder for the replies that the run's store did not take
UNSAVED = "replies.sqlite"
#: replies that are copied at once
_PAGE = 500


class Copied(NamedTuple):
    """The number of replies that were copied, and of those that the target had."""

    copied: int
    known: int


def copy_replies(source: Store, target: Store) -> Copied:
    """Copy the replies that ``target`` lacks, or that are newer in ``source``.

    :raises StoreError: if one of the stores cannot be used; what was copied stays.
    """
    seen = copied = 0
    after = ""
    while rows := source.page(after, _PAGE):
        seen, after = seen + len(rows), rows[-1].key
        copied += target.put_many(rows, only_newer=True)
    return Copied(copied, seen - copied)


def store_unsaved(run: Path, location: str) -> list[str]:
    """Store the replies that a run kept in its folder, remove their file, and return notes for the summary.

    :param run: folder of the run. :param location: of the reply store.
    :raises StoreError: if one of them cannot be stored; the file then stays as it is.
    """
    path = run / UNSAVED
    if not path.is_file() or (Path(location).exists() and path.samefile(location)):
        return []
    try:
        with closing(open_store(location)) as target, closing(open_store(str(path))) as source:
            count = copy_replies(source, target)
            notes, place = [*source.notes, *target.notes], target.place
        # A file that is still in use elsewhere has a write-ahead log.
        for file in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))):
            file.unlink(missing_ok=True)
    except (StoreError, OSError) as error:
        raise StoreError(
            f"{error}; {path} has replies of this run that are not stored yet: repeat the command when the store can be"
            " used, or remove the file to send these requests again"
        ) from None
    known = f", which had {count.known} more" if count.known else ""
    notes.append(f"{count.copied} replies of {path} were stored in {place}{known}")
    return notes
