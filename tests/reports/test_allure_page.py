"""The Allure report, opened from disk in a browser: what it shows, and which requests it sends."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

from pytest_llmprops.records.files import from_plain
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.reports.allure import run as allure_run
from pytest_llmprops.reports.allure import site
from tests.support.allure import EVIL, MIXED, MIXED_MODEL
from tests.support.programs import NPM
from tests.support.runs import ROOT, Runner

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("allure_pytest", reason="needs allure-pytest: pip install -e '.[dev]'")

CHECK = {
    "kind": "min_accuracy", "required": "accuracy of at least 99%", "measured": "76.9%", "verdict": "failed",
    "reason": "<img src=x onerror=alert(2)>",
}  # fmt: skip
RULE = {"name": "sums add en", "verdict": "failed", "items": 15, "checks": [CHECK]}
LINE = "gate: fail (accuracy is too low)"
GATE = {"decision": "fail", "line": LINE, "reasons": [], "notes": [], "rules": [RULE]}


@dataclass(frozen=True)
class Report:
    """A report in a file."""

    url: str
    name: str = ""

    def open(self, page: Page) -> None:
        """Open the report and wait for its tree."""
        page.goto(self.url)
        page.locator("[data-testid=tree-leaf], [data-testid=tree-section]").first.wait_for()


def allure() -> str:
    """Return the Allure that make installs, or skip the test."""
    command = ROOT / site.LOCAL
    if not command.exists() and shutil.which("allure") is None:
        NPM.path()
        pytest.skip(f"needs Allure: npm install --prefix .venv-allure allure@{site.VERSION}")
    return site.find_allure(str(command) if command.exists() else None)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report on the second of two runs of the mixed benchmark: other prompts, and a gate."""
    command = allure()
    folder = tmp_path_factory.mktemp("allure") / "project"
    folder.mkdir()
    run = Runner(folder)
    results, out, history = folder / "results", folder / "report.html", folder / "history.jsonl"
    run.write("mixed.py", MIXED_MODEL)
    for text in ("What is", "How much is"):
        run.write("test_mixed.py", MIXED.replace("TEXT", text))
        done = run("--model", "fake:call?file=mixed.py", "--alluredir", str(results), "--clean-alluredir")
        if text == "How much is":
            known = json.loads((results / allure_run.SITE).read_text(encoding="utf-8"))
            known["gate"] = allure_run.quality_gate(from_plain(GateResult, GATE))
            (results / allure_run.SITE).write_text(json.dumps(known), encoding="utf-8")
        assert site.build(results, out, history, allure=command) == []
    return Report(out.as_uri(), done.folder.name)


@pytest.fixture
def page(browser_page: Page, report: Report) -> Iterator[Page]:
    """Return an empty page; at the end, check that no script ran and no other host was contacted."""
    seen: Any = browser_page
    yield browser_page
    assert seen.problems == []
    assert [url for url in seen.requests_seen if not url.startswith((report.url, "data:", "blob:"))] == []
    assert seen.requests_seen


def case(page: Page, report: Report, title: str) -> None:
    """Click through the tree to a case."""
    report.open(page)
    page.get_by_test_id("tree-leaf").filter(has_text=title).click()
    page.get_by_test_id("test-result-info-title").filter(has_text=title).wait_for()


def attachment(page: Page, name: str) -> str:
    """Open the attachment ``name`` of the case and return its visible text."""
    box = page.get_by_test_id("test-result-attachment").filter(
        has=page.get_by_test_id("test-result-attachment-header").filter(has_text=name)
    )
    box.get_by_test_id("test-result-attachment-header").first.click()
    content = box.get_by_test_id("code-attachment-content").first
    content.wait_for()
    return content.inner_text()


def test_a_failing_case_shows_prompt_reply_and_verdict(page: Page, report: Report) -> None:
    """The tree leads to a wrong answer with description, prompt and reply as text, verdict, and its earlier run."""
    case(page, report, "sums/0003")
    assert "wrong: expected '4'" in page.get_by_test_id("test-result-error-message").first.inner_text()
    assert attachment(page, "prompt").strip() == "How much is 3 + 1 ="
    assert attachment(page, "reply").strip() == EVIL.replace("\x1b", "␛")
    verdict = attachment(page, "verdict")
    assert "expected  4" in verdict
    frame = page.get_by_test_id("test-result-description-frame").content_frame
    assert "Does the model <b>add</b>? Adds one." in frame.locator("body").inner_text()
    assert "One more than *n*." in frame.locator("body").inner_text()
    assert page.locator("img[src=x]").count() == 0
    # The prompt has changed since the earlier run.
    page.get_by_test_id("test-result-tab-history").click()
    page.get_by_test_id("test-result-history-item").first.wait_for()
    assert page.get_by_test_id("test-result-history-item").count() == 1


