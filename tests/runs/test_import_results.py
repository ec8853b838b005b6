"""``llmprops runs import``: results of other tools as runs. The tools wrote the files in ``tests/support/results``."""

from __future__ import annotations

import copy
import csv
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.core.errors import DataError
from pytest_llmprops.data.files import builtin_data
from pytest_llmprops.runs.comparable import caveats, comparable_groups, differences
from pytest_llmprops.runs.import_results import import_results
from pytest_llmprops.runs.pairs import ABSENT_HERE, ABSENT_THERE, pair_items, pairs_of
from pytest_llmprops.runs.reader import Run, read_run
from tests.runs.test_hostile_records import mutated
from tests.support.commands import one_error, output
from tests.support.recorded import published_run
from tests.support.recorded import verdicts as sums
from tests.support.records import recorded
from tests.support.runs import ROOT

Capture = pytest.CaptureFixture[str]
RESULTS = ROOT / "tests" / "support" / "results"
FILES: dict[str, Callable[[str], Path]] = {
    "inspect": lambda model: RESULTS / f"inspect-{model}.json",
    "lm_eval": lambda model: next((RESULTS / model).glob("samples_*.jsonl")),
    "promptfoo": lambda model: RESULTS / f"promptfoo-{model}.json",
}  # fmt: skip
TOOL = pytest.mark.parametrize("tool", FILES)
pytestmark = pytest.mark.usefixtures("working_folder")


def imported(capsys: Capture, file: Path | str, *more: str, model: str = "new") -> Run:
    """Import a file with the command; check that its record is consistent."""
    printed = output(capsys, "runs", "import", file, "--model", model, *more)
    run = read_run(Path(printed.strip()))
    assert run.problems == ()
    return run


def refused(capsys: Capture, text: str | bytes, *more: str, name: str = "results.jsonl") -> str:
    """Return the error of a file with this content, after the file's name; no run is written."""
    Path(name).write_bytes(text.encode() if isinstance(text, str) else text)
    line = one_error(capsys, "runs", "import", name, "--model", "new", *more)
    assert not Path("reports").exists()
    return line.removeprefix(f"llmprops: {name}: ")


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@TOOL
def test_a_file_of_each_tool_is_judged_like_our_runs(tool: str, capsys: Capture) -> None:
    """The counts are the tool's own, and gate, compare and report accept the run: 3 of 8 lost, 1 gained."""
    samples = 1 if tool == "lm_eval" else 2
    for model, right in (("old", 4), ("new", 2)):
        run = imported(capsys, FILES[tool](model), model=model)
        [row] = run.facts.summary
        assert (row.benchmark, row.task, row.source) == ("rhymes", "rhymes", "imported")
        assert (row.items, row.samples, row.correct) == (8, 8 * samples, right * samples)
        assert run.facts.complete
        assert {r.given for r in run.records} <= {"A", "B"}
        assert {r.expected for r in run.records} == {"A", "B"}
    Path("gate.toml").write_text("[[rule]]\nmin_items = 8\nmax_drop = 0.5\n", encoding="utf-8")
    main(
        ["gate", "imported-rhymes-new", "--baseline", "imported-rhymes-old", "--gate", "gate.toml", "--json"]
    )
    decision = json.loads(capsys.readouterr().out)
    assert decision["decision"] == "inconclusive"
    assert decision["rules"][0]["checks"][0]["value"] == pytest.approx(-0.25)
    assert len(decision["caveats"]) == 2
    compared = output(capsys, "compare", "imported-rhymes-new", "--baseline", "imported-rhymes-old")
    assert "lost, right in A and not in B: 3" in compared
    assert "gained, right in B and not in A: 1" in compared
    output(capsys, "report", "imported-rhymes-new", "--baseline", "imported-rhymes-old", "--out", "page")
    assert "rhymes" in output(capsys, "runs", "list")


