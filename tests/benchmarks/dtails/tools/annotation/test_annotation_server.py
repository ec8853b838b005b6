"""The page's server: access control, saving of answers, and failures to save them."""

from __future__ import annotations

import http.client
import json
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.tools.annotation.server import AnnotationPage, SheetEditor, serving
from pytest_llmprops.core.errors import DataError, UsageError
from tests.support.annotation import fill, full_disk, judging, page_of, read_cells, selection, write_cells

CONCEPTS = {f"word{n}": [f"a{n}", f"b{n}"] for n in range(10)}


JSON = {"Content-Type": "application/json"}
ANSWER = {"question": 1, "answers": {"choice": "1"}}


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    """An empty sheet with twenty questions."""
    return selection(tmp_path, CONCEPTS)[0]


@pytest.fixture
def page(sheet: Path) -> Iterator[AnnotationPage]:
    """The page of the sheet, served."""
    with page_of(sheet) as running:
        yield running


def ask(
    page: AnnotationPage, path: str, body: object = None, *, token: str | None = None, **headers: str | None
) -> tuple[int, Any, http.client.HTTPMessage]:
    """Send a request as the page does, or with another token or other headers (None: without it).

    Return status, body and headers.
    """
    connection = http.client.HTTPConnection("127.0.0.1", page.server_port, timeout=60)
    try:
        sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        own: dict[str, str | None] = {name.replace("_", "-"): text for name, text in headers.items()}
        if body is not None:
            own = {**JSON, "Origin": f"http://127.0.0.1:{page.server_port}", **own}
        target = f"/{page.token if token is None else token}/{path}"
        kept = {name: text for name, text in own.items() if text is not None}
        connection.request("GET" if body is None else "POST", target, sent, kept)
        response = connection.getresponse()
        text = response.read()
        is_json = response.headers["Content-Type"] == "application/json"
        return response.status, json.loads(text) if is_json else text, response.headers
    finally:
        connection.close()


def answer(page: AnnotationPage, number: int, **answers: str) -> Any:
    """Send an answer and return the server's reply."""
    return ask(page, "answer", {"question": number, "answers": answers})[1]


def test_each_answer_is_saved_at_once(page: AnnotationPage, sheet: Path) -> None:
    """An answer changes only its own cells, is saved at once, and can be changed and withdrawn."""
    before = read_cells(sheet)
    for answers in ({"choice": "2"}, {"confidence": "no idea"}):
        assert answer(page, 3, **answers) == {"saved": True, "error": ""}
    after = read_cells(sheet)
    assert after[2] == before[2] | {"choice": "2", "confidence": "No idea"}
    assert after[:2] + after[3:] == before[:2] + before[3:]
    for number, choice in ((3, "1"), (4, "1"), (4, "")):
        answer(page, number, choice=choice)
    assert [line["choice"] for line in read_cells(sheet)[2:4]] == ["1", ""]
    assert page.progress() == "1 of 20 questions answered"
    assert sheet.read_bytes().startswith(b"\xef\xbb\xbfquestion,")


def test_state_matches_the_file(page: AnnotationPage, sheet: Path) -> None:
    """The state has the file's current answers; an invalid one is reported and not counted."""
    answer(page, 1, choice="2")
    lines = read_cells(sheet)
    lines[1]["choice"], lines[2]["choice"] = "7", "1"
    write_cells(sheet, lines)
    _, state, _ = ask(page, "state")
    assert (state["task"], state["code"], state["error"]) == ("selection", "xx", "")
    choices = [question["answers"]["choice"] for question in state["questions"][:3]]
    assert choices == ["2", "", "1"]
    assert "choice is '7'" in state["questions"][1]["problem"]
    assert state["questions"][0]["options"] == [lines[0]["option_1"], lines[0]["option_2"]]


def test_changes_by_other_programs_are_kept(page: AnnotationPage, sheet: Path) -> None:
    """A cell that a spreadsheet changed in the meantime is kept when the next answer is saved."""
    fill(sheet, lambda line: {"choice": "1"})
    text = sheet.read_text(encoding="utf-8-sig").replace(",", ";")
    sheet.write_text(text, encoding="utf-8")
    assert answer(page, 5, choice="2")["saved"]
    assert [line["choice"] for line in read_cells(sheet)] == ["1"] * 4 + ["2"] + ["1"] * 15


def test_rules_sheets_are_served_too(tmp_path: Path) -> None:
    """Notes are stored as text: formulas are escaped and control characters become visible marks."""
    (sheet, *_) = judging(tmp_path, {"sun": {"son": "the star", "sol": "<b>light</b>"}})
    with page_of(sheet) as page:
        assert answer(page, 1, answer="yes", which="=1+1\x1b\n")["saved"]
        assert answer(page, 2, answer="2;1")["saved"]
        _, state, _ = ask(page, "state")
    assert [line["answer"] for line in read_cells(sheet)] == ["yes", "1;2", "", ""]
    assert read_cells(sheet)[0]["which"] == "'=1+1␛"
    assert state["questions"][0]["answers"]["which"] == "=1+1␛"


