"""The files that ``llmprops report`` writes, also with a gate and as a decision sheet, and when it refuses to write."""

from __future__ import annotations

import html
import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.verdicts import VerdictRecord
from pytest_llmprops.records.gate import GateResult
from pytest_llmprops.reports.page.build import run_page, with_decisions, write_report
from pytest_llmprops.reports.site.build import write_site
from pytest_llmprops.runs.gate.decide import decide
from pytest_llmprops.runs.gate.file import read_gate
from pytest_llmprops.runs.reader import Run, read_run
from tests.support.programs import CHROMIUM
from tests.support.records import exchange, recorded, verdict, verdicts

#: a reply that is an attack on every format it may be written into
HOSTILE = (
    "</script><img src=x onerror=alert(1)> ![i](https://evil.example) `tick` | {{ 7 * 7 }} \x1b[31m \u202egnp"
)
HTEST = {"benchmark": "htest"}
DATA = ['<script type="text/plain" id="index">', '<script type="text/plain" id="chunk-0">']


@pytest.fixture
def htest(tmp_path: Path) -> Path:
    """Return a recorded run of two H-TEST tasks and Letter Geometry."""
    tasks = ("rhyme", "uppercase", "letter_geometry")
    records = [v for task in tasks for v in verdicts(task, 12, 8, benchmark="htest")]
    protocols = {"htest": {"name": "quick", "settings": {"k": 14, "cot": False}}}
    return recorded(tmp_path / "htest", records, protocols=protocols)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a run in which every external text is hostile."""
    texts = dict.fromkeys(("given", "expected", "reason", "model", "task", "source", "language"), HOSTILE)
    records = [
        verdict(status="wrong", number=0, id="item-0", benchmark="homophones", requests=["k"], **texts),
        verdict(number=1, status="wrong", id=HOSTILE, benchmark="../" + HOSTILE, **texts),
        verdict(number=2, status="wrong", benchmark="../" + HOSTILE, **{**texts, "source": "builtin"}),
    ]
    check = dict.fromkeys(("kind", "required", "measured", "reason"), HOSTILE) | {"verdict": "failed"}
    gate = {
        "decision": "fail", "line": f"fail: {HOSTILE}", "file": HOSTILE, "baseline": HOSTILE,
        "reasons": [HOSTILE], "notes": [HOSTILE], "caveats": [HOSTILE],
        "losses": [{"benchmark": HOSTILE, "title": HOSTILE, "kind": "task", "name": HOSTILE, "drop": 0.3,
                    "ci_low": 0.1, "ci_high": 0.5, "p": 0.01, "pairs": 9, "lost": 5, "gained": 0}],
        "rules": [{"name": HOSTILE, "verdict": "failed", "items": 3, "checks": [check]}],
    }  # fmt: skip
    return recorded(
        tmp_path / "hostile",
        records,
        requests=[exchange("k", HOSTILE, HOSTILE)],
        notes=[HOSTILE],
        gate=gate,
        deviations={HOSTILE: [HOSTILE]},
        versions={HOSTILE: HOSTILE},
    )


def test_files_of_a_report(htest: Path, tmp_path: Path) -> None:
    """The report has a page, a Markdown file that links only to existing figures, and each figure as SVG and PNG.

    No attribute or style of the page contains an address, and a policy forbids fetching.
    """
    out = tmp_path / "out"
    written = write_report([htest], out)
    figures = {path for path in written if path.parent.name == "figures"}
    assert {out / "report.html", out / "report.md"} == set(written) - figures
    assert {path.stem for path in figures if path.suffix == ".svg"} == {
        path.stem for path in figures if path.suffix == ".png"
    }
    linked = re.findall(r"\]\((figures/[^)]+)\)", (out / "report.md").read_text(encoding="utf-8"))
    assert linked
    assert {str(path.relative_to(out)) for path in figures if path.suffix == ".svg"} == set(linked)
    assert not [path for path in out.rglob("*") if path.name.startswith(".")]
    page = written[0].read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href|srcset|action|data)\s*=\s*["']?(?!#|\{)[a-z]*:?//""", page)
    assert not re.search(r"url\((?!#)|@import|@font-face", page)
    assert "default-src 'none'" in page
    assert {"http://www.w3.org"} == set(re.findall(r"\w+://[\w.]+", page))


