"""Extraction from a hand-made corpus with known alignments to the authors' file format, and its failures."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_llmprops.benchmarks.dtails.items import expert_rows, items, languages, train_rows, words
from pytest_llmprops.benchmarks.dtails.rule_making import sentence_key
from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import Counting, Thresholds, Word
from pytest_llmprops.benchmarks.dtails.tools.mining.corpus import open_corpus
from pytest_llmprops.benchmarks.dtails.tools.mining.extraction import Extraction, ExtractionSettings, extract
from pytest_llmprops.benchmarks.dtails.tools.mining.mined_concepts import Selection
from pytest_llmprops.benchmarks.dtails.tools.mining.senses import GlossSenses, WordNetSenses
from pytest_llmprops.core.errors import DataError, UsageError
from pytest_llmprops.data.files import DataFolder
from tests.support.dtails_planted import Tagger, write
from tests.support.dtails_wordnet import token_vectors, wordnet

LEMMAS = {"planes": "plane", "aviones": "avión", "planos": "plano", "haciendas": "hacienda"}


class InOrder:
    """Link the first word to the first, the second to the second and so on: known alignments."""

    words: Literal["written", "lemmas"] = "written"

    def __init__(self, *, nothing: bool = False, independent: bool = True) -> None:
        identity = {"aligner": "in order", "nothing": nothing, "independent": independent}
        self.identity: Mapping[str, Any] = identity
        self.nothing, self.independent = nothing, independent
        self.seen = 0

    def align(
        self, pairs: Iterable[tuple[Sequence[str], Sequence[str]]]
    ) -> Iterator[frozenset[tuple[int, int]]]:
        for source, target in pairs:
            self.seen += 1
            size = 0 if self.nothing else min(len(source), len(target))
            yield frozenset((i, i) for i in range(size))


def lines(*groups: tuple[int, str, str]) -> list[tuple[str, str]]:
    """Return ``number`` sentences of each group, made distinct by the sentence's number."""
    return [
        (source.replace("#", f"w{n}x{g}"), target.replace("#", f"v{n}x{g}"))
        for g, (number, source, target) in enumerate(groups)
        for n in range(number)
    ]


#: house: 60 casa, 60 hacienda (20 of them plural), entropy ln 2. green: 50 verde, 49 verdoso, too few. red:
#: 70 rojo, 50 tinto, 0.679 nats, too low. see: 55 ver, 55 mirar as a verb, and 55 sede as a noun, a separate
#: word
CORPUS = lines(
    (60, "house # one", "casa # uno"),
    (40, "house # two", "hacienda # dos"),
    (20, "Houses # two", "Haciendas # dos"),
    (50, "green # one", "verde # uno"),
    (49, "green # one", "verdoso # uno"),
    (70, "red # one", "rojo # uno"),
    (50, "red # one", "tinto # uno"),
    (55, "see # one", "ver # uno"),
    (55, "see # two", "mirar # uno"),
)


TAGS = {"green": "ADJ", "red": "ADJ", "see": "VERB", "one": "NUM", "two": "NUM"}


class Silent(Tagger):
    """A parser that returns no words."""

    def words(self, text: str) -> list[Word]:
        return []


def run(
    root: Path, corpus: Sequence[tuple[str, str]] = CORPUS, language: str = "es", **changes: Any
) -> Extraction:
    files = write(root, list(corpus))
    tagger = Tagger(TAGS, {"houses": "house", **LEMMAS})
    parts: dict[str, Any] = {"source": tagger, "target": Tagger({}, LEMMAS), "aligner": InOrder()} | changes
    return extract(open_corpus(files, language), language, root / "out", **parts)


def data(root: Path) -> DataFolder:
    return DataFolder(root / "out", "generated")


