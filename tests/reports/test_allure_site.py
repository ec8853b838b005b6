"""Building the Allure report: refused input, parts removed from the pages, and the history."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.reports import allure_pages, allure_run, allure_site

PAGE = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><link href="styles.css"></head>
<body><div id="app"></div><script src="app.js"></script>MORE</body></html>"""
ANALYTICS = """<script async src="https://www.googletagmanager.com/gtag/js?id=G-1"></script>
    <script>
        window.dataLayer = window.dataLayer || [];
        gtag('config', 'G-1');
    </script>"""


def site(folder: Path, more: str, leaves: int = 1) -> Path:
    """Return a small report as Allure writes it."""
    (folder / "widgets").mkdir()
    (folder / "index.html").write_text(PAGE.replace("MORE", more), encoding="utf-8")
    tree = {
        "leavesById": {str(n): {} for n in range(leaves)},
        "groupsById": {"a": {"nodeId": "a", "groups": ["b"]}, "b": {"nodeId": "b", "leaves": ["0"]}},
    }
    (folder / "widgets" / "tree.json").write_text(json.dumps(tree), encoding="utf-8")
    return folder


def test_analytics_are_removed(tmp_path: Path) -> None:
    """Both Google Tag Manager scripts are removed, the rest is kept, and a policy forbids other hosts."""
    allure_pages.make_private(site(tmp_path, ANALYTICS))
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "google" not in text
    assert "gtag" not in text
    assert '<script src="app.js"></script>' in text
    assert re.search(
        r"<head>\s*<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'self' ", text
    )


@pytest.mark.parametrize(
    "more",
    [
        '<script src="https://cdn.example.org/x.js"></script>',
        "<link href=//fonts.example.org/a.css>",
        '<script>load("https://www.google-analytics.com/c")</script>',
        ANALYTICS.replace("<script async", "<script defer data-x='>' async"),
    ],
)
def test_unknown_requests_are_refused(tmp_path: Path, more: str) -> None:
    """A page that contacts another host in an unknown way is refused."""
    with pytest.raises(UsageError, match=r"index\.html: this version of Allure asks other hosts"):
        allure_pages.make_private(site(tmp_path, more))


def test_large_reports_open_with_closed_groups(tmp_path: Path) -> None:
    """Above the limit, groups that contain cases are closed once per report; below it nothing is added."""
    page = site(tmp_path, "", leaves=allure_pages.OPEN) / "index.html"
    before = page.read_text(encoding="utf-8")
    allure_pages.fold(tmp_path)
    assert page.read_text(encoding="utf-8") == before
    tree = json.loads((tmp_path / "widgets" / "tree.json").read_text())
    tree["leavesById"]["one more"] = {}
    (tmp_path / "widgets" / "tree.json").write_text(json.dumps(tree))
    allure_pages.fold(tmp_path)
    after = page.read_text(encoding="utf-8")
    assert '"collapsedTrees","[\\"b\\"]"' in after
    assert after.index("collapsedTrees") < after.index('<div id="app">')


