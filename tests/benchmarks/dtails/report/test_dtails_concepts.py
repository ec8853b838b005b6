"""The page for each DTAiLS concept next to the report."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.report import concepts as dtails_concepts
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Kind, Request
from pytest_llmprops.reports.kit.blocks import ItemData, Page, Report, Section
from pytest_llmprops.reports.page.build import write_report
from pytest_llmprops.reports.page.html import pages_html
from tests.support.dtails_cases import prompt_of
from tests.support.dtails_runs import items, knows, measure, takes, with_rules
from tests.support.records import as_schema_1

TRANSLATOR: frozenset[Kind] = frozenset({"translate"})


KNOW = items("know", ("weet", "ken"), ["weet", "ken", "weet"], tasks=("select", "translate"))
CHOICES = [item for item in KNOW if item.task == "select"]


DATE = items("date", ("خرما", "رطب", "خارک"), ["خرما", "رطب"], language="fa")


SENTENCES = {"dtails/af/know": {"weet": ("I know that.", "They know."), "ken": ()}}


HOSTILE = "</script><img src=x onerror=alert(1)> {{ 7 * 7 }} \x1b[31m \u202egnp"


def pages_in(out: Path) -> dict[str, str]:
    """Return the concept pages of a report by file name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((out / "dtails").iterdir())}


def pages(out: Path, *folders: Path) -> dict[str, str]:
    """Write the report on these runs and return its concept pages by file name."""
    write_report(folders, out)
    return pages_in(out)


def know_page(out: Path, *folders: Path) -> str:
    return pages(out, *folders)["af-know.html"]


def words(page: str) -> str:
    """Return the visible text of a page on one line."""
    body = re.sub(r"<(style|title)>.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def sentence(page: str, number: int) -> str:
    """Return the visible text of one sentence."""
    return words(page.split('<div class="block sentence">')[number])


def test_report_and_pages_link_to_each_other(tmp_path: Path) -> None:
    """Every concept in the table has a page that only links to the section and the neighbouring concepts."""
    out = tmp_path / "out"
    written = write_report([measure(tmp_path / "run", KNOW + DATE, {"m": takes(1)})], out)
    assert [path.name for path in written if path.suffix == ""] == ["dtails"], "the folder is listed once"
    assert not [path for path in written if path.parent.name == "dtails"]
    concept_pages = pages_in(out)
    report = (out / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r'href="(dtails/[^"]+)"', report)) == {f"dtails/{name}" for name in concept_pages}
    links = {name: re.findall(r'href="([^#"][^"]*)"', page) for name, page in concept_pages.items()}
    assert links == {
        "af-know.html": ["../report.html#1-section", "fa-date.html"],
        "fa-date.html": ["../report.html#1-section", "af-know.html"],
    }
    assert 'id="1-section"' in report
    assert not re.search(r"\w+://|url\(|@import|<link|src=", "".join(concept_pages.values()))


def test_a_page_has_every_choice_in_the_order_shown(tmp_path: Path) -> None:
    """A page shows the sentence, the right variation and, per run, list, position and outcome."""
    concept_pages = pages(tmp_path / "out", measure(tmp_path / "run", DATE, {"m": takes(2)}, runs=3))
    page = concept_pages["fa-date.html"]
    assert words(page).count("Sentence 1 on date") == 1
    assert "Right: خرما · dtails/fa/date/01" in sentence(page, 1)
    lists = re.findall(r'<ol class="shown">(.*?)</ol>', page)
    assert len(lists) == 2 * 3
    for shown in lists:
        assert set(re.findall(r"<bdi[^>]*>(.*?)</bdi>", shown)) == {"خرما", "رطب", "خارک"}
        assert [n for n, one in enumerate(shown.split("<li")[1:], 1) if 'class="took"' in one] == [2]
    outcomes = re.findall(r"([✓✗]) (right|wrong), position 2", words(page))
    assert len(outcomes) == 6
    assert ("✗", "wrong") in outcomes
    assert page.count('lang="fa"') > 10
    assert "خرما right in 1 sentence" in words(page)
    assert "خارک right in 0 sentences" in words(page)