def test_concepts_with_known_counts_and_entropies(tmp_path: Path) -> None:
    """Exactly the words with two variations of 50 and 0.69 nats are found, with the planted numbers."""
    statistics = run(tmp_path).facts["statistics"]
    assert {(c["concept"], c["pos"]): (c["counts"], c["entropy"]) for c in statistics["concepts"]} == {
        ("house", "NOUN"): ({"casa": 60, "hacienda": 60}, 0.693147),
        ("see", "VERB"): ({"mirar": 55, "ver": 55}, 0.693147),
    }
    # Each pair has three links, of which number words do not count; # is a different noun in each pair.
    assert statistics["links"] == 3 * len(CORPUS)
    assert statistics["lexemes"] == 4 + len(CORPUS)
    assert [statistics[name] for name in ("with_two_variations", "with_entropy", "of_one_sense")] == [3, 2, 2]


def test_files_are_read_back(tmp_path: Path) -> None:
    """The suite reads back every written file with the same concepts, variations and labels."""
    extraction = run(tmp_path)
    files = data(tmp_path)
    assert languages(files) == ("es",)
    assert DataFolder(tmp_path / "out", "published").source_for("dtails") == "generated"
    entries = {entry.concept: [v.name for v in entry.variations] for entry in words(files, "es")}
    assert entries == {"house": ["casa", "hacienda/Haciendas"], "see": ["mirar", "ver"]}
    assert [entry.pos for entry in words(files, "es")] == ["NOUN", "VERB"]
    test, train = expert_rows(files, "es"), train_rows(files, "es")
    assert (len(test), len(train)) == (20, 230 - 20)
    assert extraction.facts["rows"] == {"test": 20, "train": 210, "test_concepts": 2}
    for row in (*test, *train):
        first = row.target.split()[0]
        wanted = first if first in ("casa", "ver", "mirar") else "hacienda/Haciendas"
        assert row.variations[row.label].name == wanted
        assert row.pos == ("VERB" if row.concept == "see" else "NOUN")
    for concept in ("house", "see"):
        assert Counter(row.concept for row in test)[concept] == 10
        assert {row.label for row in test if row.concept == concept} == {0, 1}
    assert len(list(items(files))) == 40
    names = ["SOURCE.json", "es.words", "expert_dataset.csv", "train_dataset.csv"]
    assert [path.name for path in extraction.paths] == names


def test_no_test_row_is_a_train_row(tmp_path: Path) -> None:
    """A sentence of the test set is in no train row, whatever its concept, case and punctuation."""
    repeated = [(f"{source.upper()} !", target) for source, target in CORPUS if source[0] not in "gr"]
    both = lines((80, "house # see", "casa # ver"), (80, "house # see", "hacienda # mirar"))
    run(tmp_path, [*CORPUS, *repeated, *both])
    test = {sentence_key(row.sentence) for row in expert_rows(data(tmp_path), "es")}
    train = {sentence_key(row.sentence) for row in train_rows(data(tmp_path), "es")}
    assert len(test) == 20
    assert not test & train
    assert len(train) == 160 + 230 - len(test)
    asked = [row.sentence for row in expert_rows(data(tmp_path), "es")]
    assert sum(sentence.endswith("!") for sentence in asked) == 0  # of equal sentences the first


def test_ambiguous_sentences_are_not_test_rows(tmp_path: Path) -> None:
    """A sentence with two translations is not a test row, and one with both variations gives no row."""
    twice = [("house one", "casa uno"), ("House one.", "hacienda uno")] * 300
    both = [("house house one", "casa hacienda uno")] * 30
    settings = ExtractionSettings(selection=Selection(per_concept=100))
    extraction = run(tmp_path, [*CORPUS, *twice, *both], settings=settings)
    test = [row for row in expert_rows(data(tmp_path), "es") if row.concept == "house"]
    assert len(test) == 100
    assert not [row for row in test if row.sentence.lower().startswith("house one")]
    (house,) = (c for c in extraction.facts["statistics"]["concepts"] if c["concept"] == "house")
    assert house["pairs_with_two"] == 30
    assert sum(house["rows"].values()) == 120 + 600


