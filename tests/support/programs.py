"""System programs that only some tests need, and the line that installs each on Debian.

As a script, print the packages of those that this machine lacks; ``.ci/packages`` installs them. The script needs
nothing but Python.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Program:
    """A program that tests start, or files that they read.

    :param names: its names on the path.
    :param package: Debian's package.
    :param places: absolute patterns of its files, which need not be on the path.
    """

    names: tuple[str, ...]
    package: str
    places: tuple[str, ...] = ()

    def find(self) -> Path | None:
        """Return its path, in the latest version; None if it is not installed."""
        on_path = next(filter(None, map(shutil.which, self.names)), None)
        if on_path is not None:
            return Path(on_path)
        found = [path for place in self.places for path in Path("/").glob(place.removeprefix("/"))]
        return max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], default=None)

    @property
    def reason(self) -> str:
        """What to do if it is not installed."""
        return f"needs {self.package} (Debian: apt-get install {self.package})"

    def path(self) -> Path:
        """Return its path; skip the test if it is not installed."""
        import pytest

        return self.find() or pytest.skip(self.reason)

    @property
    def needed(self) -> pytest.MarkDecorator:
        """The mark that skips a test if it is not installed."""
        import pytest

        return pytest.mark.skipif(self.find() is None, reason=self.reason)


CHROMIUM = Program(("chromium", "chromium-browser"), "chromium")
ESPEAK = Program(("espeak-ng",), "espeak-ng")
#: of a library that sets a process's clock
GCC = Program(("cc", "gcc"), "gcc")
#: stands in for the filter of gh
JQ = Program(("jq",), "jq")
#: installs Allure
NPM = Program(("npm",), "npm")
#: tests start a server of their own with its programs, which are in the folder of this one
POSTGRES = Program(("initdb",), "postgresql", ("/usr/lib/postgresql/*/bin/initdb",))
UNSHARE = Program(("unshare",), "util-linux")
#: the dictionary files
WORDNET = Program((), "wordnet-base", ("/usr/share/wordnet/data.noun",))

PROGRAMS = (CHROMIUM, ESPEAK, GCC, JQ, NPM, POSTGRES, UNSHARE, WORDNET)

if __name__ == "__main__":
    print(*(program.package for program in PROGRAMS if program.find() is None), sep="\n")
