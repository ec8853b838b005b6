"""Building the Allure report: refused input, parts removed from the pages, and the history."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.gate_results import GateResult
from pytest_llmprops.reports.allure import run, site

PAGE = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><link href="data:,"></head>
<body><div id="app"></div><script src="app.js"></script>MORE
<script async>
  window.allureReportDataReady = true;
</script></body></html>"""
ANALYTICS = """<script async src="https://www.googletagmanager.com/gtag/js?id=G-1"></script>
    <script>
        window.dataLayer = window.dataLayer || [];
        gtag('config', 'G-1');
    </script>"""


def report_folder(folder: Path, more: str, leaves: int = 1) -> Path:
    """Return a small report as Allure writes it."""
    (folder / "widgets").mkdir(parents=True)
    (folder / "app.js").write_text("app()", encoding="utf-8")
    (folder / "index.html").write_text(PAGE.replace("MORE", more), encoding="utf-8")
    tree = {
        "leavesById": {str(n): {} for n in range(leaves)},
        "groupsById": {"a": {"nodeId": "a", "groups": ["b"]}, "b": {"nodeId": "b", "leaves": ["0"]}},
    }
    (folder / "widgets" / "tree.json").write_text(json.dumps(tree), encoding="utf-8")
    return folder


def test_analytics_are_removed(tmp_path: Path) -> None:
    """Both Google Tag Manager scripts are removed, the rest is kept, and a policy forbids other hosts."""
    site.make_private(report_folder(tmp_path, ANALYTICS))
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
        site.make_private(report_folder(tmp_path, more))


def test_large_reports_open_with_closed_groups(tmp_path: Path) -> None:
    """Above the limit, groups that contain cases are closed once per report; below it nothing is added."""
    page = report_folder(tmp_path, "", leaves=site.OPEN) / "index.html"
    before = page.read_text(encoding="utf-8")
    site.fold(tmp_path)
    assert page.read_text(encoding="utf-8") == before
    tree = json.loads((tmp_path / "widgets" / "tree.json").read_text())
    tree["leavesById"]["one more"] = {}
    (tmp_path / "widgets" / "tree.json").write_text(json.dumps(tree))
    site.fold(tmp_path)
    after = page.read_text(encoding="utf-8")
    assert '"collapsedTrees","[\\"b\\"]"' in after
    assert after.index("collapsedTrees") < after.index('<div id="app">')


def test_without_results_one_line_says_what_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without results the command exits with 2 and names the command that produces results."""
    (tmp_path / "allure").write_text("#!/bin/sh\necho 3.18.0\n")
    (tmp_path / "allure").chmod(0o755)
    code = site.main(["--results", str(tmp_path / "none"), "--allure", str(tmp_path / "allure")])
    [line] = capsys.readouterr().err.splitlines()
    assert code == 2
    assert (
        "run pytest suites/ --model SPEC --alluredir reports/allure-results --clean-alluredir first" in line
    )


@pytest.mark.parametrize("name", ["thesis.html", "folder"])
def test_what_is_not_a_report_is_unchanged(tmp_path: Path, name: str) -> None:
    """--out never replaces anything except a report."""
    results, out = tmp_path / "results", tmp_path / name
    results.mkdir()
    (results / "1-result.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "thesis.html").write_text("mine")
    with pytest.raises(UsageError, match="is not an Allure report and is not changed: give another file"):
        site.build(results, out, None, allure="allure")
    assert (tmp_path / "thesis.html").read_text() == "mine"


@pytest.mark.parametrize(("says", "expected"), [("2.30.0", "is version 2.30.0"), ("", "is version unknown")])
def test_other_versions_of_allure_are_refused(tmp_path: Path, says: str, expected: str) -> None:
    """Only Allure 3 is accepted, and the error says how to install it."""
    command = tmp_path / "allure"
    command.write_text(f"#!/bin/sh\necho {says}\n")
    command.chmod(0o755)
    with pytest.raises(UsageError, match=expected):
        site.find_allure(str(command))
    with pytest.raises(UsageError, match="No such file"):
        site.find_allure(str(tmp_path / "nothing"))


def test_failing_allure_is_one_line_and_keeps_the_old_report(tmp_path: Path) -> None:
    """When Allure fails, its last line is shown and the old report is kept."""
    results, out = tmp_path / "results", tmp_path / "out.html"
    results.mkdir()
    (results / "1-result.json").write_text("{}")
    site.pack(report_folder(tmp_path / "old", ""), out)
    old = out.read_bytes()
    command = tmp_path / "allure"
    command.write_text("#!/bin/sh\necho first >&2\necho broken pipe >&2\nexit 3\n")
    command.chmod(0o755)
    with pytest.raises(UsageError, match="allure generate failed: broken pipe"):
        site.build(results, out, None, allure=str(command))
    assert out.read_bytes() == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["allure", "old", "out.html", "results"]


def test_rebuilt_report_is_in_the_history_once(tmp_path: Path) -> None:
    """The old history entry of a rebuilt report is removed; unreadable lines are kept."""
    history = tmp_path / "history.jsonl"
    site.forget(history, "a")
    history.write_text('{"name": "a"}\n{"name": "b"}\nnot json\n[1]\n')
    site.forget(history, "a")
    assert history.read_text() == '{"name": "b"}\nnot json\n[1]\n'


def test_history_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last report's entry loses labels that no chart uses; the oldest reports go when the file is too large."""
    history = tmp_path / "history.jsonl"
    result = {
        "status": "failed",
        "message": "m" * 1000,
        "labels": [{"name": "host", "value": "h"}, {"name": "epic", "value": "e"}],
    }
    lines = [json.dumps({"name": str(n), "testResults": {"a": result}}) for n in range(3)]
    history.write_text("\n".join(["not json", *lines]))
    site.reduce(history)
    *earlier, last = history.read_text().splitlines()
    assert earlier == ["not json", *lines[:2]]
    [kept] = json.loads(last)["testResults"].values()
    assert kept["labels"] == [{"name": "epic", "value": "e"}]
    assert kept["message"] == "m" * 299 + "…"
    monkeypatch.setattr(site, "MOST_BYTES", len(lines[1]) + len(last.encode()) + 2)
    site.reduce(history)
    assert [json.loads(line)["name"] for line in history.read_text().splitlines()] == ["1", "2"]
    monkeypatch.setattr(site, "MOST_BYTES", 10)
    site.reduce(history)
    assert [json.loads(line)["name"] for line in history.read_text().splitlines()] == ["2"]