def test_translations_without_a_listed_form_are_not_test_rows(tmp_path: Path) -> None:
    """With one form per variation, rows with its other forms are used only for training."""
    run(tmp_path, settings=ExtractionSettings(forms=1, selection=Selection(per_concept=100)))
    labels = [row.target.split()[0] for row in expert_rows(data(tmp_path), "es") if row.concept == "house"]
    assert Counter(labels) == {"casa": 60, "hacienda": 40}
    assert sum("Haciendas" in row.target for row in train_rows(data(tmp_path), "es")) == 20


def test_the_same_seed_selects_the_same_rows(tmp_path: Path) -> None:
    """Two runs write the same bytes, and another seed selects other rows of the same concepts."""
    names = ("es.words", "expert_dataset.csv", "train_dataset.csv")
    texts: list[list[bytes]] = []
    for seed in (0, 0, 1):
        root = tmp_path / f"run{len(texts)}"
        root.mkdir()
        run(root, settings=ExtractionSettings(selection=Selection(seed=seed)))
        texts.append([(root / "out/dtails/en-es" / name).read_bytes() for name in names])
    assert texts[0] == texts[1]
    assert texts[0][0] == texts[2][0]
    assert texts[0][1] != texts[2][1]


def test_more_than_twenty_concepts_are_reduced_to_twenty(tmp_path: Path) -> None:
    """Of 24 concepts two uneven ones are dropped and 20 drawn; all stay in list and train rows."""
    shares = [(120, 50)] * 2 + [(60, 50)] * 22
    groups = [
        (share, f"noun{n}k # one", f"{letter}{n} # uno")
        for n, both in enumerate(shares)
        for share, letter in zip(both, "ab", strict=True)
    ]
    settings = ExtractionSettings(thresholds=Thresholds(min_entropy=0.5))
    extraction = run(tmp_path, lines(*groups), settings=settings)
    asked = {row.concept for row in expert_rows(data(tmp_path), "es")}
    assert len(words(data(tmp_path), "es")) == 24
    assert len(asked) == 20
    assert not asked & {"noun0k", "noun1k"}
    assert extraction.facts["rows"]["test"] == 200
    assert {row.concept for row in train_rows(data(tmp_path), "es")} == {f"noun{n}k" for n in range(24)}


PLANES = lines(
    (60, "plane # wings flight", "avión # alas vuelo"),
    (60, "plane # airplanes", "aeroplano # aviones"),
    (60, "plane # points lines", "plano # puntos lineas"),
)


def test_polysemy_is_dropped(tmp_path: Path) -> None:
    """In the paper's example, plano is a geometric plane in WordNet, so it is not a variation of aircraft."""
    (tmp_path / "wordnet").mkdir()
    senses = WordNetSenses(wordnet(tmp_path / "wordnet"))
    facts = run(tmp_path, PLANES, senses=senses, target=Tagger({}, {})).facts
    (plane,) = facts["statistics"]["concepts"]
    assert plane["counts"] == {"aeroplano": 60, "avión": 60}
    assert plane["other_senses"] == ["plano"]
    assert facts["senses"]["senses"] == "wordnet"
    rows = (*expert_rows(data(tmp_path), "es"), *train_rows(data(tmp_path), "es"))
    assert len(rows) == 120
    assert not [row for row in rows if "plano " in row.target.replace("aeroplano", "")]
    with pytest.raises(UsageError, match="no concept is left"):
        run(tmp_path, PLANES[60:], senses=senses, target=Tagger({}, {}))
    senses.close()
    near = GlossSenses(tmp_path / "wordnet", token_vectors, {"files_sha256": "abc"})
    facts = run(tmp_path, PLANES, senses=near, target=Tagger({}, {})).facts
    near.close()
    assert facts["statistics"]["concepts"][0]["other_senses"] == ["plano"]
    assert (facts["senses"]["method"], facts["senses"]["encoder"]) == (
        "nearest gloss",
        {"files_sha256": "abc"},
    )
    off = run(tmp_path, PLANES, target=Tagger({}, {})).facts
    assert len(off["statistics"]["concepts"][0]["counts"]) == 3
    assert off["senses"] == "off"


