"""The page of ``llmprops view`` in headless Chromium."""

from __future__ import annotations

import importlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.records.run import ModelMetadata
from pytest_llmprops.reports.site import live
from pytest_llmprops.reports.site.app import Server
from pytest_llmprops.reports.site.pages import id_of
from pytest_llmprops.runs.readings import read_reviews
from pytest_llmprops.runs.record import RunRecord, first_facts
from pytest_llmprops.runs.summary import summary_rows
from tests.support.browser import Open, accessibility_problems, visits
from tests.support.records import exchange, recorded, verdict, verdicts
from tests.support.view_server import viewed

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp.exe \x1b[2J"


@pytest.fixture(autouse=True, scope="module")
def _frequent_steps() -> Iterator[None]:
    """Let the server read on after a fraction of its second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "STEP_EVERY_SECONDS", 0.1)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs, a hostile one and a broken one."""
    folder = tmp_path_factory.mktemp("runs")
    for name, right, day in (("old", 4, 1), ("new", 8, 2)):
        records = [
            verdict("add", n, "correct" if n < right else "wrong", model=name, requests=(f"k{n}",))
            for n in range(10)
        ]
        requests = [exchange(f"k{n}", f"What is {n}?", f"{name} {HOSTILE}") for n in range(10)]
        recorded(folder / name, records, requests=requests, started=f"2026-01-0{day}T00:00:00+00:00")
    recorded(folder / HOSTILE.replace("/", "_"), verdicts("add", 1, 1, model=HOSTILE), notes=[HOSTILE])
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text('{"schema": 2, "models": 3}')
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Server]:
    """Return a server of these runs."""
    with viewed(runs) as server:
        yield server


@pytest.fixture
def show(browser_page: Any, server: Server) -> Iterator[Open]:
    """Open a page of the server."""
    browser_page.set_default_timeout(10_000)
    with visits(browser_page, server.address) as go:
        yield lambda address="": go(server.address + address)


def test_the_page_is_that_of_the_site(show: Open) -> None:
    """Accuracies and problems are those of ``llmprops site``; a run leads to its report."""
    page = show()
    page.locator("#runs tr", has_text="new").wait_for()
    assert "80.0% (44.4 to 97.5)" in page.locator("#runs tr", has_text="new").inner_text()
    assert "<script>alert(1)<_script>" in page.locator("#runs").inner_text()
    left_out = page.get_by_role("region", name="Runs that do not count, table").inner_text()
    assert "'models' that is not an object" in left_out
    assert page.locator("#link").inner_text() == "live"
    assert page.locator("#running").is_hidden()
    page.locator("#runs").get_by_role("link", name="new").click()
    page.wait_for_selector("[data-ready=items]", state="attached", timeout=60_000)
    assert "80.0%" in page.locator("h1").inner_text()


def test_review_marks_are_saved_beside_the_run(
    show: Open, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark is on the disk when the page says so, and is there after a reload."""
    page = show(f"reports/{id_of(runs / 'old')}/run/")
    page.locator("#list .open", has_text="sums/en/add/0005").click()
    page.get_by_label("Judgement").select_option("should be correct")
    page.locator(".review-state", has_text=re.compile("^Saved$")).wait_for()
    [mark] = read_reviews(runs / "old", "old").values()
    assert (mark.id, mark.judged_wrongly, mark.status) == ("sums/en/add/0005", True, "correct")

    # A full disk is said, and the note stays in its field until it can be saved.
    def full(folder: Path, review: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pytest_llmprops.reports.site.marks.append_review", full)
        page.get_by_label("Note").fill("right as well")
        page.get_by_label("Note").press("Enter")
        said = "Not saved: review.jsonl could not be written: No space left"
        page.locator(".review-state", has_text=said).wait_for()
        assert page.locator("#reviewed").inner_text() == "1 review mark, 1 not saved"
        assert all("status of 507" in text for text in page.noise)
        page.noise.clear()
    page.get_by_role("button", name="Save again").click()
    page.locator(".review-state", has_text=re.compile("^Saved$")).wait_for()
    assert [mark.note for mark in read_reviews(runs / "old", "old").values()] == ["right as well"]
    page.reload()
    page.wait_for_selector("[data-ready=items]", state="attached")
    # The marks arrive after the list of items.
    expect = importlib.import_module("playwright.sync_api").expect
    expect(page.get_by_label("Note")).to_have_value("right as well")


def test_a_folder_without_runs_waits_for_the_first(browser_page: Any, tmp_path: Path) -> None:
    """The first run, its progress, its death and the end of its folder are shown without a reload.

    A run that finishes leads to its report, and the report back. Axe finds nothing and the card fits, in both themes.
    """
    page = browser_page
    with viewed(tmp_path / "runs") as server:
        page.goto(server.address)
        page.locator("h1", has_text="No complete run yet").wait_for()
        folder = tmp_path / "runs" / ("a-long-name-" * 8)
        folder.mkdir(parents=True)
        models = {"model": ModelMetadata(spec="model")}
        record = RunRecord(folder, first_facts(folder, models=models, expected=4))
        page.locator(".run-card.running", has_text="0 of 4 cases").wait_for()
        record.add(verdict("add", 0, model=HOSTILE))
        record.add(verdict("add", 1, "wrong", reason=HOSTILE))
        page.locator(".run-card", has_text="2 of 4 cases").wait_for()
        assert page.title().startswith("50%")
        schemes: tuple[tuple[int, Any], ...] = ((390, "dark"), (1440, "light"))
        for width, scheme in schemes:
            page.set_viewport_size({"width": width, "height": 800})
            assert accessibility_problems(page, (scheme,)) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        record.close()
        killed = page.locator(".run-card.killed", has_text="Ended without finishing (killed?): 2 of 4 cases")
        killed.wait_for()
        assert f"llmprops run --resume {folder}" in killed.inner_text()
        shutil.rmtree(folder)
        page.locator(".run-card").wait_for(state="detached")
        folder.mkdir()
        record = RunRecord(folder, first_facts(folder, models=models, expected=1))
        record.add(verdict("add", 0))
        page.locator(".run-card.running", has_text="1 of 1 cases").wait_for()
        record.finish(replace(record.facts, complete=True, summary=summary_rows(record.records)))
        page.locator(".run-card.complete").wait_for()
        page.locator("#runs tr", has_text=folder.name).wait_for(timeout=60_000)
        page.get_by_role("link", name="Open the report").click()
        page.wait_for_selector("[data-ready=items]", state="attached", timeout=60_000)
        page.get_by_role("link", name="All runs").click()
        page.wait_for_selector("[data-ready=runs]", state="attached")
        assert page.problems == []
        server.should_exit = True
        page.locator("#link[data-state=lost]").wait_for()