def test_models_and_settings_are_shown_together(tmp_path: Path) -> None:
    """Each sentence lists every model and rules setting, and each translation with its reading."""
    model = {"m": with_rules(knows(KNOW))}
    runs = [measure(tmp_path / rules, KNOW, model, rules=rules) for rules in ("none", "self")]
    runs.append(measure(tmp_path / "nllb", KNOW, {"nllb": lambda r: "Ek weett dit."}, kinds=TRANSLATOR))
    page = know_page(tmp_path / "out", *runs)
    first, second = sentence(page, 1), sentence(page, 2)
    assert first.index("m (no rules)") < first.index("m (own rules)") < first.index("nllb translates")
    assert "Ek weett dit. ✓ right translated with weet" in first
    assert "Ek weett dit. ✗ wrong translated with weet" in second


def test_rules_with_their_number_of_sentences(tmp_path: Path) -> None:
    """A page shows each distinct set of rules once, with the number of sentences behind each rule."""
    model = {"a": with_rules(knows(KNOW)), "b": with_rules(takes(1))}
    own = measure(tmp_path / "own", CHOICES, model, rules="self", sentences=SENTENCES)
    from_file = measure(tmp_path / "file", CHOICES, {"a": knows(KNOW)}, rules="x/rules-af-gpt-4o.json")
    bare = measure(tmp_path / "none", CHOICES, model, rules="self")
    text = words(know_page(tmp_path / "out", own, from_file))
    for said in (
        "Own rules of a and b sentences: 2 weet 2 sentences when it is weet ken 0 sentences when it is ken",
        "Rules of gpt-4o, given to a sentences: 14 weet 7 sentences by hand: weet ken 7 sentences by hand: ken",
    ):
        assert said in text
    assert "Own rules of a and b sentences: 0 (no examples" in words(know_page(tmp_path / "out2", bare))


def test_rules_that_the_record_lacks_are_counted(tmp_path: Path) -> None:
    """The page says that the record has no rules for variations that were neither right nor chosen."""
    run = measure(tmp_path / "run", DATE, {"m": with_rules(knows(DATE))}, rules="self")
    text = words(pages(tmp_path / "out", run)["fa-date.html"])
    assert "The record does not have 1 rule for variations that were neither right nor chosen." in text
    assert "when it is خرما" in text
    assert "when it is خارک" not in text


def test_rules_that_could_not_be_read(tmp_path: Path) -> None:
    """The page says why there are no rules and that the sentences were not sent to the model."""
    run = measure(tmp_path / "run", CHOICES, {"m": with_rules(knows(KNOW), "")}, rules="self")
    page = know_page(tmp_path / "out", run)
    assert words(page).count("could not be read in 3 tries") == 1 + len(CHOICES)
    assert "? unparsed its rules" in sentence(page, 1)
    assert "the record has no evidence" not in words(page)


def test_a_page_needs_no_requests(tmp_path: Path) -> None:
    """Without requests.jsonl the page is the same, because all of it comes from the verdicts."""
    model = {"m": with_rules(takes(1))}
    first, second = (
        know_page(
            tmp_path / f"out-{kept}", measure(tmp_path / str(kept), KNOW, model, rules="self", replies=kept)
        )
        for kept in (True, False)
    )
    assert 'class="shown"' in first
    assert first == second


def test_page_of_a_schema_1_record_says_what_is_missing(tmp_path: Path) -> None:
    """For schema 1 the page shows positions and outcomes, and says that the sentence is missing."""
    model = {"m": with_rules(takes(1))}
    run = as_schema_1(measure(tmp_path / "run", CHOICES, model, rules="self", runs=2))
    page = know_page(tmp_path / "out", run)
    assert "m (own rules): the record has no evidence for 3 items" in words(page)
    for missing in ("Sentence 1 on know", "when it is", 'class="shown"'):
        assert missing not in page
    assert "The record does not have this sentence." in sentence(page, 1)
    assert re.search(r"[✓✗] (right|wrong), position 1", sentence(page, 1))
    assert "Chose " in sentence(page, 1)


