"""Serve a local page on which one annotator fills in one sheet.

The server listens on 127.0.0.1 only. The address has a random part, and only pages of that address can send answers.
The page needs nothing from the network.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from pytest_llmprops.benchmarks.dtails.prompts import language_name
from pytest_llmprops.benchmarks.dtails.tools.annotation.questions import is_answered, read_answer
from pytest_llmprops.benchmarks.dtails.tools.annotation.study import Line, Sheet, read_sheet
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.sheet_files import SheetRecord, only_one, sheet_text
from pytest_llmprops.data.whole_files import write_text

# Edit one sheet: each answer is saved to the CSV immediately, and kept if it cannot be saved.


class SheetEditor:
    """A sheet that is being filled in. Safe for several threads of one process.

    The file is read again before each save, so changes by other programs are kept. Answers that could not be saved are
    kept and saved with the next answer.

    :raises DataError: The file is not a sheet; see ``read_sheet``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sheet = read_sheet(path)
        self._unsaved: dict[int, dict[str, str]] = {}
        self._lock = Lock()

    def state(self) -> dict[str, Any]:
        """Return all data for the page, from the file; ``error`` says why the file could not be read or saved."""
        with self._lock:
            error = self._save() if self._unsaved else self._refresh()
            sheet = _with_answers(self._sheet, self._unsaved)
            return {
                "sheet": self.path.name,
                "task": sheet.task,
                "code": sheet.language,
                "language": language_name(sheet.language),
                "questions": [_question(line) for line in sheet.lines],
                "error": error,
            }

    def answer(self, number: int, answers: Mapping[str, str]) -> str:
        """Save answers to a question, by column; return an empty text, or why they could not be saved.

        :raises DataError: The question or column does not exist, or an answer is invalid; no answer is kept.
        """
        with self._lock:
            line = next((line for line in self._sheet.lines if line.number == number), None)
            if line is None:
                raise DataError(f"question {number} is not in {self.path.name}")
            unknown = [column for column in answers if column not in line.question.columns]
            if unknown:
                raise DataError(f"question {number} has no column {unknown[0][:20]!r}")
            canonical = {column: read_answer(line.question, column, text) for column, text in answers.items()}
            self._unsaved[number] = self._unsaved.get(number, {}) | canonical
            return self._save()

    def text(self) -> str:
        """Return the sheet's CSV with all answers, including unsaved ones."""
        with self._lock:
            return sheet_text(_with_answers(self._sheet, self._unsaved).table)

    def counts(self) -> tuple[int, int]:
        """Return the number of answered questions, and of all questions."""
        with self._lock:
            lines = _with_answers(self._sheet, self._unsaved).lines
            return sum(is_answered(line.question, _answers(line)[0]) for line in lines), len(lines)

    def close(self) -> str:
        """Save unsaved answers. If that fails, write the sheet to a temporary folder and return a message."""
        with self._lock:
            error = self._save() if self._unsaved else ""
            if not error:
                return ""
            text = sheet_text(_with_answers(self._sheet, self._unsaved).table)
            many = "question" if len(self._unsaved) == 1 else "questions"
            message = f"{len(self._unsaved)} answered {many} could not be saved ({error})"
            try:
                folder = Path(tempfile.mkdtemp(prefix="llmprops-"))
                write_text(folder / self.path.name, text, sync=True)
            except OSError as second:
                return f"{message}, and no copy could be written ({second.strerror or second})"
            return f"{message}; a sheet with all answers is at {folder / self.path.name}"

    def _refresh(self) -> str:
        try:
            self._sheet = read_sheet(self.path)
        except DataError as error:
            return str(error)
        return ""

    def _save(self) -> str:
        try:
            current = read_sheet(self.path)
        except DataError as error:
            return str(error)
        questions = {line.number: line.question for line in current.lines}
        for line in self._sheet.lines:
            question = questions.get(line.number)
            if line.number in self._unsaved and not (question and question.same_as(line.question)):
                return f"{self.path}: question {line.number} is missing or was changed; restore the sheet"
        sheet = _with_answers(current, self._unsaved)
        try:
            write_text(self.path, sheet_text(sheet.table), sync=True)
        except OSError as error:
            why = error.strerror or error
            return f"{self.path}: cannot be written ({why}); free disk space, or check the folder"
        self._sheet, self._unsaved = sheet, {}
        return ""