def test_all_data_are_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every data file is in a compressed chunk, and the index says where."""
    monkeypatch.setattr(site, "CHUNK", 100)
    folder = report_folder(tmp_path / "site", "")
    contents = {f"data/attachments/{n}.txt": f"text {n} ü\n".encode() * n for n in range(20)}
    (folder / "data" / "attachments").mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    page = tmp_path / "report.html"
    site.pack(folder, page)
    text = page.read_text(encoding="utf-8")
    chunks = {
        name: gzip.decompress(base64.b64decode(encoded))
        for name, encoded in re.findall(r'<script type="application/gzip" id="chunk-(\w+)">([^<]+)<', text)
    }
    index = json.loads(chunks["index"])
    assert len(chunks) > 5
    assert {name: chunks[str(n)][start:end] for name, (n, start, end) in index.items()} == {
        **contents,
        "widgets/tree.json": (folder / "widgets" / "tree.json").read_bytes(),
    }
    assert base64.b64encode(b"app()").decode() in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('href="data:,"', 'href="styles.css"'),
        ('<script src="app.js"></script>', ""),
        ("allureReportDataReady", "otherReady"),
        ("</head>", ""),
    ],
)
def test_pages_of_another_kind_are_refused(tmp_path: Path, old: str, new: str) -> None:
    """A page with parts that the file would lack is refused with the version to use."""
    folder = report_folder(tmp_path / "site", "")
    page = folder / "index.html"
    page.write_text(page.read_text().replace(old, new))
    with pytest.raises(UsageError, match=f"build with allure@{site.VERSION}"):
        site.pack(folder, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_configuration_follows_the_results(tmp_path: Path) -> None:
    """Categories, metrics and the tree come from the results; with several models they are the tree's first
    level.
    """
    environment = {"Model a": "x", "Model b": "y", "Protocol htest": "quick", "Run": "run-7"}
    (tmp_path / run.ENVIRONMENT).write_text(run.properties(environment))
    (tmp_path / run.CATEGORIES).write_text(json.dumps(run.categories()))
    (tmp_path / run.METRICS).write_text(json.dumps([{"key": "a/htest/rhyme/en/builtin"}]))
    config = site.config(tmp_path, tmp_path / "site", tmp_path / "history.jsonl")
    assert config["name"] == "a, b · H-TEST · run-7"
    assert config["plugins"]["awesome"]["options"]["groupBy"] == ["parentSuite", "epic", "feature", "story"]
    assert "parentSuite" not in config["hideLabels"]
    assert "host" in config["hideLabels"]
    assert [c["groupByMessage"] for c in config["categories"]] == [False] * len(run.categories())
    assert config["performance"]["metrics"]["a/htest/rhyme/en/builtin"]["title"] == "htest/rhyme/en/builtin"
    default = site.config(tmp_path / "none", tmp_path / "site", None)
    assert (default["name"], default["categories"]) == ("pytest-llmprops", [])
    assert default["plugins"]["awesome"]["options"]["groupBy"] == ["epic", "feature", "story"]


def test_damaged_file_gives_one_line(tmp_path: Path) -> None:
    """A file that is not JSON is named in a one-line error."""
    (tmp_path / run.CATEGORIES).write_text("{")
    with pytest.raises(UsageError, match=r"categories\.json: not JSON"):
        site.config(tmp_path, tmp_path / "site", None)


def test_gate_archive_holds_results_of_the_quality_gate(tmp_path: Path) -> None:
    """The archive has the gate's rows and no cases."""
    gate = GateResult("pass", passed=True, line="gate: pass")
    site.write_gate(tmp_path / "gate.zip", gate)
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
    assert install.endswith(f" allure@{site.VERSION}")


def test_command_may_be_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path to the command is one from the current folder, although Allure runs in another one."""
    monkeypatch.chdir(tmp_path)
    command = Path("bin") / "allure"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\necho 3.0.0\n", encoding="utf-8")
    command.chmod(0o755)
    assert site.find_allure("bin/allure") == str(tmp_path / command)
    with pytest.raises(UsageError, match="give Allure 3 with --allure FILE"):
        site.find_allure("bin/other")