def test_sentence_is_taken_from_another_run(tmp_path: Path) -> None:
    """If one of two runs has evidence, the page shows the sentence for both."""
    cut = as_schema_1(measure(tmp_path / "cut", CHOICES, {"a": takes(1)}))
    page = know_page(tmp_path / "out", cut, measure(tmp_path / "whole", CHOICES, {"b": takes(1)}))
    assert "Sentence 1 on know, weet." in sentence(page, 1)
    assert "a (no rules): the record has no evidence" in words(page)
    assert "b (no rules): the record has no evidence" not in words(page)


def test_errors_and_refusals_are_shown(tmp_path: Path) -> None:
    """A failed call and a refusal are shown with their reasons."""
    answers: dict[str, str | BackendError] = {
        "Sentence 1": BackendError("timed out <b>twice</b>", kind="timeout"),
        "Sentence 2": "I cannot help with that.",
    }

    def answer(request: Request) -> str | BackendError:
        return next((a for t, a in answers.items() if t in prompt_of(request)), "Well.")

    page = know_page(tmp_path / "out", measure(tmp_path / "run", CHOICES, {"m": answer}))
    assert "! error timed out <b>twice</b>" in sentence(page, 1)
    assert "no choice read, after a retry" in sentence(page, 2)
    assert "declined" in sentence(page, 2)
    assert "after one retry" in sentence(page, 3)


def test_hostile_texts_are_text(tmp_path: Path) -> None:
    """Sentences, variations, rules, translations, reasons and model names are escaped in the page."""
    hostile = [
        replace(item, fields={**item.fields, "concept": HOSTILE})
        for item in items("know", ("weet", HOSTILE), [HOSTILE, "weet"], tasks=("select", "translate"))
    ]
    model = {f"m{HOSTILE}": with_rules(lambda request: HOSTILE, HOSTILE + "{}")}
    [page] = pages(tmp_path / "out", measure(tmp_path / "run", hostile, model, rules="self")).values()
    for text in ("<img", "<script", "\x1b", "\u202e", "script-src"):
        assert text not in page
    for text in ("{{ 7 * 7 }}", "␛[31m", "[U+202E]", "default-src 'none'"):
        assert text in page
    assert words(page).count("<img src=x onerror=alert(1)>") > 8


def test_pages_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of pages, sentences per page and characters per text are limited, and the page says so."""
    monkeypatch.setattr(dtails_concepts, "MOST_PAGES", 1)
    monkeypatch.setattr(dtails_concepts, "MOST_SENTENCES", 2)
    monkeypatch.setattr(dtails_concepts, "LONGEST", 10)
    [page] = pages(tmp_path / "out", measure(tmp_path / "run", KNOW + DATE, {"m": takes(1)})).values()
    assert page.count('<div class="block sentence">') == 2
    assert "1 further sentence in the runs' records" in words(page)
    assert "Sentence 1… (" in sentence(page, 1)
    assert not re.search(r'rel="next"', page)
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "1 concept without a page" in report
    assert "| date | Farsi" in report


def test_concepts_that_would_share_a_file(tmp_path: Path) -> None:
    """Names that differ only in case or special characters get separate files."""
    same = [
        item
        for name in ("know", "Know", "kn/ow", "kn-ow", "../know")
        for item in items(name, ("weet", "ken"), ["weet"])
    ]
    concept_pages = pages(tmp_path / "out", measure(tmp_path / "run", same, {"m": takes(1)}))
    assert len(concept_pages) == len({name.casefold() for name in concept_pages}) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


@pytest.mark.parametrize(
    "path", ["../x.html", "a/b/c.html", "x.html", "a/x.htm", "a/ü.html", "/a/x.html", "a/..html"]
)
def test_a_page_stays_in_a_folder_of_the_report(path: str) -> None:
    """A benchmark's section cannot write outside the report folder."""
    section = Section((), (Page(path, "t", dtails_concepts.TEMPLATE, None),))
    with pytest.raises(ValueError, match="FOLDER/NAME"):
        pages_html(Report("t", (), (), (), (), (), (), (section,), (), ItemData("", (), {})))


def test_file_with_the_name_of_the_page_folder(tmp_path: Path) -> None:
    """If a file has the name of the folder, a one-line message says so."""
    run, file = measure(tmp_path / "run", KNOW, {"m": takes(1)}), tmp_path / "out" / "dtails"
    file.parent.mkdir()
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="--out"):
        write_report([run], file.parent)
    assert file.read_text(encoding="utf-8") == "mine"
