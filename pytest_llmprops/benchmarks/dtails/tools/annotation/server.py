"""A page on this machine on which one annotator works through one sheet.

It is served to 127.0.0.1 only, under an address with a random part, to pages of that address only; it needs
nothing from the network.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pytest_llmprops.benchmarks.dtails.tools.annotation.open_sheet import OpenSheet
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.sheet_files import only_one

PAGE = Path(__file__).parent / "page"
_FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "questions.js": ("questions.js", "text/javascript; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
#: more bytes than the longest answer has
_LARGEST = 65_536


class AnnotationPage(ThreadingHTTPServer):
    """The server of one open sheet. :param port: 0 for any that is free. :raises OSError: the port is taken."""

    daemon_threads = True

    def __init__(self, sheet: OpenSheet, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.sheet = sheet
        self.token = secrets.token_urlsafe(18)
        #: answers are no longer taken, also over a connection that is still open
        self.ended = False
        #: what could not be saved when the page was closed, in one line
        self.lost = ""

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def hosts(self) -> tuple[str, str]:
        """The only names under which a browser may ask: others are some page's attempt to get at this one."""
        return f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A tab that was closed in the middle of an answer is no error; everything else is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def progress(self) -> str:
        """``3 of 40 questions answered``."""
        return "{} of {} questions answered".format(*self.sheet.counts())


@contextlib.contextmanager
def serving(path: Path, port: int = 0) -> Iterator[AnnotationPage]:
    """The page of a sheet, which no other page can open until the block ends; call its ``serve_forever``.

    :raises DataError: the file is no sheet. :raises UsageError: the port or the folder cannot be had, or
        another page has the sheet.
    """
    if not 0 <= port < 65536:
        raise UsageError(f"--port {port}: not a port; give 1024 to 65535")
    path = path.resolve()  # saving replaces the file, which would replace a link to it
    sheet = OpenSheet(path)
    with only_one(path, "another page has this sheet open; go on there, or end it with Ctrl-C"):
        try:
            server = AnnotationPage(sheet, port)
        except OSError as error:
            raise UsageError(f"--port {port}: {error.strerror or error}; choose another port") from None
        try:
            yield server
        finally:
            server.ended = True
            server.server_close()
            server.lost = sheet.close()


class _Handler(BaseHTTPRequestHandler):
    """Answers the page; whatever comes from elsewhere is refused."""

    server: AnnotationPage
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "llmprops", ""
    timeout = 120

    def do_GET(self) -> None:
        name = self._wanted()
        if name is None:
            return
        if name in _FILES:
            file, kind = _FILES[name]
            self._send(200, (PAGE / file).read_bytes(), kind)
        elif name == "state":
            self._json(200, self.server.sheet.state())
        elif name == "sheet.csv":
            sheet = self.server.sheet
            download = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(sheet.path.name)}"}
            self._send(200, sheet.text().encode("utf-8"), "text/csv; charset=utf-8", download)
        else:
            self._refuse(404, "no such page")

    def do_POST(self) -> None:
        self.close_connection = True  # unless the body was read
        name = self._wanted()
        if name is None:
            return
        if self.headers.get("Origin") != f"http://{self.headers['Host']}":
            self._refuse(403, "asked from another page")
        elif name != "answer":
            self._refuse(404, "no such page")
        elif self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            self._refuse(415, "not JSON")
        else:
            self._answer()

    def _answer(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal() and len(length) < 8):
            return self._refuse(411, "without a length")
        if int(length) > _LARGEST:
            return self._refuse(413, "too long")
        body = self.rfile.read(int(length))
        self.close_connection = False
        try:
            asked = json.loads(body)
            number, answers = asked["question"], asked["answers"]
            if type(number) is not int or not all(type(text) is str for text in answers.values()):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self._refuse(400, "no answer")
        try:
            error = self.server.sheet.answer(number, answers)
        except DataError as wrong:
            return self._refuse(422, str(wrong))
        return self._json(200, {"saved": not error, "error": error})

    def _wanted(self) -> str | None:
        """What is asked for under the secret address; None where the request was refused."""
        if self.server.ended:
            raise ConnectionAbortedError
        if self.headers.get("Host") not in self.server.hosts():
            self._refuse(403, "asked under another name")
            return None
        parts = self.path.partition("?")[0].split("/", 2)
        if len(parts) < 3 or not secrets.compare_digest(parts[1].encode(), self.server.token.encode()):
            self._refuse(404, "no such page")
            return None
        return parts[2]

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True
        self._json(status, {"saved": False, "error": why})

    def _json(self, status: int, value: Any) -> None:
        body = json.dumps(value, ensure_ascii=True).encode("ascii")
        self._send(status, body, "application/json")

    def _send(self, status: int, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, text in {**_HEADERS, **(more or {})}.items():
            self.send_header(name, text)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Nothing: the terminal is for progress and errors."""