def test_tabs_have_categories_environment_summary_and_gate(page: Page, report: Report) -> None:
    """Categories are this project's; model and protocol are in the environment; the summary is an attachment."""
    report.open(page)
    known = page.inner_text("body")
    assert "fake:call?file=mixed.py" in known
    # The figure of the chart is the report's, without controls: 10 of 13.
    assert "76.9%" in known.split("Results 20")[0]
    assert "Protocol sums" in known
    assert report.name in page.get_by_test_id("report-title").inner_text()
    page.get_by_test_id("nav-tab-categories").click()
    page.get_by_text("Wrong answers").first.wait_for()
    text = page.inner_text("body")
    # The mixed benchmark has no search; tests/plugin/test_searches.py checks that category.
    for row in allure_run.categories():
        assert (row["name"] in text) == (row["name"] != "Counterexamples")
    assert "Product errors" not in text
    assert "Test errors" not in text
    page.get_by_test_id("nav-tab-qualityGate").click()
    page.get_by_text(LINE).first.wait_for()
    text = page.inner_text("body")
    assert "sums add en: min_accuracy" in text
    assert "required: accuracy of at least 99%" in text
    assert "<img src=x onerror=alert(2)>" in text
    page.get_by_test_id("nav-tab-globalAttachments").click()
    assert "wrong sums/0003" in attachment(page, "run summary")


def test_a_browser_that_pauses_after_allures_script_shows_the_report(
    browser_page: Page, report: Report
) -> None:
    """The report waits for its data, which the script after Allure's defines."""
    text = Path(unquote(urlsplit(report.url).path)).read_text(encoding="utf-8")
    assert "<script async>" in text

    late = text.replace("<script async>", "<script src=slow.js></script><script async>", 1)

    def respond(route: Any) -> None:
        if route.request.url.endswith("slow.js"):
            time.sleep(0.3)
            route.fulfill(body="", content_type="text/javascript")
        else:
            route.fulfill(body=late, content_type="text/html")

    browser_page.route("http://report/**", respond)
    Report("http://report/").open(browser_page)


def test_no_section_contacts_another_host(page: Page, browser_page: Page, report: Report) -> None:
    """Every section of the report loads only its own files, and even a script inside cannot contact another host."""
    page.emulate_media(color_scheme="dark")
    for section in ("charts", "timeline"):
        page.goto(f"{report.url}#{section}")
        page.wait_for_function("document.querySelector('#app').innerText.trim()")
        page.wait_for_timeout(300)
    asked = browser_page.evaluate("fetch('http://localhost:9/x').then(() => 'sent', error => String(error))")
    seen: Any = browser_page
    assert "Failed to fetch" in asked
    assert not any(":9/" in url for url in seen.requests_seen)


def test_a_large_report_opens_closed_and_can_be_opened(
    run: Runner, browser_page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the limit, groups are closed; three clicks lead to a prompt, and what was opened stays open."""
    command = allure()
    monkeypatch.setattr(site, "OPEN", 50)
    run.sums(site.OPEN + 1)
    results, out = run.folder / "results", run.folder / "report.html"
    run.write(
        "late.py", "def reply(chat):\n    n = int(chat.prompt.split()[0])\n    return str(n + (n != 40))\n"
    )
    run("--model", "fake:call?file=late.py", "--alluredir", str(results))
    site.build(results, out, None, allure=command)
    large = Report(out.as_uri())
    large.open(browser_page)
    browser_page.wait_for_timeout(500)
    assert browser_page.get_by_test_id("report-title").is_visible()
    box = browser_page.get_by_test_id("report-title").bounding_box()
    assert box is not None
    assert box["y"] > 0, "the page has scrolled away from its heading"
    assert browser_page.get_by_test_id("tree-leaf").count() == 0
    browser_page.get_by_test_id("tree-arrow").last.click()
    browser_page.get_by_test_id("tree-leaf").first.click()
    assert attachment(browser_page, "prompt").strip().startswith("40 ")
    large.open(browser_page)
    browser_page.get_by_test_id("tree-leaf").first.wait_for()
    assert browser_page.get_by_test_id("tree-leaf").count() == site.OPEN + 1
