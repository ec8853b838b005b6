"""Building the site: incremental, whole at any time, and never stopped by a damaged run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.data.whole_files import replacing
from pytest_llmprops.reports.page import build as page_build
from pytest_llmprops.reports.page.build import run_page
from pytest_llmprops.reports.site import build, contributions
from pytest_llmprops.reports.site.build import Reports, write_site
from pytest_llmprops.runs.catalog import promote
from pytest_llmprops.runs.integrity import run_json
from pytest_llmprops.runs.reader import Run, read_run
from tests.support.records import as_schema_1, recorded, verdicts
from tests.support.team_runs import answers, record


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Return few runs, which a test may change: two models, a killed run and a damaged one."""
    folder = tmp_path / "runs"
    for day, model in enumerate(("steady", "close", "steady", "smoke")):
        record(folder / f"{model}-{day}", day, answers(model, 0.8, day, items=20))
    record(folder / "killed", 8, answers("steady", 0.1, 8, items=20), complete=False)
    record(folder / "damaged", 9, answers("steady", 0.1, 9, items=20))
    (folder / "damaged" / "verdicts.jsonl").write_text("{}\n{}\n", encoding="utf-8")
    return folder


def content(site: Path) -> dict[str, bytes]:
    """Return all files of a site."""
    return {str(p.relative_to(site)): p.read_bytes() for p in sorted(site.rglob("*")) if p.is_file()}


def check_whole(site: Path) -> None:
    """Check that the page is complete, and that every file that it names exists."""
    page = site / "index.html"
    if page.exists():
        text = page.read_text(encoding="utf-8")
        assert text.rstrip().endswith("</html>")
        for link in re.findall(r'href="([^"#]+)', text):
            assert (site / link).is_file(), link


def page_text(site: Path) -> str:
    """Return the page as text, with ``|`` for its marks."""
    page = (site / "index.html").read_text("utf-8").split("<main")[1]
    return unescape(re.sub(r"<[^>]+>", "|", page))


def test_an_incremental_build_has_the_bytes_of_a_full_one(few: Path, tmp_path: Path) -> None:
    """A run that is added, changed or removed leaves the site that a build without an earlier one gives."""
    site = tmp_path / "site"
    costly = {"requests": 20, "cost_usd": 0.0456}
    changes: list[tuple[Callable[[], object], Reports]] = [
        (lambda: record(few / "steady-9", 40, answers("steady", 0.3, 11, items=20)), "none"),
        (lambda: record(few / "steady-0", 0, answers("steady", 0.8, 0, items=20), calls=costly), "none"),
        (lambda: shutil.rmtree(few / "close-1"), "none"),
        (lambda: record(few / "killed", 8, answers("steady", 0.1, 8, items=20)), "none"),
        (lambda: (few / "smoke-3" / "review.jsonl").write_text(_mark("smoke-3"), encoding="utf-8"), "latest"),
    ]
    write_site([few], site, "none")
    for number, (change, reports) in enumerate(changes):
        change()
        write_site([few], site, reports)
        write_site([few], tmp_path / f"new-{number}", reports)
        assert content(site) == content(tmp_path / f"new-{number}")
        check_whole(site)
    text = page_text(site)
    assert "close-1" not in text
    assert "steady-9" in text


def _mark(run: str) -> str:
    fields = {"run": run, "model": "smoke", "benchmark": "homophones", "source": "builtin", "note": "see"}
    return json.dumps({**fields, "id": "homophones/en/asked/0000"}) + "\n"


