"""The Allure report: files of the run, single cases, and the pages that are built."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import Chat, Message, Reply, Segment, Usage
from pytest_llmprops.records.files import from_plain, run_metadata
from pytest_llmprops.records.gate import GateResult, MemberChange
from pytest_llmprops.reports.allure import case, run, site
from tests.support.records import verdict

CHECK = {
    "kind": "min_accuracy", "required": "at least 80%", "measured": "50.0% (31.3 to 68.7)", "verdict": "failed",
    "reason": "the lower limit is below 80%",
}  # fmt: skip
GATE_JSON: dict[str, Any] = {
    "decision": "fail",
    "file": "gate.toml",
    "baseline": None,
    "line": "gate: fail, rhyme is too low",
    "reasons": ["one reason"],
    "notes": ["one note"],
    "rules": [
        {"name": "rhyme", "verdict": "failed", "items": 30, "checks": [CHECK]},
        {"name": "end", "verdict": "met", "items": 30, "checks": [CHECK | {"verdict": "met", "reason": ""}]},
    ],
}
ROW = {
    "model": "m", "benchmark": "htest", "task": "rhyme", "language": "en", "source": "builtin", "items": 4,
    "clusters": 4, "errors": 0, "correct": 1, "wrong": 2, "refused": 1, "unparsed": 0, "accuracy": 0.25,
    "ci_low": 0.05, "ci_high": 0.7, "ci_method": "wilson",
}  # fmt: skip
FACTS_JSON: dict[str, Any] = {
    "run_id": "run-1",
    "started": "2026-01-02T03:04:05+00:00",
    "finished": "2026-01-02T03:05:05+00:00",
    "complete": True,
    "models": {
        "m": {"spec": "hf:m", "served_as": ["m-0613"], "identity": {"revision": "abc"}, "pinned": True}
    },
    "helpers": {"reader": {"spec": "gpt-4o"}},
    "protocols": {"htest": {"name": "quick", "settings": {"k": 14}}},
    "options": {"source": "builtin", "limit": 4, "seed": 7},
    "versions": {"python": "3.11", "pytest": "9"},
    "git": {"commit": "0123456789abcdef", "dirty": True},
    "deviations": {"m": ["no temperature"]},
    "calls": {},
    "summary": [ROW, ROW | {"task": "end", "accuracy": None, "ci_low": None, "ci_high": None}],
    "metrics": [],
}
GATE = from_plain(GateResult, GATE_JSON)
FACTS = run_metadata(FACTS_JSON, "run-1")


def test_environment_names_what_was_measured() -> None:
    """The environment has the model with revision and served name, protocol, items, seed and versions.

    It is one line per entry of a properties file: separators in keys are escaped, white space is one space.
    """
    known = run.environment(FACTS)
    assert {
        "Model m": "hf:m; served as m-0613; revision abc",
        "Helper reader": "gpt-4o",
        "Protocol htest": "quick (k 14)",
        "Items": "builtin, 4 of each task and language",
        "Seed": "7",
        "Run": "run-1",
        "Version pytest": "9",
        "Forced by the API of m": "no temperature",
        "Commit": "0123456789ab (changed)",
    }.items() <= known.items()
    assert "Results of earlier runs" not in known
    assert run.environment(FACTS, earlier=3)["Results of earlier runs"].startswith("3 ")
    assert run.properties({"a b=c:": "x\\y\n z\x07"}) == "a\\ b\\=c\\:=x\\\\y z␇\n"


def test_decision_and_accuracies_come_first() -> None:
    """The heading is the decision; the metadata begin with it, the losses and the accuracies on headline tasks."""
    loss = MemberChange("htest", "H-TEST", "task", "rhyme", "worse", -0.4, -0.5, -0.3, 0.01, 30, 12, 0)
    others = [
        replace(FACTS.summary[0], benchmark="homophones", task=task, correct=n, accuracy=n / 4)
        for task, n in (("asked", 3), ("context_only", 0))
    ]
    facts = replace(FACTS, gate=replace(GATE, changes=(loss,)), summary=(FACTS.summary[0], *others))
    known = run.environment(facts)
    (decision, _), (lost, loss_text), *accuracies = list(known.items())[:5]
    assert (decision, lost) == ("Decision", "Lost")
    assert loss_text.startswith("40.0 points worse on rhyme (H-TEST)")
    # The control does not count: 1 of 4 and 3 of 4 are correct.
    names = ("Accuracy", "Accuracy on H-TEST", "Accuracy on Homophones")
    assert accuracies == list(zip(names, ("50.0%", "25.0%", "75.0%"), strict=True))
    assert run.heading(facts) == "gate: fail, rhyme is too low · run-1"


def test_environment_and_heading_name_only_measured_benchmarks() -> None:
    """Benchmarks without a case, which ``-k`` deselected, are in neither; without any verdict, all are."""
    protocols = dict.fromkeys(("htest", "homophones", "eras", "oracle"), FACTS.protocols["htest"])
    facts = replace(FACTS, protocols=protocols, not_served={"eras": {"m": 3}})
    known = run.environment(facts)
    assert [name for name in known if name.startswith("Protocol ")] == ["Protocol htest", "Protocol eras"]
    assert run.heading(facts) == "m · H-TEST, ERAS · run-1"
    empty = run.environment(replace(facts, summary=(), not_served={}))
    assert sum(name.startswith("Protocol ") for name in empty) == 4


def test_categories_begin_with_their_kind() -> None:
    """Each category matches only the messages of its kind."""
    rows = run.categories()
    for row in rows:
        # allure-pytest puts the kind of error before the message of a search.
        message = re.sub(r"\((.*)\)\?", r"\1", row["messageRegex"]).lstrip("^") + "wrong: refused: text"
        assert [r["name"] for r in rows if re.search(r["messageRegex"], message)] == [row["name"]]


def test_files_of_a_run_hold_the_gate() -> None:
    """Summary, table and gate are global attachments whose files exist.

    The gate's decision comes first; each check shows the requirement and the measurement.
    """
    files = run.run_files(replace(FACTS, gate=GATE), [], Path("runs/run-1"), notes=["a note"])
    shown = json.loads(files[run.GLOBALS])
    names = ["results by task", "run summary", "gate: fail", "gate as JSON"]
    assert [a["name"] for a in shown["attachments"] if a["source"] in files] == names
    assert from_plain(GateResult, json.loads(files[run.GATE])) == GATE
    assert files[run.GATE_TEXT].startswith("gate: fail, rhyme is too low\n")
    assert "FAILED" in files[run.GATE_TEXT]
    assert "note: a note" in files[run.SUMMARY]
    rows = list(csv.DictReader(files[run.TABLE].splitlines()))
    assert [rows[0][name] for name in ("task", "accuracy", "from", "to")] == ["rhyme", "25.0", "5.0", "70.0"]
    assert (rows[1]["accuracy"], shown["errors"]) == ("", [])
    decision, *checks = run.quality_gate(GATE)
    assert (decision["success"], decision["message"]) == (False, GATE.line)
    assert [(c["rule"], c["success"]) for c in checks] == [
        ("rhyme: min_accuracy", False), ("end: min_accuracy", True),
    ]  # fmt: skip
    assert "required: at least 80%\nmeasured: 50.0%" in checks[0]["message"]
    assert {"expected", "actual", "testResults"} <= decision.keys()


RECORD = verdict(
    "position",
    1,
    "wrong",
    expected="two\nlines",
    given="<i>x</i>",
    reason="other",
    values={"position": 2.0},
    evidence={"note": "seen", "rules": [1, None]},
)


def test_long_texts_keep_beginning_and_end() -> None:
    """An attachment has a maximum length and says what was left out."""
    shown = case.bounded("a" * 50_000 + "b" * 50_000)
    assert len(shown) < case.MOST + 200
    assert (shown[:3], shown[-1000:]) == ("aaa", "b" * 1000)
    assert "40,000 characters left out" in shown
    assert case.bounded("short") == "short"


def test_step_says_what_the_call_cost() -> None:
    """A step shows time, tokens, finish reason and whether the reply was stored; without a reply, it failed."""
    reply = Reply("hi", finish_reason="length", served_model="m-1", usage=Usage(5, 7, 3), seconds=1.5)
    step = case.step("subject", "m", Chat.user("q"), reply, "", attach=True)
    assert (step.name, step.passed, step.seconds) == ("ask m", True, 1.5)
    tokens = "5 + 7 (3 of them reasoning)"
    assert dict(step.parameters) == {
        "time": "1.50 s", "tokens": tokens, "finish reason": "length", "served model": "m-1",
    }  # fmt: skip
    assert [(a.name, a.text) for a in step.attachments] == [("prompt", "q"), ("reply", "hi")]
    stored = case.step("reader", "r", Chat.user("q"), Reply(seconds=1.5, cached=True), "", attach=False)
    assert (stored.name, stored.seconds, stored.attachments) == ("ask reader (r)", 0.0, ())
    assert dict(stored.parameters)["time"] == "from the store; took 1.50 s when it was made"
    failed = case.step("subject", "m", Chat.user("q"), None, "broke\x07", attach=True)
    assert (failed.name, failed.passed, failed.message) == ("m did not answer", False, "broke␇")
    assert [a.name for a in failed.attachments] == ["prompt"]


def test_prompts_of_several_turns_show_roles() -> None:
    """Turns are shown under their roles; other kinds of requests are shown as JSON."""
    chat = Chat((Message("system", "Be brief."), Message("user", "Hi")))
    assert case.prompt_text(chat) == "[system]\nBe brief.\n\n[user]\nHi"
    assert '"text": "我"' in case.prompt_text(Segment("我"))
    assert case.reply_text(Reply(value=["我", "们"])) == '[\n "我",\n "们"\n]'
    vectors = Reply(value={"tokens": ["a"], "vectors": np.zeros((1, 384), np.float32)})
    assert json.loads(case.reply_text(vectors)) == {"tokens": ["a"], "vectors": "1 x 384 numbers"}
    empty = case.step("subject", "m", chat, Reply(""), "", attach=True)
    assert empty.attachments[1].text == "(an empty reply)"
    thought = case.step("subject", "m", chat, Reply("B", reasoning="A\x07" * 1000), "", attach=True)
    assert [a.name for a in thought.attachments] == ["prompt", "thoughts (2,000 characters)", "reply"]
    assert thought.attachments[1].text == "A␇" * 1000


def test_verdict_aligns_expected_and_given_answers() -> None:
    """Verdict, answers, reason, values and evidence are aligned rows; continuation lines are indented."""
    assert case.verdict_text(RECORD).splitlines() == [
        "verdict   wrong", "expected  two", "          lines", "given     <i>x</i>", "reason    other",
        "position  2", "note      seen", "rules     1, -",
    ]  # fmt: skip
    assert "given     -" in case.verdict_text(replace(RECORD, given=""))


def test_sample_is_one_in_twenty_by_seed_and_id() -> None:
    """About 1 in 20 passed cases has attachments: the same ones for one seed, others for another."""
    ids = [f"htest/rhyme/{n:04d}" for n in range(4000)]
    chosen = {i for i in ids if case.in_sample(0, i)}
    assert len(chosen) == pytest.approx(200, abs=50)
    assert chosen == {i for i in ids if case.in_sample(0, i)} != {i for i in ids if case.in_sample(1, i)}


ANALYTICS = """<script async src="https://www.googletagmanager.com/gtag/js?id=G-1"></script>
    <script>
        window.dataLayer = window.dataLayer || [];
        gtag('config', 'G-1');
    </script>"""


def report_page(more: str = "") -> str:
    """Return a page of Allure's single file, with as much as the build reads."""
    return f"""<!DOCTYPE html>
<html><head><meta charset="utf-8"><link href="data:,"></head>
<body><script>window.allureReportOptions = {{}}</script><div id="app"></div>{more}</body></html>"""


