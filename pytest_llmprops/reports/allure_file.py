"""The pages that Allure 3 builds, in one HTML file that browsers open from disk, with the data compressed.

Allure's own single-file mode holds every case as text: 75 MB for 12,000 cases, all read before the first view. Here
files of about a megabyte together are compressed, and the page expands those of a case when it is opened.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.reports.allure_pages import VERSION

#: bytes of data that are compressed together; reading one case expands as much
CHUNK = 1_000_000
#: folders with the data that the page reads
_DATA = ("widgets", "data")
#: the first line of the file; the document type follows
_FIRST = b"<!-- An Allure report in one file, by pytest-llmprops -->\n"
_SCRIPT = re.compile(r'<script\s+src="([\w.-]+\.js)"></script>')
#: what the page of a folder has in place of the data
_READY = re.compile(r"<script async>\s*window\.allureReportDataReady = true;\s*</script>")


def pack(site: Path, page: Path) -> None:
    """Write the report in the folder ``site`` as one file.

    :raises UsageError: if the report has parts that this function does not know.
    """
    text = (site / "index.html").read_text(encoding="utf-8")
    text, scripts = _SCRIPT.subn(lambda match: _inline(site, match[1]), text)
    if not scripts or re.search(r'<(?:script|link|img)\b[^>]*(?:src|href)="(?!data:)', text):
        raise UsageError(f"this version of Allure has pages of another kind; build with allure@{VERSION}")
    head, *tail = _READY.split(text)
    reader = files(__package__).joinpath("allure_file.js").read_text(encoding="utf-8")
    # Before the scripts of the page, which look for the data as soon as they run.
    head, heads = re.subn("</head>", lambda _: f"<script>\n{reader}</script>\n</head>", head, count=1)
    if len(tail) != 1 or not heads:
        raise UsageError(f"this version of Allure reads its data in another way; build with allure@{VERSION}")
    with page.open("w", encoding="utf-8") as file:
        file.write(_FIRST.decode())
        file.write(head)
        index: dict[str, tuple[int, int, int]] = {}
        for number, chunk in enumerate(_chunks(site)):
            start = 0
            for name, content in chunk:
                index[name] = (number, start, start + len(content))
                start += len(content)
            file.write(_element(f"chunk-{number}", b"".join(content for _, content in chunk)))
        file.write(_element("chunk-index", json.dumps(index).encode()))
        file.write(tail[0])


def is_report(path: Path) -> bool:
    """Return whether a file was written by :func:`pack`, or is empty."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_FIRST)) in (_FIRST, b"")


def _inline(site: Path, name: str) -> str:
    script = site / name
    notice = script.with_name(f"{name}.LICENSE.txt")
    comment = (
        f"<!--\n{notice.read_text(encoding='utf-8').replace('--', '- -')}-->\n" if notice.is_file() else ""
    )
    encoded = base64.b64encode(script.read_bytes()).decode()
    return f'{comment}<script src="data:text/javascript;base64,{encoded}"></script>'


def _chunks(site: Path) -> Iterator[list[tuple[str, bytes]]]:
    """Yield lists of (path in the report, content)."""
    chunk: list[tuple[str, bytes]] = []
    size = 0
    for folder in _DATA:
        for path in sorted((site / folder).rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                if chunk and size + len(content) > CHUNK:
                    yield chunk
                    chunk, size = [], 0
                chunk.append((path.relative_to(site).as_posix(), content))
                size += len(content)
    if chunk:
        yield chunk


def _element(name: str, content: bytes) -> str:
    encoded = base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()
    return f'<script type="application/gzip" id="{name}">{encoded}</script>\n'
