"""Downloading the published data from the authors' repositories.

Each file comes from its repository at the pinned commit, is checked for size and sha256 while it lies under
a temporary name, and only then takes its place. Files that are already there and right are left alone, so a
pull that was cut off goes on where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn, Protocol
from urllib.parse import quote

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.manifest import read_manifest
from pytest_llmprops.data.manifest_entry import ManifestEntry
from pytest_llmprops.data.whole_files import replacing

BASE_URL = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"

_BLOCK = 1 << 16
_TIMEOUT = 30.0  # seconds without any byte from the server
_LONGEST_WAIT = 60.0  # seconds; a server may ask for longer, a person would rather try again later


class Response(Protocol):
    """What an opener returns: a context manager that can be read in blocks."""

    def read(self, size: int, /) -> bytes: ...
    def __enter__(self) -> Response: ...
    def __exit__(self, *details: object) -> object: ...


Opener = Callable[[str], Any]


class _TransientError(Exception):
    """A failure worth another try; ``wait`` is the number of seconds that the server asked for."""

    def __init__(self, message: str, *, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class _WrongFileError(Exception):
    """The server answered, but not with the file of the manifest: another try would not help."""


def pull(
    dest: Path | str,
    *,
    files: Sequence[str] | None = None,
    base_url: str = BASE_URL,
    opener: Opener | None = None,
    manifest: Iterable[ManifestEntry] | None = None,
    attempts: int = 4,
    sleep: Callable[[float], None] | None = None,
    out: Callable[[str], None] = print,
) -> int:
    """Download published data into ``dest``, laid out as the manifest's ``file`` column.

    :param files: paths, folders (``htest``) or patterns (``htest/*_test.jsonl``) of the manifest; all by
        default.
    :param base_url: template with ``{repository}``, ``{commit}`` and ``{path}``.
    :param opener: URL to :class:`Response`; by default ``urllib`` with a timeout. A failure is an ``OSError``
        (``urllib.error.HTTPError`` carries its status and headers).
    :param manifest: by default the one that ships with the project.
    :param attempts: tries per file for failures that may pass (no answer, 429, 5xx, a cut-off download).
    :param sleep: waits between tries, in seconds; ``time.sleep`` by default.
    :param out: gets one line a file and one for each error.
    :returns: exit status: 0 when every file asked for is in place, else 1.

    A wrong file is reported and the rest goes on; a host that stays unreachable, or a folder that cannot be
    written, ends the pull: the other files would wait for the same failure.
    """
    folder = Path(dest)
    try:
        entries = _chosen(tuple(manifest) if manifest is not None else read_manifest(), files)
        for placeholder in ("{repository}", "{commit}", "{path}"):
            if placeholder not in base_url:
                raise DataError(f"base URL {base_url!r} has no {placeholder}; the default is {BASE_URL}")
        if not base_url.startswith(("https://", "http://")):
            raise DataError(f"base URL {base_url!r} is not a web address; the default is {BASE_URL}")
    except DataError as error:
        out(f"error: {error}")
        return 1
    opener = opener or _urlopen
    failed = 0
    for entry in entries:
        target = folder / entry.file
        try:
            was_there = target.exists()
            if was_there and _verifies(target, entry):
                out(f"{entry.file}: already there")
                continue
            _fetch(entry, target, _url(base_url, entry), opener, attempts, sleep)
            done = "replaced, its bytes were others" if was_there else "pulled"
            out(f"{entry.file}: {done} ({entry.bytes} bytes)")
        except _WrongFileError as error:
            failed += 1
            out(f"error: {entry.file}: {error}")
        except _TransientError as error:
            failed += 1
            out(f"error: {entry.file}: {error}; check the network and run the same command again")
            break
        except OSError as error:
            failed += 1
            reason = error.strerror or error
            out(f"error: {target}: cannot be written ({reason}); choose another --dest or free space")
            break
    return 1 if failed else 0


def _chosen(entries: tuple[ManifestEntry, ...], files: Sequence[str] | None) -> tuple[ManifestEntry, ...]:
    if files is None:
        return entries
    chosen: set[str] = set()
    for wanted in files:
        found = [
            entry.file
            for entry in entries
            if fnmatchcase(entry.file, wanted) or entry.file.startswith(wanted.rstrip("/") + "/")
        ]
        if not found:
            folders = ", ".join(sorted({entry.benchmark for entry in entries}))
            raise DataError(f"no file of the manifest matches {wanted!r}; its folders are {folders}")
        chosen.update(found)
    return tuple(entry for entry in entries if entry.file in chosen)


def _url(base_url: str, entry: ManifestEntry) -> str:
    url = base_url
    for name, value in (
        ("repository", entry.repository), ("commit", entry.commit), ("path", quote(entry.upstream_path)),
    ):  # fmt: skip
        url = url.replace("{" + name + "}", value)
    return url


def _verifies(path: Path, entry: ManifestEntry) -> bool:
    if path.stat().st_size != entry.bytes:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256


def _fetch(
    entry: ManifestEntry,
    target: Path,
    url: str,
    opener: Opener,
    attempts: int,
    sleep: Callable[[float], None] | None,
) -> None:
    """Download one file into place, with retries."""
    import time

    import tenacity

    backoff = tenacity.wait_exponential(multiplier=0.5, max=8) + tenacity.wait_random(0, 0.5)

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.wait if isinstance(error, _TransientError) else 0.0
        return max(backoff(state), min(asked, _LONGEST_WAIT))

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_TransientError),
        stop=tenacity.stop_after_attempt(attempts),
        wait=wait,
        sleep=sleep or time.sleep,
        reraise=True,
    )
    retrying(_download, entry, target, url, opener)


def _download(entry: ManifestEntry, target: Path, url: str, opener: Opener) -> None:
    """One attempt: stream to a draft beside the target, check it, and put it in place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as draft:
        with draft.open("wb") as file:
            size, digest = _stream(entry, url, opener, file.write)
        if size < entry.bytes:
            raise _TransientError(f"{url}: cut off after {size} of {entry.bytes} bytes")
        if digest != entry.sha256:
            raise _WrongFileError(
                f"{url}: wrong sha256 {digest[:12]}… instead of {entry.sha256[:12]}…; nothing was kept, "
                "the file upstream is not the one of the manifest"
            )


def _stream(
    entry: ManifestEntry, url: str, opener: Opener, write: Callable[[bytes], object]
) -> tuple[int, str]:
    """Read the response in blocks; an answer longer than the manifest says is cut short."""
    from http.client import HTTPException

    digest = hashlib.sha256()
    size = 0
    try:
        response = opener(url)
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a malformed URL
        _refuse(url, error)
    with response:
        while True:
            # only the reading may fail as network: an OSError of write() is the disk's
            try:
                block = response.read(_BLOCK)
            except (OSError, HTTPException) as error:
                raise _TransientError(f"{url}: {_reason(error)}") from None
            if not block:
                return size, digest.hexdigest()
            size += len(block)
            if size > entry.bytes:
                raise _WrongFileError(
                    f"{url}: larger than the manifest's {entry.bytes} bytes; nothing was kept"
                )
            digest.update(block)
            write(block)


def _refuse(url: str, error: Exception) -> NoReturn:
    """Turn a failure to open a URL into one that is worth another try or one that is not."""
    from urllib.error import HTTPError

    if isinstance(error, HTTPError):
        error.close()
        message = f"{url}: status {error.code}"
        if error.code == 429 or error.code >= 500:
            asked = (error.headers.get("Retry-After") or "") if error.headers else ""
            raise _TransientError(message, wait=float(asked) if asked.isdecimal() else 0.0) from None
        raise _WrongFileError(f"{message}; the repository or the commit may be gone") from None
    raise _TransientError(f"{url}: cannot be reached ({_reason(error)})") from None


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return " ".join(str(reason).split()) or type(error).__name__


def _urlopen(url: str) -> Any:
    from urllib.request import Request, urlopen

    # pull() has checked that the base URL is a web address
    request = Request(url, headers={"User-Agent": "pytest-llmprops"})  # noqa: S310
    return urlopen(request, timeout=_TIMEOUT)  # noqa: S310