@pytest.mark.parametrize("path", ["", "page.css", "page.js", "questions.js", "state", "sheet.csv"])
def test_requests_need_the_token(page: AnnotationPage, path: str) -> None:
    """Every file has security headers and is available only under the secret address."""
    status, _, headers = ask(page, path)
    assert status == 200
    assert headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers
    for token in ("", "x", page.token[:-1], page.token + "x"):
        assert ask(page, path, token=token)[0] == 404


@pytest.mark.parametrize(
    "path", ["nothing", "../page.js", "..%2fannotation_server.py", "page.js/", "state/x"]
)
def test_no_other_file_is_served(page: AnnotationPage, path: str) -> None:
    """Only the page's own files are served, and only one path accepts answers."""
    assert ask(page, path)[0] == 404
    assert ask(page, "state", {"question": 1, "answers": {}})[0] == 404


def test_addresses_are_secret_and_local(page: AnnotationPage, sheet: Path) -> None:
    """Each page has its own token, and the server listens only on 127.0.0.1."""
    assert page.url == f"http://127.0.0.1:{page.server_port}/{page.token}/"
    assert len(page.token) >= 20
    assert page.server_address[0] == "127.0.0.1"
    other = sheet.with_name("annotator_2.csv")
    with serving(other) as second:
        assert second.token != page.token


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", ""])
def test_other_host_names_are_refused(page: AnnotationPage, host: str) -> None:
    """A request for a host name that resolves to this machine gets nothing, with or without a token."""
    assert ask(page, "state", Host=host)[0] == 403
    assert ask(page, "state", Host=f"localhost:{page.server_port}")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "https://127.0.0.1", None])
def test_other_pages_cannot_answer(page: AnnotationPage, sheet: Path, origin: str | None) -> None:
    """A request with another origin or without one changes nothing."""
    before = sheet.read_bytes()
    assert ask(page, "answer", ANSWER, Origin=origin)[0] == 403
    assert sheet.read_bytes() == before


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b"\xff", {}, 400),
        (b"[" * 60_000, {}, 400),
        ({"question": "1", "answers": {}}, {}, 400),
        ({"question": True, "answers": {}}, {}, 400),
        ({"question": 1, "answers": {"choice": 1}}, {}, 400),
        ({"question": 1, "answers": ["choice"]}, {}, 400),
        ({"question": 99, "answers": {"choice": "1"}}, {}, 422),
        ({"question": 1, "answers": {"choice": "9"}}, {}, 422),
        ({"question": 1, "answers": {"sentence": "x"}}, {}, 422),
        (ANSWER, {"Content_Type": "text/plain"}, 415),
        (ANSWER, {"Content_Length": "-1"}, 411),
        (b"x" * 70_000, {}, 413),
    ],
)
def test_malformed_answers_are_refused(
    page: AnnotationPage, sheet: Path, body: object, headers: dict[str, str], status: int
) -> None:
    """Anything that is not an answer to a question of the sheet is refused and changes nothing."""
    before = sheet.read_bytes()
    response_status, response, _ = ask(page, "answer", body, **headers)
    assert (response_status, response["saved"]) == (status, False)
    assert response["error"]
    assert sheet.read_bytes() == before
    assert answer(page, 1, choice="1")["saved"]


def test_closed_tab_leaves_no_traceback(page: AnnotationPage, capfd: pytest.CaptureFixture[str]) -> None:
    """A broken connection leaves no traceback, and the page continues to work."""
    request = f"GET /{page.token}/state HTTP/1.1\r\nHost: 127.0.0.1:{page.server_port}\r\n\r\n".encode()
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", page.server_port)) as broken:
            broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            broken.sendall(request)
    assert answer(page, 1, choice="1")["saved"]
    assert "Traceback" not in capfd.readouterr().err


def test_ended_page_accepts_no_answer(sheet: Path) -> None:
    """After the page has ended, a tab with an open connection cannot write to the sheet."""
    with page_of(sheet) as page:
        connection = http.client.HTTPConnection("127.0.0.1", page.server_port, timeout=60)
        connection.request("GET", f"/{page.token}/state")
        assert connection.getresponse().read()

    def post() -> None:
        headers = JSON | {"Origin": page.url.rsplit("/", 2)[0]}
        connection.request("POST", f"/{page.token}/answer", json.dumps(ANSWER).encode(), headers)
        connection.getresponse()

    with pytest.raises((ConnectionError, http.client.HTTPException)):
        post()
    connection.close()
    assert {line["choice"] for line in read_cells(sheet)} == {""}


def test_many_answers_at_once(page: AnnotationPage, sheet: Path) -> None:
    """Simultaneous answers from several tabs are all saved in the file."""
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda n: answer(page, n, choice=str(1 + n % 2)), range(1, 21)))
    assert all(response["saved"] for response in responses)
    assert [line["choice"] for line in read_cells(sheet)] == [str(1 + n % 2) for n in range(1, 21)]