def test_what_the_tools_say_of_the_measurement_is_recorded(capsys: Capture) -> None:
    """Settings, versions and times are those of the files; no address or key is recorded."""
    told = {}
    for tool, file in FILES.items():
        facts = imported(capsys, file("new"), "--out", tool).facts
        told[tool] = facts.protocols["rhymes"].settings
        assert facts.options == {"unsaid": ["seed"]}
        assert "127.0.0.1" not in Path(tool, "run.json").read_text(encoding="utf-8")
    assert (told["inspect"]["temperature"], told["inspect"]["max_tokens"]) == ("0.0", "5")
    assert (told["lm_eval"]["temperature"], told["lm_eval"]["max_gen_toks"]) == ("0.0", "5")
    assert told["promptfoo"] == {"temperature": "0", "max_tokens": "5"}
    versions = {
        name: version for tool in FILES for name, version in read_run(Path(tool)).facts.versions.items()
    }
    assert versions == {"inspect_ai": "0.3.285", "promptfoo": "0.123.1"}
    assert read_run(Path("inspect")).facts.started == "2026-11-28T17:08:57+00:00"
    assert read_run(Path("promptfoo")).facts.started == "2026-11-28T17:09:18+00:00"


def test_a_file_of_promptfoo_with_two_providers(capsys: Capture) -> None:
    """The model names the provider; failed calls are errors, without keys; each prompt asks items of its own."""
    file = RESULTS / "promptfoo-two.json"
    line = one_error(capsys, "runs", "import", file, "--model", "new")
    assert "has 2 providers; name one of them with --model" in line
    assert "openai:chat:old" in line
    answered = imported(capsys, file, model="openai:chat:old")
    assert (len(answered.records), len({r.cluster for r in answered.records})) == (6, 3)
    text = file.read_text(encoding="utf-8").replace("went ", "wrong key sk-live-0123456789abcdef ")
    Path("two.json").write_text(text, encoding="utf-8")
    failed = imported(capsys, "two.json", model="openai:chat:status-500")
    assert [r.status for r in failed.records] == ["error"] * 6
    assert "500" in failed.records[0].reason
    assert "0123456789abcdef" not in Path(failed.folder, "verdicts.jsonl").read_text(encoding="utf-8")


def changed(change: Callable[[dict[str, Any]], None]) -> str:
    """Return inspect_ai's file of the new model after a change."""
    log = json.loads((RESULTS / "inspect-new.json").read_bytes())
    change(log)
    Path("log.json").write_text(json.dumps(log), encoding="utf-8")
    return "log.json"


def test_statuses_of_inspect(capsys: Capture) -> None:
    """NOANSWER is unparsed, a sample with an error is an error, and a log that was not finished is incomplete."""

    def change(log: dict[str, Any]) -> None:
        log["status"] = "cancelled"
        log["samples"][0]["scores"]["match"]["value"] = "N"
        log["samples"][1]["error"] = {"message": "limit reached"}
        del log["samples"][1]["scores"]

    run = imported(capsys, changed(change))
    assert [run.records[0].status, run.records[2].status] == ["unparsed", "error"]
    assert run.records[2].reason == "limit reached"
    assert run.state == "incomplete"
    assert "cancelled" in str(run.facts.stopped)


def test_a_changed_setting_makes_imports_incomparable(capsys: Capture) -> None:
    """Two logs with other temperatures differ, as two of our runs would; so do items with another question."""
    before = imported(capsys, FILES["inspect"]("old"), "--out", "a")

    def change(log: dict[str, Any]) -> None:
        log["plan"]["config"]["temperature"] = 0.7
        for sample in log["samples"]:
            sample["input"] = "Another question." if sample["id"] == 1 else sample["input"]

    after = imported(capsys, changed(change), "--out", "b")
    [difference] = differences(before.facts, after.facts, ["rhymes"])
    assert "temperature 0.0 → 0.7" in difference
    faults = Counter(item.fault for item in pair_items(before.records, after.records))
    assert faults == {"": 7, ABSENT_HERE: 1, ABSENT_THERE: 1}