def test_no_page_asks_other_hosts() -> None:
    """Both Google Tag Manager scripts are removed, the rest is kept, and a policy forbids other hosts.

    A page that contacts another host in an unknown way, or can hold no policy, is refused.
    """
    text = site.without_requests(report_page(ANALYTICS))
    assert not re.search("google|gtag", text)
    policy = '<meta http-equiv="Content-Security-Policy" content="default-src \'self\' '
    assert re.search(rf"<head>\s*{policy}", text)
    elsewhere = "asks other hosts"
    for page, problem in (
        (report_page('<script src="https://cdn.example.org/x.js"></script>'), elsewhere),
        (report_page("<link href=//fonts.example.org/a.css>"), elsewhere),
        (report_page('<script>load("https://www.google-analytics.com/c")</script>'), elsewhere),
        (report_page(ANALYTICS.replace("script async", "script defer data-x='>' async")), elsewhere),
        (report_page().replace("<head>", ""), "has no <head>"),
    ):
        with pytest.raises(UsageError, match=f"{problem} .*build with allure@{site.VERSION}"):
            site.without_requests(page)


def allure(folder: Path, script: str) -> str:
    """Write a command that stands for Allure's; return its path."""
    folder.mkdir(exist_ok=True)
    command = folder / "allure"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    return str(command)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a folder with the files of a run."""
    folder = tmp_path / "results"
    folder.mkdir()
    for name, text in run.run_files(FACTS, [], Path("runs/run-1")).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_without_results_one_line_says_what_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without results the command exits with 2 and names the command that produces results."""
    code = site.main(["--results", str(tmp_path / "none"), "--allure", allure(tmp_path, "echo 3.18.0")])
    [line] = capsys.readouterr().err.splitlines()
    command = "run pytest suites/ --model SPEC --alluredir reports/allure-results --clean-alluredir first"
    assert (code, command in line) == (2, True)


