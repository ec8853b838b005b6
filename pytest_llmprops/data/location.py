"""The folders of the built-in data and of a benchmark's own data."""

from __future__ import annotations

import inspect
from functools import lru_cache
from pathlib import Path

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.core.registration import Registration

#: a file that every copy of the data folder has
_MARKER = "manifest.tsv"


@lru_cache(maxsize=1)
def builtin_data() -> Path:
    """Return the folder of built-in data: the packaged copy, or ``data/`` of the checkout.

    The packaged copy is checked first, because ``../data`` of an installed package would be an unrelated folder.

    :raises DataError: if neither exists.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_data", package.parent / "data"):
        if (folder / _MARKER).is_file():
            return folder
    raise DataError(
        f"built-in data: no {_MARKER} in {package / '_data'} nor in {package.parent / 'data'}; "
        "reinstall pytest-llmprops"
    )


def data_folder(registration: Registration) -> Path:
    """Return the folder of a benchmark's own data: its registration's, or that of the file that defines its class."""
    data = registration.load("data")
    return Path(inspect.getfile(registration.load_class())).parent if data is None else Path(data())