def test_an_inserted_test_of_promptfoo_shifts_no_pair(capsys: Capture) -> None:
    """promptfoo numbers its tests by their place. Without the first test, the others are still the same items."""
    results = json.loads(FILES["promptfoo"]("old").read_bytes())
    fewer = copy.deepcopy(results)
    kept = [row for row in fewer["results"]["results"] if row["testIdx"] > 1]
    fewer["results"]["results"] = [row | {"testIdx": row["testIdx"] - 2} for row in kept]
    Path("fewer.json").write_text(json.dumps(fewer), encoding="utf-8")
    before = imported(capsys, FILES["promptfoo"]("old"), "--out", "a")
    items = pair_items(before.records, imported(capsys, "fewer.json", "--out", "b").records)
    assert Counter(item.fault for item in items) == {"": 7, ABSENT_HERE: 1}
    assert all(pair.baseline == pair.candidate for pair in pairs_of(items))


def test_metrics_and_filters_of_lm_eval(capsys: Capture) -> None:
    """With several metrics and filters, --score names one of each; a row per filter is not a repeat."""
    [row, *_] = [
        json.loads(line) for line in FILES["lm_eval"]("new").read_text(encoding="utf-8").splitlines()
    ]
    strict = row | {"metrics": ["exact_match", "f1"], "f1": 0.5, "filter": "strict-match", "exact_match": 0}
    text = lines(strict, strict | {"filter": "flexible-extract", "exact_match": 1})
    said = refused(capsys, text)
    assert said.startswith("has 4 metrics; choose one with --score NAME (exact_match,flexible-extract, ")
    assert "--threshold X" in refused(capsys, text, "--score", "f1,strict-match")
    run = imported(capsys, "results.jsonl", "--score", "exact_match,flexible-extract")
    assert [r.status for r in run.records] == ["correct"]
    run = imported(capsys, "results.jsonl", "--score", "f1,strict-match", "--threshold", "0.5", "--out", "f1")
    assert [r.status for r in run.records] == ["correct"]


SUM = {"task": "sums", "language": "en", "cluster": "x"}
ROWS: list[dict[str, Any]] = [
    {"id": "a", "score": 1, **SUM, "expected": "4", "given": "4\n"},
    {"id": "b", "score": 0.0, **SUM, "seconds": 1.5},
    {"id": 3, "score": None},
]


