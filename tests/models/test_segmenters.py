"""Segmenters that run inside the worker: jieba, PKUSEG and MaxMatch."""

from __future__ import annotations

import logging
import pickle
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_llmprops.core.requests import Segment
from pytest_llmprops.models.base import kinds_of
from pytest_llmprops.models.segmenters import WordSegmenter
from tests.support.backends import error, fatal, make, needs, refuse, reply, values

needs_jieba = needs("jieba", extra="zh")
needs_pkuseg = needs("spacy_pkuseg", extra="zh")
TEXTS = ["学生留心机动的书。", "", "GPT-4 和 jieba\u3000都好", "𠮷野家", "　", "a\tb"]


def words(model: Any, *texts: str) -> list[list[str]]:
    return values(model.segment([Segment(text) for text in texts]))


def word_list(folder: Path, text: str = "留心 心机 机动 机动车 学生") -> Path:
    file = folder / "words.txt"
    file.write_text(text, encoding="utf-8")
    return file


def check_contract(model: Any) -> None:
    """Assert what the engine relies on."""
    assert kinds_of(model) == {"segment"}
    assert (model.pinned, model.blocking) == (True, True)
    assert model.deviations() == ()
    assert ["".join(cuts) for cuts in words(model, *TEXTS)] == TEXTS
    model.close()
    assert ["".join(cuts) for cuts in words(model, *TEXTS)] == TEXTS


def test_longest_word_wins(tmp_path: Path) -> None:
    """The longest word at each position is taken without lookahead, and an unknown character is a word."""
    model = make(f"maxmatch:{word_list(tmp_path)}")
    assert words(model, "学生留心机动车的机动𠮷") == [["学生", "留心", "机动车", "的", "机动", "𠮷"]]
    assert words(model, "留心机") == [["留心", "机"]]
    # A prefix of a longer word is not a word.
    assert words(make(f"maxmatch:{word_list(tmp_path, '中华人民共和国 中华')}"), "中华人民") == [
        ["中华", "人", "民"]
    ]
    check_contract(model)


def test_word_list_may_be_a_training_file(tmp_path: Path) -> None:
    """Lines, a segmented text and full-width spaces give the same words; a byte-order mark is ignored."""
    spaced = make(f"maxmatch:{word_list(tmp_path)}")
    expected = words(spaced, *TEXTS)
    for text in ("\ufeff留心\r\n心机\r\n机动\r\n机动车\r\n学生\r\n", "学生  留心\u3000机动\n机动车  心机\n"):
        model = make(f"maxmatch:{word_list(tmp_path, text)}")
        assert words(model, *TEXTS) == expected
        assert model.identity != spaced.identity


@needs_jieba
def test_words_match_jieba() -> None:
    """The words are those of jieba itself, with and without its hidden Markov model."""
    texts = ["他来到了网易杭研大厦", "学生留心机动的书。"]
    model, plain = make("jieba"), make("jieba?hmm=false")
    result = words(model, *texts)
    # The model has imported jieba without its warnings, which are given only when its modules are compiled.
    import jieba

    jieba.setLogLevel(logging.ERROR)
    assert result == [jieba.lcut(text) for text in texts]
    assert words(plain, *texts) == [jieba.lcut(text, HMM=False) for text in texts]
    assert result[0] != words(plain, texts[0])[0]
    check_contract(model)


@needs_jieba
def test_jieba_identity(tmp_path: Path) -> None:
    """Version, dictionary and the HMM switch pin the model; stating the default changes nothing."""
    default = make("jieba").identity
    assert default == make("jieba?hmm=true").identity
    assert default["version"]
    dictionary = tmp_path / "own.txt"
    dictionary.write_text("留心机 9\n动的 5 v\n", encoding="utf-8")
    own = make(f"jieba?hmm=false&dict={dictionary}")
    others = [default, make("jieba?hmm=false").identity, own.identity]
    assert len({tuple(sorted(identity.items())) for identity in others}) == 3
    assert words(own, "学生留心机动的书") == [["学", "生", "留心机", "动的", "书"]]


@needs_jieba
def test_jieba_keeps_nothing_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No file outside the package is read or written, and nothing is printed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "jieba.cache").write_bytes(b"not what jieba wrote")
    assert words(make("jieba"), "学生留心机动的书")[0]
    assert [file.name for file in tmp_path.iterdir()] == ["jieba.cache"]
    assert capfd.readouterr() == ("", "")