def test_equal_runs_give_equal_bytes(htest: Path, hostile: Path, tmp_path: Path) -> None:
    """No file depends on the time or place of writing, or on an earlier report, whose folder keeps its other files."""
    first = write_report([htest], tmp_path / "a")
    write_report([hostile], tmp_path / "b")
    (tmp_path / "b" / "notes.txt").write_text("mine", encoding="utf-8")
    # A folder under two names is one run.
    second = write_report([htest, htest / ".." / "htest"], tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert (tmp_path / "b" / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_folder_with_other_files_is_refused(htest: Path, tmp_path: Path) -> None:
    """Files that are not part of a report are never overwritten, and nothing is added next to them."""
    for name in ("run.json", "report.html"):
        out = tmp_path / f"out-{name}"
        out.mkdir()
        (out / name).write_text("{}", encoding="utf-8")
        with pytest.raises(UsageError, match="has other files"):
            write_report([htest], out)
        assert [path.name for path in out.iterdir()] == [name]
        with pytest.raises(UsageError, match="is not a folder"):
            write_report([htest], out / name)


@pytest.mark.parametrize(
    ("package", "write"),
    [("matplotlib", write_report), ("jinja2", write_site)],
)
def test_a_missing_package_is_named(
    htest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, write: Callable[..., object]
) -> None:
    """Without the extra, one line says how to install it, and nothing is written, of a report or a site."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == package else real(name, *more)
    )
    with pytest.raises(MissingExtra, match=rf"{package}.*pytest-llmprops\[report\]"):
        write([htest], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_write_that_fails_leaves_the_old_file(
    htest: Path, hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk gives a one-line error; the old page is intact and no partial file remains."""
    out = tmp_path / "out"
    before = write_report([hostile], out)[0].read_bytes()

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UsageError, match="No space left on device"):
        write_report([htest], out)
    assert (out / "report.html").read_bytes() == before
    assert not [path for path in out.rglob("*") if path.name.startswith(".")]


def test_hostile_text_is_escaped(hostile: Path, tmp_path: Path) -> None:
    """A reply produces no tag, image, link or open code span in Markdown, and its table keeps its columns.

    A reply, label, note or gate produces no HTML element, and no control character remains. Figures are well-formed,
    stay in their folder and contain no element from a name.
    """
    out = tmp_path / "out"
    written = write_report([hostile], out)
    text = (out / "report.md").read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert "\u202e" not in text
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert "<img" not in outside
    assert "](https" not in outside.replace("\\]", "")
    row = next(line for line in text.splitlines() if "item-0" in line)
    heading = next(line for line in text.splitlines() if line.startswith("| item | status"))
    assert len(re.findall(r"(?<!\\)\|", row)) == len(re.findall(r"\|", heading))
    page = written[0].read_text(encoding="utf-8")
    assert "<img" not in page
    # Of scripts there are the page's own and the one that starts it; of data, the index and one chunk.
    assert re.findall("<script[^>]*>", page) == ["<script>", *DATA[:1], "<script>", *DATA[1:]]
    assert page.count("</script>") == 4
    assert "\x1b" not in page
    assert "\u202e" not in page
    figures = [path for path in written if path.suffix == ".svg"]
    assert len(figures) == 2
    for path in figures:
        assert path.parent == out / "figures"
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(path).iter()}
        assert "script" not in tags
        assert "image" not in tags


