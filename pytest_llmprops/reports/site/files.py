"""The files of a site. Each is replaced atomically, and those that are no longer needed are deleted at the end."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.data.whole_files import replacing
from pytest_llmprops.reports.page.build import refuse_foreign

#: the first file of a site, which shows that the folder is one
MARK = "data/site.json"
GENERATOR = "pytest-llmprops site"
#: the folders in which files may be deleted
OWN = ("data", "runs")


class SiteFiles:
    """Writes files below ``out``. A page only names files that exist, whenever the build is interrupted: new data files
    have new names, pages come after their data, and nothing is deleted before the last page is written.

    :raises UsageError: if ``out`` has other files, or cannot be written.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._kept: set[Path] = set()
        refuse_foreign(
            out, lambda: json.loads((out / MARK).read_bytes()).get("generator") == GENERATOR, "site"
        )
        self.put(MARK, json.dumps({"generator": GENERATOR}).encode())

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if it is missing."""
        try:
            return (self.out / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UsageError(f"--out {self.out / path}: {error.strerror}") from None

    def has(self, path: str) -> bool:
        return (self.out / path).is_file()

    def put(self, path: str, content: bytes) -> Path:
        """Write a file, unless it has this content, and return its path."""
        target = self.out / path
        try:
            if self.read(path) != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                with replacing(target) as draft:
                    draft.write_bytes(content)
        except OSError as error:
            raise UsageError(f"--out {target}: {error.strerror}") from None
        self._kept.add(target)
        return target

    def keep(self, path: str) -> None:
        """Do not delete this file, or the files in this folder."""
        self._kept.add(self.out / path)

    def delete_others(self) -> None:
        """Delete the files of earlier builds that this one neither wrote nor kept."""
        for top in OWN:
            self._delete(self.out / top)
        # Drafts that a killed build left.
        for draft in (*self.out.glob(".*.html.*.part"), *self.out.glob("runs/**/.*.part")):
            draft.unlink(missing_ok=True)

    def _delete(self, folder: Path) -> None:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path in self._kept:
                continue
            with contextlib.suppress(OSError):
                if not path.is_dir() or path.is_symlink():
                    path.unlink()
                elif any(kept.is_relative_to(path) for kept in self._kept):
                    self._delete(path)
                else:
                    shutil.rmtree(path)