def test_what_is_not_a_report_is_unchanged(results: Path, tmp_path: Path) -> None:
    """--out never replaces anything except a report; when Allure fails, its last line is shown, the old one is kept."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "thesis.html").write_text("mine")
    for name in ("thesis.html", "folder"):
        with pytest.raises(UsageError, match="is not an Allure report and is not changed: give another file"):
            site.build(results, tmp_path / name, None, allure="allure")
    assert (tmp_path / "thesis.html").read_text() == "mine"
    out = tmp_path / "out.html"
    out.write_text(report_page(), encoding="utf-8")
    command = allure(tmp_path, "echo first >&2\necho broken pipe >&2\nexit 3")
    with pytest.raises(UsageError, match="allure generate failed: broken pipe"):
        site.build(results, out, None, allure=command)
    assert out.read_text(encoding="utf-8") == report_page()
    assert {path.name for path in tmp_path.iterdir()} == {
        "allure", "out.html", "results", "folder", "thesis.html"
    }  # fmt: skip


def test_other_versions_of_allure_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Allure 3 is accepted, and the error says how to install it; a relative path is from the current folder."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"is version 2\.30\.0; the report needs Allure 3"):
        site.find_allure(allure(tmp_path, "echo 2.30.0"))
    assert site.find_allure(allure(Path("bin"), "echo 3.0.0")) == str(tmp_path / "bin" / "allure")
    with pytest.raises(UsageError, match=r"bin/other: is not a command; .*give Allure 3 with --allure FILE"):
        site.find_allure("bin/other")


def test_the_configuration_is_that_of_the_run() -> None:
    """With several models, they are the tree's first level; the figure is the accuracy on the headline tasks."""
    several = replace(FACTS, models={"a": FACTS.models["m"], "b": FACTS.models["m"]})
    config = run.site(several)["config"]
    assert config["name"] == "a, b · H-TEST · run-1"
    assert config["plugins"]["awesome"]["options"]["groupBy"] == ["parentSuite", "epic", "feature", "story"]
    assert "parentSuite" not in config["hideLabels"]
    assert "host" in config["hideLabels"]
    assert [c["groupByMessage"] for c in config["categories"]] == [False] * len(run.categories())
    one = run.site(replace(FACTS, gate=GATE), earlier=2)
    assert one["config"]["plugins"]["awesome"]["options"]["groupBy"] == ["epic", "feature", "story"]
    assert (one["accuracy"], one["earlier"], one["gate"]) == (0.25, 2, run.quality_gate(GATE))


def test_make_installs_the_version_that_is_named_here() -> None:
    """The Makefile installs the Allure version that the messages name."""
    root = Path(__file__).resolve().parents[2]
    planned = subprocess.run(
        ["make", "--dry-run", "--always-make", "report"], cwd=root, capture_output=True, text=True, check=True
    )
    [install] = re.findall(r"npm install .*", planned.stdout)
    assert install.endswith(f" allure@{site.VERSION}")