def test_notes_say_what_the_parsers_lack(tmp_path: Path) -> None:
    """Without lemmas written forms are used, without dependencies compounds count; notes say so."""

    class Flat(Tagger):
        """A tagger that returns tags but no relations."""

        def words(self, text: str) -> list[Word]:
            return [word._replace(relation="", head=-1) for word in super().words(text)]

    extraction = run(tmp_path, source=Flat(TAGS, {"houses": "house"}), target=Tagger(forms_only=True))
    concepts = [c["concept"] for c in extraction.facts["statistics"]["concepts"]]
    assert concepts == ["see"], "haciendas is a separate word"
    written = json.loads((tmp_path / "out/dtails/SOURCE.json").read_text(encoding="utf-8"))
    assert written["languages"]["es"]["notes"] == list(extraction.notes)
    assert any("gives no lemmas" in note for note in extraction.notes)
    assert any("gives no dependencies" in note for note in extraction.notes)


class Stopped(Tagger):
    """Raise Ctrl-C in the second part."""

    def parse(self, texts: Sequence[str]) -> list[list[Word]]:
        if self.calls >= 1_000:
            raise KeyboardInterrupt
        return super().parse(texts)


class StoppedAligner(InOrder):
    """Raise Ctrl-C in the second part."""

    def align(self, pairs: Any) -> Iterator[frozenset[tuple[int, int]]]:
        for links in super().align(pairs):
            if self.seen == 1_500:
                raise KeyboardInterrupt
            yield links


@pytest.mark.parametrize("independent", [True, False])
def test_interrupted_run_is_resumed(tmp_path: Path, independent: bool) -> None:
    """A run resumed after Ctrl-C does not repeat finished work and has the result of an uninterrupted run."""
    corpus = CORPUS * 5  # 2,245 pairs: three parts
    whole, aligner = tmp_path / "whole", InOrder(independent=independent)
    whole.mkdir()
    run(whole, corpus, aligner=aligner)
    second, third, last = Tagger({}, LEMMAS), Tagger({}, LEMMAS), InOrder(independent=independent)
    stopped = StoppedAligner(independent=independent)
    for target, stops in ((Stopped({}, LEMMAS), aligner), (second, stopped)):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, corpus, target=target, aligner=stops)
        assert not (tmp_path / "out/dtails").exists()
        assert not list((tmp_path / "out/work").rglob("*.part"))
    assert second.calls == len(corpus) - 1_000
    run(tmp_path, corpus, target=third, aligner=last)
    assert third.calls == 0
    assert last.seen == len(corpus) - (1_000 if independent else 0)
    for name in ("es.words", "expert_dataset.csv", "train_dataset.csv"):
        paths = (root / "out/dtails/en-es" / name for root in (whole, tmp_path))
        assert len({path.read_bytes() for path in paths}) == 1


def test_stored_parts_are_not_reused_for_other_parsers(tmp_path: Path) -> None:
    """A different parser identity, aligner or corpus repeats the analysis."""
    run(tmp_path)
    tagger = Tagger({}, LEMMAS | {"dos": "two"})
    aligner = InOrder()
    run(tmp_path, target=tagger, aligner=aligner)
    assert tagger.calls == aligner.seen == len(CORPUS)
    other = InOrder(independent=False)
    run(tmp_path, target=tagger, aligner=other)
    assert tagger.calls == other.seen == len(CORPUS)
    again = Tagger({}, LEMMAS)
    run(tmp_path, [*CORPUS, ("one more", "uno más")], target=again)
    assert again.calls == len(CORPUS) + 1