@needs_jieba
@pytest.mark.parametrize(
    ("spec", "raw", "said"),
    [
        ("maxmatch:FILE", "学生 留心".encode("gbk"), "FILE.*not UTF-8.*iconv -f GBK"),
        ("maxmatch:FILE", b"\n \n", "FILE.*word list is empty|word list is empty.*FILE"),
        ("maxmatch:FILE.none", b"", "no such file.*FILE.none|FILE.none.*no such file"),
        ("maxmatch", b"", "maxmatch:MODEL"),
        (
            "jieba?dict=FILE",
            "学生 5\n留心\n".encode(),
            "FILE, line 2 is not 'WORD COUNT'|FILE.*line 2 is not",
        ),
        ("jieba?dict=FILE", "\ufeff学生 5\n".encode(), "FILE.*byte-order mark"),
        ("jieba?dict=FILE.none", b"", "FILE.none.*does not exist"),
        ("jieba?hmm=maybe", b"", "hmm must be true or false"),
        ("jieba:big", b"", "write jieba or jieba"),
    ],
)
def test_bad_specification(spec: str, raw: bytes, said: str, tmp_path: Path) -> None:
    """What cannot be used is a one-line error that says what to write, or names the file and what is wrong with it."""
    file = tmp_path / "list.txt"
    file.write_bytes(raw)
    refuse(spec.replace("FILE", str(file)), said.replace("FILE", re.escape(str(file))))


def tiny_pkuseg(folder: Path, *, features: bool = True) -> Path:
    """Save a PKUSEG model that segments into single characters, as spacy-pkuseg does."""
    import srsly

    folder.mkdir()
    tags = {"B": 0, "B_single": 1, "I": 2, "I_end": 3, "I_first": 4}
    data = {"unigram": [], "bigram": [], "feature_to_idx": {"$$": 0}, "tag_to_idx": tags}
    if features:
        srsly.write_msgpack(folder / "features.msgpack", data)
    weights = np.zeros(5 * (1 + 5))
    weights[1] = 1.0
    np.savez(folder / "weights.npz", sizes=np.array([5, 1]), w=weights)
    return folder


@needs_pkuseg
@pytest.mark.filterwarnings("ignore")
def test_pkuseg_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A model folder is loaded silently, from ``model`` or from PKUSEG's own folder; whitespace is kept."""
    folder = tiny_pkuseg(tmp_path / "default")
    stated = make(f"pkuseg?model={folder}")
    assert words(stated, "的了 是") == [["的", "了", " ", "是"]]
    check_contract(stated)
    monkeypatch.setenv("PKUSEG_HOME", str(tmp_path))
    assert make("pkuseg").identity == stated.identity
    assert make("pkuseg").identity["model_sha256"]
    assert capfd.readouterr() == ("", "")


@needs_pkuseg
def test_pkuseg_is_never_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a model, or with a part of one, the error says what to do, even for a name that could be downloaded."""
    import spacy_pkuseg

    def download(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("download")

    monkeypatch.setattr(spacy_pkuseg, "download_model", download)
    monkeypatch.setenv("PKUSEG_HOME", str(tmp_path))
    refuse("pkuseg", "not downloaded automatically.*model=FOLDER.*pip download pkuseg==0.0.25")
    refuse("pkuseg?model=news", "no such folder: news")
    half = tiny_pkuseg(tmp_path / "half", features=False)
    refuse(f"pkuseg?model={half}", "weights.npz and features.msgpack")
    monkeypatch.chdir(tmp_path)
    # An existing folder of that name is used as a model.
    tiny_pkuseg(tmp_path / "news")
    assert words(make("pkuseg?model=news"), "的了") == [["的", "了"]]


class _Hostile:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.file,))


@needs_pkuseg
@pytest.mark.filterwarnings("ignore")
def test_pickle_that_runs_code_is_refused(tmp_path: Path) -> None:
    """Pickled features are loaded if they are plain data, and refused if they refer to code."""
    import srsly

    folder = tiny_pkuseg(tmp_path / "model")
    data = srsly.read_msgpack(folder / "features.msgpack")
    (folder / "features.msgpack").unlink()
    (folder / "features.pkl").write_bytes(pickle.dumps(data))
    assert words(make(f"pkuseg?model={folder}"), "的了") == [["的", "了"]]
    touched = tmp_path / "touched"
    (folder / "features.pkl").write_bytes(pickle.dumps(data | {"unigram": _Hostile(touched)}))
    fatal(make(f"pkuseg?model={folder}").segment([Segment("的")])[0], "not plain data")
    assert not touched.exists()


def test_failures_are_values() -> None:
    """A segmenter that cannot load is a fatal error of every sentence; a failure is an error of one sentence."""

    def fail() -> Any:
        raise OSError("no\nmodel")

    results = WordSegmenter(fail, name="broken", identity={}).segment([Segment("a"), Segment("b")])
    assert [str(fatal(result)) for result in results] == ["broken cannot be loaded: no model"] * 2
    odd = WordSegmenter(lambda: lambda text: [str(1 // len(text))], name="odd", identity={})
    failed, served = odd.segment([Segment(""), Segment("a")])
    assert not error(failed, "ZeroDivisionError").fatal
    assert reply(served)
