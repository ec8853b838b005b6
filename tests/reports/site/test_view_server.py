"""Who the server answers, and what it saves: requests as a hostile page or program sends them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.reports.site import pages
from pytest_llmprops.reports.site.app import Server
from pytest_llmprops.reports.site.pages import id_of
from pytest_llmprops.runs.readings import REVIEWS, read_reviews
from tests.support.records import recorded, verdict, verdicts
from tests.support.view_server import ask, first_message, viewed


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs."""
    folder = tmp_path_factory.mktemp("runs")
    recorded(folder / "old", [*verdicts("add", 5, 5), verdict("add", 99, id="evil\u202e\x1b")])
    recorded(folder / "new", verdicts("add", 7, 3))
    return folder


#: what builds pages, and the pages that were built without it
WORK = pages.work
BUILT: list[str] = []


def write(out: Path, name: str) -> None:
    """Write a page with its number."""
    out.mkdir(exist_ok=True)
    (out / name).write_text(f"page {len(BUILT)}")
    BUILT.append(name)


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Server]:
    """Return a server of these runs, whose pages have one line."""
    with pytest.MonkeyPatch.context() as patch:

        async def build(job: Any) -> str:
            write(Path(job["out"]), "report.html" if "report" in job else "index.html")
            return ""

        patch.setattr(pages, "work", build)
        with viewed(runs) as server:
            first_message(server.address)
            yield server


@pytest.fixture
def origin(server: Server) -> str:
    """Return the origin of the server's pages."""
    return "/".join(server.address.split("/")[:3])


@pytest.fixture
def report(server: Server, runs: Path) -> str:
    """Return the address of a report."""
    return f"{server.address}reports/{id_of(runs / 'old')}/run/"


MARK = {"run": "old", "model": "model", "benchmark": "sums", "source": "builtin", "id": "sums/en/add/0007"}


def test_only_the_address_with_the_token_is_answered(server: Server, origin: str) -> None:
    """Every other path is refused, also one that is almost the token, and a site whose name leads to 127.0.0.1.

    The address on the command line of the browser, which other users of the machine see, has a use once.
    """
    place = server.address[len(origin) :]
    assert ask(server.address).status == 200
    for path in ("/", "/x/", "/favicon.ico", place[:-3] + "/", "//", "/%00/"):
        refused = ask(origin + path)
        assert (refused.status, server.address.split("/")[3] in refused.text) == (403, False)
    assert ask(server.address.rstrip("/")).headers["location"] == place
    assert server.address_once != server.address
    assert ask(server.address_once).headers["location"] == place
    assert ask(server.address_once).status == 403
    port = origin.split(":")[2]
    hosts = ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", f"localhost.evil:{port}")
    # DNS rebinding: another name for this machine gets nothing, even with the token.
    for host in hosts:
        assert ask(server.address, Host=host).status == 403
    assert ask(server.address, Host=f"localhost:{port}").status == 200


def test_another_origin_changes_nothing(server: Server, report: str, runs: Path, origin: str) -> None:
    """A request that saves something must say that it is from a page of this server."""
    address, file = report + "reviews", runs / "old" / REVIEWS
    # Other tests of this module may have saved marks.
    before = file.read_bytes() if file.exists() else None
    assert ask(address, "POST", {**MARK, "note": "x"}).status == 403
    for other in ("null", "http://evil.example", origin.replace("http", "https")):
        assert ask(address, "POST", {**MARK, "note": "x"}, Origin=other).status == 403
    assert (file.read_bytes() if file.exists() else None) == before


def test_what_a_request_gets(server: Server, report: str, origin: str) -> None:
    """Only the page of a report is served, and only listed runs are read; nothing can be put, deleted or asked about.

    Every answer has a policy, no answer is stored by the browser, and the address is not sent to other sites.
    """
    for address in (server.address, f"{report}reviews", f"{report}report.html"):
        headers = ask(address).headers
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
    for path in ("../run.json", "..%2f..%2frun.json", "%2e%2e/report.html", "/etc/passwd", "report.md"):
        assert ask(report + path).status in (403, 404), path
    elsewhere = ("reports/..%2f..%2fetc/run/x", "reports/0123/run/report.html")
    for path in ("../app.py", "site/index.html", *elsewhere):
        assert ask(server.address + path).status == 404, path
    assert ask(f"{report}report.html").text.startswith("page ")
    for method in ("PUT", "DELETE", "OPTIONS", "POST"):
        assert ask(server.address, method, Origin=origin).status == 405
    assert ask(server.address, "POST").status == 403