def test_missing_sheet_is_reported_and_answers_are_kept(page: AnnotationPage, sheet: Path) -> None:
    """While the file is missing, answers are kept and can be downloaded; they are saved once it is back."""
    away = sheet.with_name("moved.csv")
    answer(page, 1, choice="1")
    sheet.rename(away)
    response = answer(page, 2, choice="2")
    assert not response["saved"]
    assert "No such file" in response["error"]
    assert "put it back" in response["error"]
    assert not answer(page, 2, confidence="1")["saved"]
    assert not sheet.exists()
    assert "No such file" in ask(page, "state")[1]["error"]
    _, copy, headers = ask(page, "sheet.csv")
    assert copy.decode("utf-8-sig").splitlines()[2].split(",")[-2:] == ["2", "Absolutely sure"]
    assert "attachment" in headers["Content-Disposition"]
    away.rename(sheet)
    assert ask(page, "state")[1]["error"] == ""
    assert [line["choice"] for line in read_cells(sheet)[:3]] == ["1", "2", ""]
    assert read_cells(sheet)[1]["confidence"] == "Absolutely sure"


def test_full_disk_is_reported_and_answers_are_kept(page: AnnotationPage, sheet: Path) -> None:
    """A full disk leaves the sheet unchanged, and the waiting answer is saved with the next one."""
    answer(page, 1, choice="1")
    before = sheet.read_bytes()
    with full_disk():
        response = answer(page, 2, choice="2")
    assert not response["saved"]
    assert "cannot be written (File too large)" in response["error"]
    assert sheet.read_bytes() == before
    assert not list(sheet.parent.glob(".*.part"))
    assert answer(page, 3, choice="1")["saved"]
    assert [line["choice"] for line in read_cells(sheet)[:4]] == ["1", "2", "1", ""]


def test_replaced_sheet_is_not_written(page: AnnotationPage, sheet: Path) -> None:
    """If the file is damaged or has another question under the number, the answer is kept unsaved."""
    own = sheet.read_bytes()
    sheet.write_bytes(sheet.with_name("annotator_2.csv").read_bytes())
    assert "question 2 is missing or was changed" in answer(page, 2, choice="2")["error"]
    sheet.write_bytes(own.replace(b"question,", b"number,"))
    assert "no column 'question'" in answer(page, 3, choice="2")["error"]
    sheet.write_bytes(own)
    assert answer(page, 4, choice="2")["saved"]
    assert [line["choice"] for line in read_cells(sheet)[:4]] == ["", "2", "2", "2"]


def test_unsaved_answers_are_written_to_another_file(
    sheet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the page ends while the file is missing, one line says where its answers were saved."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with page_of(sheet) as page:
        answer(page, 1, choice="2", confidence="1")
        sheet.unlink()
        answer(page, 2, choice="1")
    (kept,) = (tmp_path / "tmp").glob("*/*.csv")
    assert page.save_error.startswith("1 answered question could not be saved (")
    assert page.save_error.endswith(str(kept))
    assert [line["choice"] for line in read_cells(kept)[:3]] == ["2", "1", ""]


def test_last_save_is_retried(sheet: Path) -> None:
    """If the file is writable again before the end, the waiting answer is saved in it."""
    opened = SheetEditor(sheet)
    with full_disk():
        assert opened.answer(1, {"choice": "2"})
    assert opened.close() == ""
    assert read_cells(sheet)[0]["choice"] == "2"
    assert opened.counts() == (0, 20)


def test_two_pages_of_one_sheet(sheet: Path) -> None:
    """A second page of an open sheet is refused, also through a link, and another sheet can be opened."""
    link = sheet.with_name("link.csv")
    link.symlink_to(sheet)
    before = set(sheet.parent.iterdir())
    with serving(sheet):
        for path in (sheet, link):
            with pytest.raises(UsageError, match="another page has this sheet open"), serving(path):
                pass
        with serving(sheet.with_name("annotator_2.csv")):
            pass
    with page_of(link) as page:
        assert answer(page, 1, choice="2")["saved"]
    assert link.is_symlink()
    assert read_cells(sheet)[0]["choice"] == "2"
    assert set(sheet.parent.iterdir()) == before


def test_unusable_ports_and_files(page: AnnotationPage, sheet: Path, tmp_path: Path) -> None:
    """An unusable port or file gives a one-line message, and the sheet stays available for the next page."""
    other = sheet.with_name("annotator_2.csv")
    cases: list[tuple[type[Exception], str, Path, int]] = [
        (UsageError, "choose another port", other, page.server_port),
        (UsageError, "not a port", other, 70_000),
        (DataError, "No such file", tmp_path / "none.csv", 0),
        (DataError, "no column 'question'", sheet.with_name("key.json"), 0),
    ]
    for error, message, path, port in cases:
        with pytest.raises(error, match=message), serving(path, port):
            pass
    with serving(other):
        pass