def test_a_build_without_a_change_reads_no_verdict_and_writes_nothing(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only records that may still change are read again."""
    site = tmp_path / "site"
    # The only model of a table is described by its verdicts.
    record(few / "alone", 5, verdicts("rhyme", 5, 5, benchmark="htest"))
    write_site([few], site, "none")
    times = {path: path.stat().st_mtime_ns for path in site.rglob("*")}
    read: list[str] = []

    def counted(folder: Path) -> Run:
        read.append(folder.name)
        return read_run(folder)

    monkeypatch.setattr(contributions, "read_run", counted)
    write_site([few], site, "none")
    assert read == ["damaged"]
    assert {path: path.stat().st_mtime_ns for path in site.rglob("*")} == times
    # One more answer in the file of a finished record is seen.
    with (few / "steady-0" / "verdicts.jsonl").open("a") as file:
        file.write("\n")
    write_site([few], site, "none")
    assert read == ["damaged", "damaged", "steady-0"]


class Stopped(BaseException):
    """The process ends here."""


def test_a_build_that_is_killed_leaves_a_whole_site(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill before any file, every page is complete and names only files that exist; the next build finishes."""
    # A report takes longer than everything else.
    made: dict[Path, bytes] = {}
    monkeypatch.setattr(
        build, "run_page", lambda run: made.get(run.folder) or made.setdefault(run.folder, run_page(run))
    )
    old = tmp_path / "old"
    write_site([few], old)
    record(few / "steady-9", 40, answers("steady", 0.2, 11, items=20))
    shutil.rmtree(few / "close-1")
    write_site([few], tmp_path / "new")
    new = content(tmp_path / "new")
    count = 0
    while True:
        site = tmp_path / f"killed-{count}"
        shutil.copytree(old, site)
        left = count

        def stop(path: Path) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                (path.parent / f".{path.name}.1.part").write_bytes(b"half")
                raise Stopped
            return replacing(path)

        monkeypatch.setattr(page_build, "replacing", stop)
        try:
            write_site([few], site)
            break
        except Stopped:
            check_whole(site)
            has_new_index = (site / "index.html").read_bytes() == new["index.html"]
            assert not has_new_index
        if count == 1:
            monkeypatch.setattr(page_build, "replacing", replacing)
            write_site([few], site)
            assert content(site) == new
        shutil.rmtree(site)
        count += 1
    assert count >= 3


def test_what_is_damaged_is_made_again(few: Path, tmp_path: Path) -> None:
    """Damage of what a build kept is made good; added files (CNAME) stay."""
    site = tmp_path / "site"
    write_site([few], site, "none")
    (site / "CNAME").write_text("evals.example")
    before = content(site)
    (site / "data" / "known").write_bytes(b"damaged")
    write_site([few], site, "none")
    assert content(site) == before


def test_runs_that_do_not_count_are_listed_with_the_reason(tmp_path: Path) -> None:
    """Broken and incomplete records are listed with one line each, without paths, and are in no table."""
    folder = tmp_path / "runs"
    good = record(folder / "good", 0, answers("good", 0.9, 1))
    record(folder / "short", 1, answers("bad", 0.9, 1), complete=False)
    cut = record(folder / "cut", 2, answers("bad", 0.9, 1))
    (cut / "verdicts.jsonl").unlink()
    edited = record(folder / "edited", 3, answers("bad", 0.9, 1))
    (edited / "run.json").write_text((edited / "run.json").read_text().replace("0.0123", "0.0001"))
    (folder / "torn").mkdir()
    (folder / "torn" / "run.json").write_text('{"schema": 2, "summary": [')
    (folder / "typed").mkdir()
    (folder / "typed" / "run.json").write_text('{"schema": 2, "models": {"m": {"served_as": 3}}}')
    (folder / "bare").mkdir()
    (folder / "bare" / "verdicts.jsonl").write_text("")
    site = tmp_path / "site"
    write_site([folder], site, "all")
    text = page_text(site)
    for name, reason in {
        "short": "incomplete: 120 of 120 cases have a verdict",
        "cut": "verdicts.jsonl: is missing; copy the run's whole folder",
        "edited": "run.json was changed after the run",
        "torn": "run.json: is damaged (not JSON)",
        "typed": "has a 'models.m.served_as' that is not a list",
        "bare": "has no run.json, so it is not a run",
    }.items():
        assert re.search(rf"\|{name}\|.*{re.escape(reason)}", text), name
    assert str(tmp_path) not in "".join(p.read_text("utf-8", "replace") for p in site.glob("*.html"))
    assert "bad" not in text
    assert good.is_dir()
    check_whole(site)


def test_values_of_wrong_types_never_stop_the_build(tmp_path: Path) -> None:
    """Records with fitting hashes, but with values that no version writes, leave the other runs as they are."""
    strange: list[dict[str, Any]] = [
        {"started": 5}, {"models": {"bad": {"spec": "bad", "served_as": 7}}}, {"calls": {"requests": "many"}},
        {"protocols": {"homophones": {"name": "quick", "settings": [1]}}},
        {"gate": {"decision": "pass", "rules": [{"name": 5, "checks": []}]}},
        {"options": {"params": "x"}, "data": {"f": 3}, "deviations": {"bad": [1]}},
    ]  # fmt: skip
    good = record(tmp_path / "runs" / "good", 0, answers("good", 0.9, 1, items=10))
    for n, values in enumerate(strange):
        bad = record(tmp_path / "runs" / f"strange-{n}", 1, answers("bad", 0.9, 1, items=10))
        facts = json.loads((bad / "run.json").read_text())
        (bad / "run.json").write_text(run_json({**facts, **values}))
    (good / "review.jsonl").symlink_to("run.json")
    write_site([tmp_path / "runs"], tmp_path / "site", "none")
    text = page_text(tmp_path / "site")
    assert [n for n in range(len(strange)) if f"|strange-{n}|" not in text] == []
    assert "links are not followed" in text
    check_whole(tmp_path / "site")


def test_copies_and_old_records_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A baseline and its original are one run. Records of schema 1 have no hashes, and are read each time."""
    monkeypatch.chdir(tmp_path)
    original = record(tmp_path / "reports" / "runs" / "one", 0, answers("good", 0.9, 1))
    promote(original, "current")
    old = as_schema_1(recorded(tmp_path / "runs" / "old", verdicts("add", 8, 2)))
    facts = json.loads((old / "run.json").read_text())
    hashes = ("files", "content_sha256")
    (old / "run.json").write_text(json.dumps({k: v for k, v in facts.items() if k not in hashes}))
    for places in (("reports", "baselines"), ("runs",), ("runs",)):
        write_site([tmp_path / place for place in places], tmp_path / "site", "none")
        text = page_text(tmp_path / "site")
        assert "1 run of 1 model" in text
        assert ("also baseline current" in text) == ("baselines" in places)


def test_which_reports_are_included(few: Path, tmp_path: Path) -> None:
    """The reports of the runs that the leaderboard shows are included by default; none on request.

    A run whose requests are damaged counts in tables; its report is missing.
    """
    site = tmp_path / "site"
    shown = {"steady-2", "close-1", "smoke-3"}
    file = few / "close-1" / "requests.jsonl"
    for reports, names in (("latest", shown), ("none", set()), ("latest", shown - {"close-1"})):
        write_site([few], site, reports)  # type: ignore[arg-type]
        assert {path.parent.name.rpartition("-")[0] for path in site.glob("runs/*/report.html")} == names
        check_whole(site)
        if not names:
            file.write_text("\n".join(["{", *file.read_text().splitlines()]))