def test_a_mark_is_saved_beside_its_run(report: str, runs: Path, origin: str) -> None:
    """The time is the server's; the answer and the list have what was saved.

    The page shows an id with control characters spelled out; the record's own id is saved.
    """
    mark = {**MARK, "judged_wrongly": True, "note": "both are right", "time": "1999", "sample": 0}
    saved = ask(f"{report}reviews", "POST", mark, Origin=origin)
    assert (saved.status, saved.json["note"], saved.json["time"] > "2020") == (200, "both are right", True)
    assert ask(f"{report}reviews").json == [saved.json]
    [kept] = read_reviews(runs / "old", "old").values()
    assert (kept.id, kept.note, kept.judged_wrongly) == ("sums/en/add/0007", "both are right", True)
    ask(f"{report}reviews", "POST", {**mark, "judged_wrongly": False, "note": ""}, Origin=origin)
    assert ask(f"{report}reviews").json == []
    odd = {**MARK, "id": "evil[U+202E]␛", "note": "odd"}
    assert ask(f"{report}reviews", "POST", odd, Origin=origin).json["id"] == "evil[U+202E]␛"
    assert [kept.id for kept in read_reviews(runs / "old", "old").values()] == ["evil\u202e\x1b"]
    # The tests of this module share the runs, and each may be the first.
    ask(f"{report}reviews", "POST", {**odd, "note": ""}, Origin=origin)
    assert ask(f"{report}reviews").json == []


def test_a_wrong_mark_is_refused(report: str, runs: Path, origin: str) -> None:
    """The answer is one line that says why, and nothing is written."""
    wrong: list[tuple[Any, int, str]] = [
        (b"{", 400, "not JSON"),
        ([], 400, "not an object"),
        ({}, 400, "has no 'run'"),
        ({**MARK, "id": "sums/en/add/0100"}, 400, "on a verdict that this run does not have"),
        ({**MARK, "run": "../old"}, 400, "on a verdict that this run does not have"),
        ({**MARK, "run": 3}, 400, "'run' that is not a string"),
        ({**MARK, "sample": -1}, 400, "'sample'"),
        ({**MARK, "note": "x" * 2001}, 400, "2,001 characters"),
        ({**MARK, "note": "x" * 70_000}, 413, "too long"),
    ]
    before = {path: path.read_bytes() for path in runs.rglob(REVIEWS)}
    for body, status, problem in wrong:
        answer = ask(f"{report}reviews", "POST", body, Origin=origin)
        assert (answer.status, problem in answer.json["error"]) == (status, True), problem
    assert {path: path.read_bytes() for path in runs.rglob(REVIEWS)} == before


def test_a_report_is_built_again_only_after_a_change(report: str, runs: Path) -> None:
    """A page of an opened report is of the same build; loading the report after a change builds it again."""
    first = ask(f"{report}report.html").text
    assert ask(f"{report}report.html").text == first
    with (runs / "old" / "run.json").open("a") as file:
        file.write(" ")
    assert ask(f"{report}report.html").text != first
    assert ask(report).headers["location"].endswith("/run/report.html")


def test_a_worker_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real worker: a record without a readable verdict ends with one line, and the page lists it."""
    monkeypatch.setattr(pages, "work", WORK)
    run = recorded(tmp_path / "run", verdicts("add", 2, 0))
    (run / "verdicts.jsonl").write_text("damaged\ndamaged\n")
    with viewed(tmp_path) as server:
        answer = ask(f"{server.address}reports/{id_of(run)}/run/report.html")
        assert answer.status == 500
        assert "line 1 is damaged" in answer.text
        first_message(server.address)
        assert "verdicts.jsonl: line 1 is damaged" in ask(server.address).text