def test_without_results_one_line_says_what_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without results the command exits with 2 and names the command that produces results."""
    (tmp_path / "allure").write_text("#!/bin/sh\necho 3.18.0\n")
    (tmp_path / "allure").chmod(0o755)
    code = allure_site.main(["--results", str(tmp_path / "none"), "--allure", str(tmp_path / "allure")])
    [line] = capsys.readouterr().err.splitlines()
    assert code == 2
    assert (
        "run pytest suites/ --model SPEC --alluredir reports/allure-results --clean-alluredir first" in line
    )


def test_folder_that_is_not_a_report_is_unchanged(tmp_path: Path) -> None:
    """--out never replaces anything except a report."""
    results, out = tmp_path / "results", tmp_path / "out"
    results.mkdir()
    out.mkdir()
    (results / "1-result.json").write_text("{}")
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not a report and is not changed"):
        allure_site.build(results, out, None, allure="allure")
    assert (out / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(("says", "expected"), [("2.30.0", "is version 2.30.0"), ("", "is version unknown")])
def test_other_versions_of_allure_are_refused(tmp_path: Path, says: str, expected: str) -> None:
    """Only Allure 3 is accepted, and the error says how to install it."""
    command = tmp_path / "allure"
    command.write_text(f"#!/bin/sh\necho {says}\n")
    command.chmod(0o755)
    with pytest.raises(UsageError, match=expected):
        allure_site.find_allure(str(command))
    with pytest.raises(UsageError, match="No such file"):
        allure_site.find_allure(str(tmp_path / "nothing"))


def test_failing_allure_is_one_line_and_keeps_the_old_report(tmp_path: Path) -> None:
    """When Allure fails, its last line is shown and the old report is kept."""
    results, out = tmp_path / "results", tmp_path / "out"
    results.mkdir()
    out.mkdir()
    (results / "1-result.json").write_text("{}")
    (out / "index.html").write_text("old")
    command = tmp_path / "allure"
    command.write_text("#!/bin/sh\necho first >&2\necho broken pipe >&2\nexit 3\n")
    command.chmod(0o755)
    with pytest.raises(UsageError, match="allure generate failed: broken pipe"):
        allure_site.build(results, out, None, allure=str(command))
    assert (out / "index.html").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["allure", "out", "results"]


def test_rebuilt_report_is_in_the_history_once(tmp_path: Path) -> None:
    """The old history entry of a rebuilt report is removed; unreadable lines are kept."""
    history = tmp_path / "history.jsonl"
    allure_site.forget(history, "a")
    history.write_text('{"name": "a"}\n{"name": "b"}\nnot json\n[1]\n')
    allure_site.forget(history, "a")
    assert history.read_text() == '{"name": "b"}\nnot json\n[1]\n'


def test_configuration_follows_the_results(tmp_path: Path) -> None:
    """Categories, metrics and the tree come from the results; with several models they are the tree's first
    level.
    """
    environment = {"Model a": "x", "Model b": "y", "Protocol htest": "quick", "Run": "run-7"}
    (tmp_path / allure_run.ENVIRONMENT).write_text(allure_run.properties(environment))
    (tmp_path / allure_run.CATEGORIES).write_text(json.dumps(allure_run.categories()))
    (tmp_path / allure_run.METRICS).write_text(json.dumps([{"key": "a/htest/rhyme/en/builtin"}]))
    config = allure_site.config(tmp_path, tmp_path / "site", tmp_path / "history.jsonl")
    assert config["name"] == "a, b · H-TEST · run-7"
    assert config["plugins"]["awesome"]["options"]["groupBy"] == ["parentSuite", "epic", "feature", "story"]
    assert "parentSuite" not in config["hideLabels"]
    assert "host" in config["hideLabels"]
    assert [c["groupByMessage"] for c in config["categories"]] == [False] * len(allure_run.categories())
    assert config["performance"]["metrics"]["a/htest/rhyme/en/builtin"]["title"] == "htest/rhyme/en/builtin"
    default = allure_site.config(tmp_path / "none", tmp_path / "site", None)
    assert (default["name"], default["categories"]) == ("pytest-llmprops", [])
    assert default["plugins"]["awesome"]["options"]["groupBy"] == ["epic", "feature", "story"]


def test_damaged_file_gives_one_line(tmp_path: Path) -> None:
    """A file that is not JSON is named in a one-line error."""
    (tmp_path / allure_run.CATEGORIES).write_text("{")
    with pytest.raises(UsageError, match=r"categories\.json: not JSON"):
        allure_site.config(tmp_path, tmp_path / "site", None)


def test_gate_archive_holds_results_of_the_quality_gate(tmp_path: Path) -> None:
    """The archive has the gate's rows and no cases."""
    gate = GateResult("pass", passed=True, line="gate: pass")
    allure_site.write_gate(tmp_path / "gate.zip", gate)
    with zipfile.ZipFile(tmp_path / "gate.zip") as archive:
        [row] = json.loads(archive.read("quality-gate-results.json"))
        assert json.loads(archive.read("test-results.json")) == {}
    assert (row["success"], row["message"]) == (True, "gate: pass")


def test_make_installs_the_version_that_is_named_here() -> None:
    """The Makefile installs the Allure version that the messages name."""
    root = Path(__file__).resolve().parents[2]
    planned = subprocess.run(
        ["make", "--dry-run", "--always-make", "report"], cwd=root, capture_output=True, text=True, check=True
    )
    [install] = re.findall(r"npm install .*", planned.stdout)
    assert install.endswith(f" allure@{allure_pages.VERSION}")


def test_command_may_be_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path to the command is one from the current folder, although Allure runs in another one."""
    monkeypatch.chdir(tmp_path)
    command = Path("bin") / "allure"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\necho 3.0.0\n", encoding="utf-8")
    command.chmod(0o755)
    assert allure_site.find_allure("bin/allure") == str(tmp_path / command)
    with pytest.raises(UsageError, match="give Allure 3 with --allure FILE"):
        allure_site.find_allure("bin/other")
