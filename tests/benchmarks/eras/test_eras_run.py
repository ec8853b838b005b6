"""ERAS through pytest: cases, chat models, and one-line errors for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.runs import ROOT, Finished, Runner

ERAS = str(ROOT / "suites" / "test_eras.py")
#: A chat model that segments every sentence into single characters and answers every other question with A.
CUTTER = """
def reply(chat):
    text = chat.messages[-1].content
    return "A" if "只回答一个字母" in text else " ".join(text.splitlines()[-1])
"""
#: A segmenter inside the worker that drops the last character of sentences with 机.
DROPPER = """
from pytest_llmprops import Reply, register_model


class Dropper:
    identity, pinned, max_batch, blocking = {"backend": "dropper"}, True, 64, True

    def segment(self, requests):
        return [Reply(value=list(r.text[:-1] if "机" in r.text else r.text)) for r in requests]

    def deviations(self):
        return ()

    def close(self):
        pass


register_model("dropper", lambda spec, options: Dropper(), kinds=("segment",), in_worker=IN_WORKER)
"""


def said_in_one_line(done: Finished, *said: str) -> None:
    """Assert that the run ended with one line that contains all of ``said`` and without a traceback."""
    assert done.code not in (0, 1, 5), done.output
    assert "Traceback" not in done.output, done.output
    assert "INTERNALERROR" not in done.output, done.output
    assert any(all(part in line for part in said) for line in done.output.splitlines()), done.output


def test_chat_model_is_measured_on_both_tasks(run: Runner, workers: str) -> None:
    """A chat model gets requests to segment and to judge sentiment, and its metrics are in the record."""
    run.write("cutter.py", CUTTER)
    model = f"fake:call?file={run.folder / 'cutter.py'}"
    done = run(ERAS, "--model", model, "--llm-limit", "1", "--llm-set", "eras.samples=1", "-n", workers, "-q")
    assert done.code == 0, done.output
    rows = {r["task"]: r for r in done.run["summary"]}
    assert {task: (r["items"], r["correct"], r["errors"]) for task, r in rows.items()} == {
        "explicit": (39, 39, 0), "implicit": (39, 39, 0),
    }  # fmt: skip
    metrics = {(m["task"], m["name"], m["group"]): m["value"] for m in done.run["metrics"]}
    assert metrics["explicit", "test_accuracy", "overall"] == 1
    # All sentences have the same score: every pair is a tie.
    assert (metrics["implicit", "pair_accuracy", "overall"], metrics["implicit", "sampled_rate", ""]) == (
        1,
        1,
    )


@pytest.mark.parametrize("forced", ["pair", "paradigm"])
def test_cases_can_be_paradigms(run: Runner, workers: str, forced: str) -> None:
    """eras.case decides whether a pytest case is a pair or a paradigm; the record has every pair's verdict
    either way.
    """
    words = run.write("words.txt", "信心 留心 机能 心机 意见")
    settings = ("--llm-limit", "2", "--llm-set", f"eras.case={forced}")
    done = run(ERAS, "--model", f"maxmatch:{words}", *settings, "-n", workers, "-q")
    assert len(done.verdicts) == 78
    wrong = {name for name, v in done.verdicts.items() if v["status"] == "wrong"}
    cases = wrong if forced == "pair" else {name.rpartition("/")[0] for name in wrong}
    assert wrong
    assert f"{len(cases)} failed" in done.output
    assert f"{(78 if forced == 'pair' else 39) - len(cases)} passed" in done.output


@pytest.mark.parametrize("inside", ["True", "False"])
def test_a_segmenter_that_drops_characters(run: Runner, workers: str, inside: str) -> None:
    """Pairs whose characters were dropped are errors that say so, not wrong answers; the others are judged."""
    run.write("conftest.py", DROPPER.replace("IN_WORKER", inside))
    run.write("test_eras.py", Path(ERAS).read_text(encoding="utf-8"))
    done = run("--model", "dropper", "--llm-limit", "1", "-n", workers, "-q")
    errors = [v for v in done.verdicts.values() if v["status"] == "error"]
    assert errors
    assert all("dropped '。' at character" in v["reason"] for v in errors)
    assert {v["status"] for v in done.verdicts.values()} == {"error", "correct"}
    [row] = done.run["summary"]
    assert row["errors"] == len(errors)
    assert row["items"] == 39


def test_traditional_characters_through_pytest(run: Runner) -> None:
    """eras.script=opencc sends converted sentences."""
    pytest.importorskip("opencc")
    words = run.write("words.txt", "學生")
    done = run(
        ERAS, "--model", f"maxmatch:{words}", "--llm-limit", "1", "--llm-set", "eras.script=opencc", "-q"
    )
    assert "信心|機, never 心機" in {v["expected"] for v in done.verdicts.values()}


def test_an_empty_word_list(run: Runner) -> None:
    """An empty word list is refused before anything is collected."""
    said_in_one_line(run(ERAS, "--model", f"maxmatch:{run.write('words.txt', ' ')}"), "word list is empty")


def test_a_word_list_in_gbk(run: Runner) -> None:
    """The error for a word list in GBK says that it is in GBK."""
    file = run.folder / "words.txt"
    file.write_bytes("留心 心机".encode("gbk"))
    said_in_one_line(run(ERAS, "--model", f"maxmatch:{file}"), "words.txt", "GBK", "iconv")


def test_unknown_labels_are_refused(run: Runner) -> None:
    """A classifier whose class names do not say which is positive is an error that names the parameter to
    set.
    """
    pytest.importorskip("transformers")
    folder = run.folder / "model"
    folder.mkdir()
    config = {
        "architectures": ["BertForSequenceClassification"], "model_type": "bert", "id2label": {"0": "甲", "1": "乙"},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"")
    said_in_one_line(run(ERAS, "--model", f"hf:{folder}"), "positive_label")


def generated(run: Runner, change: tuple[str, str]) -> Path:
    """Write a set with one pair per paradigm whose second line is changed."""
    from pytest_llmprops.benchmarks.eras.tools.generation import load_templates, make_pairs, write_set

    paradigms, words = load_templates()
    write_set(run.folder, make_pairs(paradigms, words, seed=1, pairs=1), paradigms, source={})
    file = run.folder / "eras" / "pairs.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[1] = lines[1].replace(*change)
    file.write_text("\n".join(lines), encoding="utf-8")
    return run.folder


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("信心机", "信心鸡"), "has no site '信心机'"),
        (("信心机", "信心机信心机"), "has the site '信心机' twice"),
    ],
)
def test_a_set_with_a_damaged_site(run: Runner, change: tuple[str, str], said: str) -> None:
    """A sentence with no site, or with two, is a one-line error that names the row."""
    words = run.write("words.txt", "信心")
    data = ("--llm-source", "published", "--llm-data", str(generated(run, change)))
    done = run(ERAS, "--model", f"maxmatch:{words}", *data)
    assert done.code == 1, done.output
    [line] = [line for line in done.output.splitlines() if line.startswith("ERROR ")]
    assert "pairs.jsonl, row 2" in line
    assert said in line
    assert "Traceback" not in done.output