def _with_answers(sheet: Sheet, answers: Mapping[int, Mapping[str, str]]) -> Sheet:
    """Return the sheet with these answers in place of its own."""
    lines = tuple(
        replace(line, cells={**line.cells, **answers[line.number]}) if line.number in answers else line
        for line in sheet.lines
    )
    records = tuple(SheetRecord(line.line, dict(line.cells)) for line in lines)
    return replace(sheet, lines=lines, table=replace(sheet.table, records=records))


def _answers(line: Line) -> tuple[dict[str, str], str]:
    """Return the answers of a line, and the problem of an invalid one; an invalid answer is left empty."""
    answers, problem = {}, ""
    for column in line.question.columns:
        try:
            answers[column] = read_answer(line.question, column, line.cells[column])
        except DataError as error:
            answers[column], problem = "", str(error)
    return answers, problem


def _question(line: Line) -> dict[str, Any]:
    answers, problem = _answers(line)
    question = line.question
    return {
        "number": line.number,
        "kind": question.kind,
        "concept": question.concept,
        "text": question.text,
        "about": question.about,
        "options": list(question.options),
        "required": list(question.required),
        "answers": answers,
        "problem": problem,
    }


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
#: Maximum bytes of a request body; more than the longest answer needs.
_LARGEST = 65_536


class AnnotationPage(ThreadingHTTPServer):
    """The server for one sheet. :param port: 0 for any free port. :raises OSError: The port is in use."""

    daemon_threads = True

    def __init__(self, sheet: SheetEditor, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.sheet = sheet
        self.token = secrets.token_urlsafe(18)
        #: Requests are refused, also on connections that are still open.
        self.is_closed = False
        #: Why answers could not be saved when the page was closed; one line, or empty.
        self.save_error = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Print an error, except when a tab was closed during a response."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def progress(self) -> str:
        """Return a text such as ``3 of 40 questions answered``."""
        return "{} of {} questions answered".format(*self.sheet.counts())


@contextlib.contextmanager
def serving(path: Path, port: int = 0) -> Iterator[AnnotationPage]:
    """Open the page of a sheet and lock the sheet until the block ends; call ``serve_forever`` on the result.

    :raises DataError: The file is not a sheet.
    :raises UsageError: The port or the folder cannot be used, or another page has the sheet open.
    """
    if not 0 <= port < 65536:
        raise UsageError(f"--port {port}: not a port; use 1024 to 65535")
    path = path.resolve()  # Saving replaces the file; without this, it would replace a symbolic link.
    sheet = SheetEditor(path)
    with only_one(path, "another page has this sheet open; continue there, or stop it with Ctrl-C"):
        try:
            server = AnnotationPage(sheet, port)
        except OSError as error:
            raise UsageError(f"--port {port}: {error.strerror or error}; choose another port") from None
        try:
            yield server
        finally:
            server.is_closed = True
            server.server_close()
            server.save_error = sheet.close()


class _Handler(BaseHTTPRequestHandler):
    """Handles the page's requests and refuses all others."""

    server: AnnotationPage
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "llmprops", ""
    timeout = 120

    def do_GET(self) -> None:
        name = self._requested_name()
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
        self.close_connection = True  # Until the body has been read.
        name = self._requested_name()
        if name is None:
            return
        if self.headers.get("Origin") != f"http://{self.headers['Host']}":
            self._refuse(403, "request from another page")
        elif name != "answer":
            self._refuse(404, "no such page")
        elif self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            self._refuse(415, "not JSON")
        else:
            self._answer()

    def _answer(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal() and len(length) < 8):
            return self._refuse(411, "no content length")
        if int(length) > _LARGEST:
            return self._refuse(413, "too long")
        body = self.rfile.read(int(length))
        self.close_connection = False
        try:
            message = json.loads(body)
            number, answers = message["question"], message["answers"]
            if type(number) is not int or not all(type(text) is str for text in answers.values()):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self._refuse(400, "not an answer")
        try:
            error = self.server.sheet.answer(number, answers)
        except DataError as problem:
            return self._refuse(422, str(problem))
        return self._json(200, {"saved": not error, "error": error})

    def _requested_name(self) -> str | None:
        """Return the requested name below the secret address; None if the request was refused."""
        if self.server.is_closed:
            raise ConnectionAbortedError
        # Another host name means that another site tries to reach this page.
        if self.headers.get("Host") not in {
            f"{host}:{self.server.server_port}" for host in ("127.0.0.1", "localhost")
        }:
            self._refuse(403, "wrong host name")
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
        """Log nothing: the terminal shows only progress and errors."""