def test_damaged_stored_part_is_named(tmp_path: Path) -> None:
    """A truncated stored file is named in one line with the fix."""
    run(tmp_path)
    (part,) = (tmp_path / "out/work").rglob("analysis-*")
    part.write_bytes(part.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"analysis-.*: damaged.*delete it and run again"):
        run(tmp_path)
    part.unlink()
    (links,) = (tmp_path / "out/work").rglob("links-*")
    links.write_bytes(gzip.compress(b"0-0\n"))
    with pytest.raises(DataError, match=r"links-.*: too short; delete it"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"aligner": InOrder(nothing=True)}, "links no words in any of the 449 pairs"),
        ({"settings": ExtractionSettings(thresholds=Thresholds(500))},
         "two translations that are each aligned 500 times"),
        ({"settings": ExtractionSettings(thresholds=Thresholds(min_entropy=2))}, "has an entropy of at least 2"),
        ({"settings": ExtractionSettings(Counting(tags=("DET",)))}, "has a source word with the tag DET"),
        ({"target": Silent()}, "the parsers find no words"),
        *(({"language": code}, "--lang") for code in ("a", "afr", "AF", "a1", "", "en", "../")),
    ],
)  # fmt: skip
def test_no_concept_is_left(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """An invalid language, and links, thresholds, tags or parsers that leave no concept, are reported in one line."""
    with pytest.raises(UsageError, match=message) as error:
        run(tmp_path, **changes)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out/dtails").exists()


def test_published_data_is_not_overwritten(tmp_path: Path) -> None:
    """A folder with data that was not generated is left unchanged."""
    (tmp_path / "out/dtails/en-es").mkdir(parents=True)
    kept = tmp_path / "out/dtails/en-es/es.words"
    kept.write_text("see,VERB,a;b\n", encoding="utf-8")
    with pytest.raises(UsageError, match="has data that was not generated"):
        run(tmp_path)
    assert kept.read_text(encoding="utf-8") == "see,VERB,a;b\n"


def test_several_languages_share_a_folder(tmp_path: Path) -> None:
    """SOURCE.json keeps its entry for a language when another language is added."""
    run(tmp_path)
    run(tmp_path, language="pt")
    facts = json.loads((tmp_path / "out/dtails/SOURCE.json").read_text(encoding="utf-8"))
    assert facts["source"] == "generated"
    assert list(facts["languages"]) == ["es", "pt"]
    assert facts["languages"]["es"]["settings"]["thresholds"]["min_count"] == 50
    assert languages(data(tmp_path)) == ("es", "pt")


def test_a_language_without_train_rows_has_no_train_file(tmp_path: Path) -> None:
    """If every row is a test row, a train file of an earlier run is removed."""
    run(tmp_path)
    assert (tmp_path / "out/dtails/en-es/train_dataset.csv").is_file()
    run(tmp_path, settings=ExtractionSettings(selection=Selection(per_concept=500)))
    assert not (tmp_path / "out/dtails/en-es/train_dataset.csv").exists()
    assert train_rows(data(tmp_path), "es") == ()


def test_odd_words_are_read_back(tmp_path: Path) -> None:
    """Quotes, joiners, brackets, right-to-left letters and nested variations are read back unchanged."""
    odd = [["o'clock", 'dit"s', "[x]", "\\n"], ["می\u200cروم", "روم", "میروم\u200f"]]
    groups = ((60, f"noun{n} # one", f"{word} # uno") for n, many in enumerate(odd) for word in many)
    run(tmp_path, lines(*groups), settings=ExtractionSettings(thresholds=Thresholds(min_entropy=0.6)))
    entries = words(data(tmp_path), "es")
    concepts = {entry.concept: {form for v in entry.variations for form in v.forms} for entry in entries}
    # The third Farsi form is the first without its joiner: one word, listed in its most frequent spelling.
    assert concepts["noun0"] == set(odd[0])
    assert "روم" in concepts["noun1"]
    assert len(concepts["noun1"]) == 2
    text = (tmp_path / "out/dtails/en-es/expert_dataset.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert {row["label"] for row in rows if row["concept"] == "noun0"} == set(odd[0])
    assert len(expert_rows(data(tmp_path), "es")) == 20