def test_json_lines_and_csv_say_the_same(capsys: Capture) -> None:
    """Each field reaches the record; other numbers are values, and an item without a score is an error."""
    Path("mine.jsonl").write_text(lines(*ROWS), encoding="utf-8")
    run = imported(capsys, "mine.jsonl")
    first, second, third = run.records
    assert (first.benchmark, first.task, first.language, first.cluster) == ("mine", "sums", "en", "x")
    assert (first.expected, first.given, first.status, first.score) == ("4", "4\n", "correct", 1.0)
    assert (second.status, second.values) == ("wrong", {"seconds": 1.5})
    last = (third.id, third.task, third.language, third.cluster, third.status)
    assert last == ("3", "mine", "", "3", "error")
    columns = list(dict.fromkeys(name for row in ROWS for name in row))
    with Path("mine.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(ROWS)
    assert imported(capsys, "mine.csv", "--out", "csv").records == run.records


def test_words_and_repeats_of_a_plain_file(capsys: Capture) -> None:
    """A word may say what is correct. An item may repeat with another sample, from 1 and in any order."""
    words = {"Y": "correct", "refused": "refused", "unparsed": "unparsed", "": "error"}
    rows = lines(*({"id": n, "correct": word} for n, word in enumerate([True, *words])))
    Path("mine.jsonl").write_text(rows, encoding="utf-8")
    assert [r.status for r in imported(capsys, "mine.jsonl").records] == ["correct", *words.values()]
    rows = lines(*({"id": i, "sample": sample, "score": sample == 2} for sample in (2, 1) for i in "ab"))
    Path("mine.jsonl").write_text(rows, encoding="utf-8")
    run = imported(capsys, "mine.jsonl", "--out", "repeats")
    assert [(r.id, r.sample, r.score) for r in run.records] == [
        (name, sample, sample) for name in "ab" for sample in range(2)
    ]


WRONG: list[tuple[str | bytes, str]] = [
    ("id\na\n", "has 0 score columns; choose one"),
    (lines({"id": "a", "score": 0.5}), "line 1: the score 0.5 is neither 0 nor 1; give the lowest correct score"),
    (lines({"id": "a", "score": 1}, {"id": "a", "score": 0}), "line 2: repeats the item 'a' of line 1"),
    ("id,score,sample\na,1,0\na,1,0\n", "line 3: repeats the item 'a' of line 2"),
    (lines({"id": "a", "score": 1, "sample": -1}), "line 1: sample '-1': write a whole number"),
    (lines({"id": "a", "score": "maybe"}), "line 1: the score is 'maybe'"),
    ('{"id": "a", "score": 1}\n{"id": "b", "score": 0, "score": 1}\n', "line 2: not JSON: the key 'score' occurs"),
    ('{"id": "a", "score": 1}\n[1]\n', "line 2: not a JSON object"),
    (lines({"id": "a\x1b[31m", "score": 1}), "line 1: id 'a\\x1b[31m': use one line"),
    (lines({"id": "a", "score": 1, "task": ["x"]}), "line 1: task 'x'"),
    ("[" * 500 + "]" * 500, "has more than 100 lists"),
    ('{"eval": {}, "plan": {}, "samples": []}', "has 0 scorers"),
    ('{"results": {"results": [1]}}', "result 1: not a JSON object"),
    ('{"doc_id": 1, "doc": {}}\n', "has 0 metrics"),
    (b"PK\x03\x04", "is an archive; for a log of inspect_ai: inspect log dump"),
    (b'{"id": "\xff"}', "not UTF-8"),
]  # fmt: skip


def test_a_wrong_file_is_one_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what is wrong, where, and what to do; no run is written. The file's bytes have a limit."""
    for text, said in WRONG:
        assert said in refused(capsys, text)
    monkeypatch.setattr("pytest_llmprops.runs.import_results.LARGEST", 10)
    assert "the limit is 10" in refused(capsys, lines({"id": "a", "score": 1}))


def test_names_on_the_command_line(capsys: Capture) -> None:
    """A missing file, a column that is not there and an unprintable name are one line; no path can be left."""
    row = lines({"id": "a", "score": 1})
    assert "no such file" in one_error(capsys, "runs", "import", "none.jsonl", "--model", "m")
    assert "has no score column 'x'; choose one with --score NAME (id, score)" in refused(
        capsys, row, "--score", "x"
    )
    assert "--threshold nan" in one_error(
        capsys, "runs", "import", "results.jsonl", "--model", "m", "--threshold", "nan"
    )
    assert "--benchmark" in refused(capsys, row, "--benchmark", "a\tb")
    assert "--model" in one_error(capsys, "runs", "import", "results.jsonl", "--model", "a\x07")
    folder = imported(capsys, "results.jsonl", model="a/../../b").folder
    assert folder == Path("reports/runs/imported-results-a_.._.._b")
    assert "already exists; remove it, or give a new folder with --out DIR" in one_error(
        capsys, "runs", "import", "results.jsonl", "--model", "a/../../b"
    )


@TOOL
def test_a_damaged_file_is_imported_or_refused(tool: str, tmp_path: Path) -> None:
    """After any value of a tool's file is changed, its run is consistent, or the error is one line."""
    chance = Random(0)
    refusals: list[tuple[str, bool]] = []
    first, *rows = FILES[tool]("new").read_text(encoding="utf-8").splitlines()
    for number in range(60):
        file, out = tmp_path / f"{number}.jsonl", tmp_path / f"run-{number}"
        changed = json.dumps(mutated(json.loads(first), chance))
        file.write_text("\n".join([changed, *rows]) + "\n", encoding="utf-8")
        try:
            run = read_run(import_results(file, "new", out=out))
        except DataError as error:
            refusals.append((str(error), out.exists()))
        else:
            assert [line for line in run.problems if "verdicts.jsonl has fewer than" not in line] == []
    assert not [message for message, has_folder in refusals if has_folder or "\n" in message]


def test_what_is_not_said_is_a_caveat(capsys: Capture) -> None:
    """Two imports are comparable with each other and have a caveat each; they are no group with a measured run."""
    for name in "ab":
        Path(f"{name}.csv").write_text("id,score\n1,1\n2,0\n", encoding="utf-8")
    runs = [imported(capsys, f"{name}.csv", "--benchmark", "sums", model=name).facts for name in "ab"]
    assert caveats(runs) == [
        f"{name}: imported from a file that does not say, so not compared: data, protocol, seed"
        for name in "ab"
    ]
    ours = read_run(recorded(Path("ours"), sums("cw"))).facts
    assert comparable_groups([*runs, ours], "sums") == [0, 0, 1]
    assert differences(ours, runs[0], ["sums"]) == []


def test_the_published_verdicts(tmp_path: Path, capsys: Capture) -> None:
    """The authors' columns count 63, 90, 62 and 83 on English and 20, 68, 50 and 63 on Chinese; the file has a name."""
    expected = {"GPT-3.5": (63, 20), "GPT-4": (90, 68), "Ernie-3.5": (62, 50), "Ernie-4.0": (83, 63)}
    file = "homophones/published_verdicts.csv"
    for model, right in expected.items():
        named = imported(capsys, file, "--benchmark", "homophones", "--score", model, model=model)
        run = read_run(published_run(model, tmp_path))
        assert run.records == named.records
        assert [(row.language, row.items, row.task, row.source) for row in run.facts.summary] == [
            (language, 100, "asked", "published") for language in ("en", "zh")
        ]
        assert tuple(row.correct for row in run.facts.summary) == right
        assert {row.group for row in run.facts.metrics} >= {"function_words", "content_words"}
    gate = tmp_path / "gate.toml"
    gate.write_text("[[rule]]\nbenchmark = 'homophones'\nlanguage = 'en'\nmax_drop = 0.1\n", encoding="utf-8")
    runs = [str(tmp_path / f"imported-homophones-{model}") for model in ("GPT-3.5", "GPT-4")]
    assert main(["gate", runs[1], "--baseline", runs[0], "--gate", str(gate)]) == 0
    assert capsys.readouterr().out.startswith("PASS: GPT-4 may replace GPT-3.5")
    assert main(["gate", "--plan", str(gate), "--baseline", runs[0]]) == 0
    plan = capsys.readouterr().out.replace(str(gate), "gate.toml").partition("  note")[0]
    assert plan in (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    assert main(["gate", runs[0], "--baseline", runs[1], "--gate", str(gate)]) == 1
    assert "FAIL: " in capsys.readouterr().out
    noted = output(capsys, "papers", "homophones/table-2", "--run", runs[1])
    assert "imported-homophones-GPT-4: imported from a file that does not say the protocol." in noted


@pytest.mark.skipif(
    "LLMPROPS_DATA" not in os.environ, reason="needs the authors' data: LLMPROPS_DATA names its folder"
)
def test_the_verdicts_of_the_package_are_the_authors() -> None:
    """The same Y and N in the same order."""
    with (builtin_data() / "homophones" / "published_verdicts.csv").open(encoding="utf-8") as file:
        own = list(csv.DictReader(file))
    for language, name in (("en", "english"), ("zh", "chinese")):
        path = Path(os.environ["LLMPROPS_DATA"], "homophones", f"testset_{name}.csv")
        with path.open(encoding="utf-8-sig", newline="") as file:
            authors = list(csv.DictReader(file))
        for model in ("GPT-3.5", "GPT-4", "Ernie-3.5", "Ernie-4.0"):
            assert [row[model] for row in own if row["language"] == language] == [
                row[model].strip().upper() for row in authors
            ]
