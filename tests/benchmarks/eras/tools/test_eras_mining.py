"""New paradigms: labels, overlapping words, and invalid lexicons."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.eras.tools.mining import (
    LexiconWord,
    label,
    mine,
    mine_lexicon,
    read_lexicon,
    table,
)
from pytest_llmprops.core.errors import DataError


@pytest.mark.parametrize(
    ("score", "pos", "neu", "neg", "non", "expected"),
    [
        (0.4, 3, 0, 2, 0, "+"),
        (0.39, 3, 0, 0, 0, None),
        (0.9, 2, 0, 2, 0, None),
        (-0.4, 0, 0, 5, 0, None),
        (-0.41, 0, 0, 5, 0, "-"),
        (-0.9, 2, 1, 2, 0, None),
        (0.0, 1, 3, 1, 2, "0"),
        (0.0, 1, 3, 1, 1, None),
        (0.0, 2, 3, 1, 2, None),
        (0.1, 0, 5, 0, 2, None),
    ],
)
def test_labels_are_the_papers(
    score: float, pos: int, neu: int, neg: int, non: int, expected: str | None
) -> None:
    """A label is + from .4 with more positive votes, - below -.4 with more negative, 0 under three conditions."""
    assert label(LexiconWord("甲乙", score, pos, neu, neg, non, 0)) == expected


def good(word: str) -> LexiconWord:
    return LexiconWord(word, 0.8, 5, 0, 0, 0, 0)


def bad(word: str) -> LexiconWord:
    return LexiconWord(word, -0.8, 0, 0, 5, 0, 0)


def plain(word: str) -> LexiconWord:
    return LexiconWord(word, 0.0, 0, 5, 0, 3, 0)


def test_pairs_overlap_and_differ() -> None:
    """Both branchings are listed if both labels can be true; a true label of 0 and equal labels are excluded."""
    lexicon = [good("甲乙"), bad("乙丙"), plain("丙丁"), good("丙戊"), good("乙己"), good("己庚丙")]
    frequencies = {"甲乙": 50, "乙丙": 30, "丙丁": 10, "丙戊": 99, "乙己": 7, "己庚丙": 7}
    actual = [
        (c.site, c.branching, c.true_word, c.canary_word, c.sentiment) for c in mine(frequencies, lexicon)
    ]
    assert actual == [
        ("乙丙戊", "left", "乙丙", "丙戊", "-/+"),
        ("乙丙戊", "right", "丙戊", "乙丙", "+/-"),
        ("甲乙丙", "left", "甲乙", "乙丙", "+/-"),
        ("甲乙丙", "right", "乙丙", "甲乙", "-/+"),
        ("乙丙丁", "left", "乙丙", "丙丁", "-/0"),
    ]
    assert [c.rarer for c in mine(frequencies, lexicon)] == [30, 30, 30, 30, 10]


def test_ranking_is_by_the_rarer_word() -> None:
    """Pairs are sorted by the frequency of their rarer word, then by that of the commoner word."""
    lexicon = [good("甲乙"), bad("乙丙"), good("丁戊"), bad("戊己"), good("庚辛"), bad("辛壬")]
    frequencies = {"甲乙": 1000, "乙丙": 2, "丁戊": 5, "戊己": 5, "庚辛": 5, "辛壬": 6}
    assert [c.site for c in mine(frequencies, lexicon)][::2] == ["庚辛壬", "丁戊己", "甲乙丙"]


def test_words_outside_the_dictionary_and_known_sites_are_left_out() -> None:
    """Both words must be in the dictionary, and known sites of the benchmark are not candidates."""
    lexicon = [good("甲乙"), bad("乙丙")]
    both = {"甲乙": 1, "乙丙": 1}
    assert len(mine(both, lexicon)) == 2
    assert mine({"甲乙": 1, "乙丙": 0}, lexicon) == []
    assert mine({"甲乙": 1}, lexicon) == []
    assert mine(both, lexicon, known=["甲乙丙"]) == []


def test_lexicon_files(tmp_path: Path) -> None:
    """A header, a byte-order mark and blank lines are accepted."""
    file = tmp_path / "lexicon.csv"
    file.write_text(
        "\ufeffword,score,pos,neu,neg,non,not\n信心,0.6,5,0,0,0,0\n\n心得,-1,0,1,4,2,1\n", encoding="utf-8"
    )
    assert read_lexicon(file) == [
        LexiconWord("信心", 0.6, 5, 0, 0, 0, 0),
        LexiconWord("心得", -1.0, 0, 1, 4, 2, 1),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("信心,0.6,5,0,0,0\n", "6 fields"),
        ("信心,high,5,0,0,0,0\n", "'high'"),
        ("信心,nan,5,0,0,0,0\n", "outside"),
        ("信心,1.5,5,0,0,0,0\n", "outside"),
        ("信心,0.6,5,-1,0,0,0\n", "'-1'"),
        ("信心,0.6,5,1.0,0,0,0\n", "'1.0'"),
        (",0.6,5,0,0,0,0\n", "no word"),
        ("信心,0.6,5,0,0,0,0\n信心,0.7,5,0,0,0,0\n", "line 2 repeats"),
        ('"信心,0.6,5,0,0,0,0\n', "line 1"),
        ("word,score,pos,neu,neg,non,not\n", "no words"),
        ("", "empty"),
    ],
)
def test_bad_lexicons_are_one_line(text: str, message: str, tmp_path: Path) -> None:
    """Each fault is a one-line error with the file and line number."""
    file = tmp_path / "lexicon.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_lexicon(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_jieba_gives_candidates(tmp_path: Path) -> None:
    """A traditional lexicon gives new sites from jieba's dictionary and no published one."""
    pytest.importorskip("jieba")
    pytest.importorskip("opencc")
    file = tmp_path / "lexicon.csv"
    rows = ["信心,0.6,5,0,0,0,0", "心機,-0.6,0,0,5,0,0", "自信,0.8,5,0,0,0,0", "機動,0,0,5,0,3,0"]
    file.write_text("\n".join(rows), encoding="utf-8")
    actual = mine_lexicon(file, traditional=True)
    assert {c.site for c in actual} == {"心机动"}
    assert [(c.branching, c.sentiment) for c in actual] == [("left", "-/0")]
    lines = table(actual, top=5).splitlines()
    assert lines[1].split("\t")[:5] == ["心机动", "left", "心机", "机动", "-/0"]
    assert len(lines) == 2
    # Without conversion 心機 is not in the dictionary.
    assert mine_lexicon(file) == []
