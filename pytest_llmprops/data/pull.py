"""Download the published data from the authors' repositories.

Each file is downloaded from its repository at the pinned commit, under a temporary name. It is renamed after its size
and digest are checked. Existing files with the right content are skipped, so an interrupted download can be resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.files import ManifestEntry, read_manifest
from pytest_llmprops.data.whole_files import replacing

BASE_URL = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"

#: Folder of corpora to train models on. They are large, and only a command that names them downloads them.
TRAINING = "training"

#: of a file, for temporary failures: no answer, 429, 5xx, an incomplete download
_ATTEMPTS = 4
_BLOCK = 1 << 16
_MOST_BYTES = 200_000_000  # of a file whose size the manifest does not state
_TIMEOUT = 30.0  # seconds without any byte from the server
_LONGEST_WAIT = 60.0  # seconds; if a server asks for a longer wait, it is better to fail


class _TransientError(Exception):
    """A failure that a retry may solve; ``wait`` is the delay that the server asked for, in seconds."""

    def __init__(self, message: str, *, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class _WrongFileError(Exception):
    """The server returned something other than the file of the manifest; a retry would not help."""


def pull(
    dest: Path | str, out: Callable[[str], object], *, files: Sequence[str] = (), base_url: str = BASE_URL
) -> int:
    """Download published data into ``dest``, in the layout of the manifest's ``file`` column.

    After a wrong file, the download continues with the next one. If the host
    stays unreachable or the folder cannot be written, it stops, because the other files would fail in the same way.

    :param out: prints one line per file and per error.
    :param files: paths, folders (``htest``) or patterns (``htest/*_test.jsonl``) of the manifest; without any, all
        except those of the folder ``training``.
    :param base_url: template with ``{repository}``, ``{commit}`` and ``{path}``.
    :returns: exit status: 0 if all requested files are in place, otherwise 1.
    """
    folder = Path(dest)
    try:
        entries = _select(read_manifest(), files)
        for placeholder in ("{repository}", "{commit}", "{path}"):
            if placeholder not in base_url:
                raise DataError(f"base URL {base_url!r} has no {placeholder}; the default is {BASE_URL}")
        if not base_url.startswith(("https://", "http://")):
            raise DataError(f"base URL {base_url!r} is not a web address; the default is {BASE_URL}")
    except DataError as error:
        out(f"error: {error}")
        return 1
    failed = 0
    for origin in dict.fromkeys((e.repository, e.licence) for e in entries if e.benchmark == TRAINING):
        out("terms of {}: {}".format(*origin))
    for entry in entries:
        target = folder / entry.file
        try:
            existed = target.exists()
            if existed and _verifies(target, entry):
                out(f"{entry.file}: already there")
                continue
            _fetch(entry, target, _url(base_url, entry))
            action = "replaced, because its content differed" if existed else "pulled"
            out(f"{entry.file}: {action} ({target.stat().st_size} bytes)")
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


def _select(entries: tuple[ManifestEntry, ...], files: Sequence[str]) -> tuple[ManifestEntry, ...]:
    if not files:
        return tuple(entry for entry in entries if entry.benchmark != TRAINING)
    chosen: set[str] = set()
    for pattern in files:
        matches = [
            entry.file
            for entry in entries
            if fnmatchcase(entry.file, pattern) or entry.file.startswith(pattern.rstrip("/") + "/")
        ]
        if not matches:
            folders = ", ".join(sorted({entry.benchmark for entry in entries}))
            raise DataError(f"no file of the manifest matches {pattern!r}; its folders are {folders}")
        chosen.update(matches)
    return tuple(entry for entry in entries if entry.file in chosen)


def _url(base_url: str, entry: ManifestEntry) -> str:
    url = base_url
    for name, value in (
        ("repository", entry.repository), ("commit", entry.commit), ("path", quote(entry.upstream_path)),
    ):  # fmt: skip
        url = url.replace("{" + name + "}", value)
    return url


def _verifies(path: Path, entry: ManifestEntry) -> bool:
    return path.stat().st_size == (entry.bytes or path.stat().st_size) and entry.digest(path) == entry.sha256


def _fetch(entry: ManifestEntry, target: Path, url: str) -> None:
    """Download one file to ``target``, with retries."""
    import tenacity

    backoff = tenacity.wait_exponential(multiplier=0.5, max=8) + tenacity.wait_random(0, 0.5)

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        requested = error.wait if isinstance(error, _TransientError) else 0.0
        return max(backoff(state), min(requested, _LONGEST_WAIT))

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_TransientError),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=wait,
        sleep=time.sleep,
        reraise=True,
    )
    retrying(_download, entry, target, url)


def _download(entry: ManifestEntry, target: Path, url: str) -> None:
    """Make one attempt: stream to a draft next to the target, check it, and rename it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as draft:
        with draft.open("wb") as file:
            size = _stream(entry, url, file.write)
        if size < entry.bytes:
            raise _TransientError(f"{url}: cut off after {size} of {entry.bytes} bytes")
        if (digest := entry.digest(draft)) != entry.sha256:
            raise _WrongFileError(
                f"{url}: wrong sha256 {digest[:12]}… instead of {entry.sha256[:12]}…; nothing was kept, "
                "the file in the repository is not that of the manifest"
                + ("" if entry.bytes else ", or the download was cut off: repeat the command")
            )


def _stream(entry: ManifestEntry, url: str, write: Callable[[bytes], object]) -> int:
    """Read the response in blocks and return its size; stop if it is longer than the manifest says."""
    from http.client import HTTPException

    most = entry.bytes or _MOST_BYTES
    size = 0
    try:
        response = _urlopen(url)
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a malformed URL
        _refuse(url, error)
    with response:
        while True:
            # Only an OSError of read() is a network failure. One of write() is a failure of the disk.
            try:
                block = response.read(_BLOCK)
            except (OSError, HTTPException) as error:
                raise _TransientError(f"{url}: {_reason(error)}") from None
            if not block:
                return size
            size += len(block)
            if size > most:
                raise _WrongFileError(f"{url}: larger than the manifest's {most} bytes; nothing was kept")
            write(block)


def _refuse(url: str, error: Exception) -> NoReturn:
    """Raise the error for a URL that cannot be opened: a transient one if a retry may help."""
    from urllib.error import HTTPError

    if isinstance(error, HTTPError):
        error.close()
        message = f"{url}: status {error.code}"
        if error.code == 429 or error.code >= 500:
            wait = (error.headers.get("Retry-After") or "") if error.headers else ""
            raise _TransientError(message, wait=float(wait) if wait.isdecimal() else 0.0) from None
        raise _WrongFileError(f"{message}; the repository or the commit may be gone") from None
    raise _TransientError(f"{url}: cannot be reached ({_reason(error)})") from None


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return " ".join(str(reason).split()) or type(error).__name__


def _urlopen(url: str) -> Any:
    from urllib.request import Request, urlopen

    # pull() has checked that the base URL is a web address.
    request = Request(url, headers={"User-Agent": "pytest-llmprops"})  # noqa: S310
    return urlopen(request, timeout=_TIMEOUT)  # noqa: S310