def test_any_name_of_a_model_can_be_drawn(tmp_path: Path) -> None:
    """Names in any script, with mathematics or markup, are text in well-formed figures."""
    for n, label in enumerate(("a<b>&c", "$x^2$", "模型", 'q"t', "x" * 90)):
        run = recorded(tmp_path / str(n), verdicts("add", 3, 1, model=label))
        plot = run_page(read_run(run)).decode().split('role="img"')[1]
        svg = plot[plot.index("<svg") : plot.index("</svg>") + 6]
        assert (label if len(label) < 40 else label[:39]) in "".join(ElementTree.fromstring(svg).itertext())


def test_runs_without_answers_are_reported(tmp_path: Path) -> None:
    """If no item was answered, the report shows dashes, whatever tasks were selected; without a verdict it says why."""
    for benchmark, task in (("homophones", "word_only"), ("htest", "letter_geometry"), ("sums", "asked")):
        run = recorded(tmp_path / benchmark, [verdict(task, 0, "error", benchmark=benchmark)])
        assert b"1 call could not be made" in run_page(read_run(run))
    run = recorded(tmp_path / "run", [], complete=False, stopped="the key is wrong")
    write_report([run], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "nothing to report" in text
    assert "the key is wrong" in text


RULES = """
[[rule]]
benchmark = "sums"
max_drop = 0.03
min_accuracy = 0.5
"""


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Return a baseline and two candidates, one of them worse."""
    sizes = (("old", 190), ("new", 200), ("worse", 150))
    return [read_run(recorded(tmp_path / m, verdicts("add", n, 200 - n, model=m))) for m, n in sizes]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Return a gate file."""
    path = tmp_path / "gate.toml"
    path.write_text(RULES, encoding="utf-8")
    return path


def test_the_decision_is_that_of_the_gate_command(runs: list[Run], gate: Path) -> None:
    """Every run but the baseline gets the decision of ``llmprops gate`` with the first run as its baseline.

    If no rule compares, there is no baseline.
    """
    results = [run.facts.gate for run in with_decisions(runs, gate)]
    assert results[0] is None
    assert [result.decision for result in results[1:] if isinstance(result, GateResult)] == ["pass", "fail"]
    assert results[2] == decide(read_gate(gate), runs[2].facts, runs[2].records, runs[0])
    gate.write_text(RULES.replace("max_drop = 0.03", ""), encoding="utf-8")
    assert [run.facts.gate.decision for run in with_decisions(runs, gate) if run.facts.gate] == ["pass"] * 3


def test_the_page_says_what_was_required(
    runs: list[Run], gate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The heading has the decision, and the page has every check; the command prints the files, the page first.

    Without a baseline or a run, one line says what to give, and nothing is written.
    """
    out = tmp_path / "out"
    arguments = ["report", str(runs[2].folder), "--gate", str(gate), "--out", str(out)]
    assert main(arguments) == main(["report", str(tmp_path / "nosuch"), "--out", str(out)]) == 2
    without, unknown = capsys.readouterr().err.splitlines()
    assert "needs a baseline; give one with --baseline RUN" in without
    assert "nosuch" in unknown
    assert not out.exists()
    assert main([*arguments, "--baseline", str(runs[0].folder)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == str(out / "report.html")
    text = (out / "report.md").read_text(encoding="utf-8")
    assert text.splitlines()[0].startswith("# FAIL: worse is 20.0 points worse on ")
    assert "at most 3 points worse" in text
    assert "at least 50.0%" in (out / "report.html").read_text(encoding="utf-8")


def decided(
    folder: Path, old: list[VerdictRecord], new: list[VerdictRecord], *forced: str
) -> tuple[str, str]:
    """Return the page and the Markdown of a report on ``new`` against ``old`` under a gate on H-TEST.

    :param forced: what the API of ``new`` forced.
    """
    recorded(folder / "old", old, started="2026-01-01")
    recorded(folder / "new", new, started="2026-01-02", deviations={"new": list(forced)})
    (folder / "gate.toml").write_text('[[rule]]\nbenchmark = "htest"\nmax_drop = 0.2\n')
    words = ["report", folder / "new", "--baseline", folder / "old", "--gate", folder / "gate.toml"]
    assert main([*map(str, words), "--out", str(folder / "out")]) == 0
    page, text = ((folder / "out" / f"report.{kind}").read_text(encoding="utf-8") for kind in ("html", "md"))
    return page, text


def test_the_page_links_a_lost_task_to_its_items(tmp_path: Path) -> None:
    """Whatever the rules are, the heading names a lost task, and the page opens its lost items.

    What an API forced is next to the decision, in the page and in Markdown, and the decision stands.
    """
    tasks = ("rhyme", "end_ly", "uppercase", "palindrome")
    old, new = (
        [
            v
            for task in tasks
            for n in [20 if task == lost else 40]
            for v in verdicts(task, n, 50 - n, **fields)
        ]
        for lost, fields in (("", {**HTEST, "model": "old"}), ("palindrome", {**HTEST, "model": "new"}))
    )
    page, text = decided(tmp_path, old, new, "temperature left out")
    [heading] = re.findall(r"<h1.*?>(.*?)</h1>", page)
    assert re.sub("<.*?>", "", heading).endswith("; but it is 40.0 points worse on palindrome (H-TEST).")
    [link] = re.findall(
        r'<li>Lost: <button[^>]* data-filter="([^"]*)">40\.0 points worse on palindrome', page
    )
    wanted = {"tab": "lost", "baseline": "0", "candidate": "1", "benchmark": "htest", "task": "palindrome"}
    assert json.loads(html.unescape(link)) == wanted
    assert "- 40.0 points worse on palindrome (H-TEST)" in text
    caveat = "new takes no temperature: sampled at its default"
    assert text.startswith("# PASS: new may replace old")
    assert f"\n- Caveat: {caveat}\n" in text
    assert f'<ul aria-label="Caveats"><li>{caveat}</li></ul>' in page


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """Return a run with more findings, checks and notes than one page has room for at full size."""
    measured = "80%, " + "very " * 30
    check = {"kind": "min_accuracy", "required": "at least 90%", "measured": measured, "verdict": "met"}
    rules = [{"name": f"rule {n}", "verdict": "met", "items": 3, "checks": [check]} for n in range(40)]
    gate = {"decision": "pass", "line": "pass: 40 of 40 rules are met", "file": "g.toml", "rules": rules}
    records = [v for n in range(12) for v in verdicts("add", 8, 2, benchmark=f"sums{n}")]
    records.append(verdict("add", 99, "error", benchmark="sums0", given="<script>alert(1)</script>"))
    return recorded(tmp_path / "run", records, gate=gate, notes=[f"note {n}" for n in range(9)])


def test_the_sheet_is_one_page(
    crowded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However much there is to say, the sheet has one page, in A4.

    Without a browser that prints, one line says what is needed, or has the browser's last message.
    """
    command = ["report", str(crowded), "--out", str(tmp_path / "out"), "--pdf"]
    browser = tmp_path / "chromium"
    said = "#!/bin/sh\necho first >&2\necho 'cannot open display' >&2\nexit 1\n"
    browser.write_text(said, encoding="utf-8")
    browser.chmod(0o755)
    for found, problem in (
        (None, "--pdf: needs Chromium or Chrome on the PATH"),
        (str(browser), "could not print: cannot open display"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "which", lambda name, found=found: found)
            assert main(command) == 2
        [error] = capsys.readouterr().err.splitlines()
        assert problem in error
        assert not (tmp_path / "out").exists()
    CHROMIUM.path()
    assert main(command) == 0
    pdf = (tmp_path / "out" / "decision.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf)) == 1
    assert re.search(rb"/MediaBox\s*\[0 0 59[45]\.?\d* 84[12]", pdf)
