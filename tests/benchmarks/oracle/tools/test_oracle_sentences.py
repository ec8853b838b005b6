"""`llmprops lab oracle`: a user's sentences as items, and the shares of alignments of the provers, without a model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.oracle.benchmark import OracleChecker
from pytest_llmprops.benchmarks.oracle.tools.sentences import (
    OTHER,
    PROVERS,
    SELF,
    Helpers,
    Strengths,
    labelled_pairs,
    measure,
    roc,
    run,
    write_sentences,
)
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.contracts import loaded
from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.protocols import generator
from pytest_llmprops.core.requests import Parse, Reply, Request
from pytest_llmprops.data.files import DataFolder
from tests.support.oracle_runs import pair, reply_to


def mine(tmp_path: Path, text: str = "One here.\n\nTwo here.\nOne  here.\n") -> Path:
    path = tmp_path / "mine.txt"
    path.write_text(text, encoding="utf-8")
    return path


def one_error(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Run ``llmprops lab oracle``; return the only line on standard error."""
    assert main(["lab", "oracle", *map(str, words)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("llmprops: ")
    return line


def test_sentences_can_be_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder is read as generated data, each sentence once; the mark has their number; the files are printed."""
    out = tmp_path / "out"
    assert main(["lab", "oracle", "sentences", str(mine(tmp_path)), "--out", str(out)]) == 0
    files = [out / "oracle" / name for name in ("sentences.txt", "SOURCE.json")]
    assert capsys.readouterr().out.splitlines() == list(map(str, files))
    mark = json.loads(files[1].read_text(encoding="utf-8"))
    assert {"source": "generated", "file": "mine.txt", "n": 2, "repeated": 1}.items() <= mark.items()
    part = loaded(OracleChecker(), DataFolder(out, DataFolder(out, "published").source_for("oracle")))
    assert [(item.id, item.task, item.source, item["text"]) for item in part.items] == [
        ("oracle/own/0001", "linearity", "generated", "One here."),
        ("oracle/own/0002", "linearity", "generated", "Two here."),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "gone.txt"),
        (b"\n \n", "the file is empty"),
        (b"A bell\x07 rings.\n", "line 1: has control characters"),
        ("Façade.\n".encode("latin-1"), "UTF-8"),
        (b"\n" + b"x" * 2001, "line 2: 2001 characters"),
    ],
    ids=["missing", "empty", "control", "encoding", "long"],
)
def test_bad_files_give_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    """A file that cannot be read as sentences gives one line that names it, and nothing is written."""
    file = tmp_path / "gone.txt"
    if content is not None:
        file.write_bytes(content)
    line = one_error(capsys, "sentences", file, "--out", tmp_path / "out")
    assert said in line
    assert "gone.txt" in line
    assert not (tmp_path / "out").exists()


def test_written_folder_can_be_replaced(tmp_path: Path) -> None:
    """A folder written by this function is replaced, including its mark."""
    write_sentences(mine(tmp_path), tmp_path / "out")
    target, mark = write_sentences(mine(tmp_path, "Three.\n"), tmp_path / "out")
    assert target.read_text(encoding="utf-8") == "Three.\n"
    assert json.loads(mark.read_text(encoding="utf-8"))["n"] == 1


@pytest.mark.parametrize(
    ("name", "text"), [("msrp/a.txt", "x"), ("oracle/SOURCE.json", "{}"), ("oracle/sentences.txt", "x")]
)
def test_folder_with_other_data_is_refused(tmp_path: Path, name: str, text: str) -> None:
    """A folder with published data, another generator's mark or unmarked sentences is refused."""
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="choose another output folder"):
        write_sentences(mine(tmp_path), out)
    assert [p.name for p in out.rglob("*") if p.is_file()] == [Path(name).name]


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """An output folder that is a file gives one error line."""
    with pytest.raises(UsageError, match="cannot be written"):
        write_sentences(mine(tmp_path), mine(tmp_path))


# ---- the prover

DOGS, MOVED = "red dogs barked loudly last night.", "last night red dogs barked loudly."
CATS = "small cats slept under warm tables."
ITEMS = (pair(DOGS, MOVED, 1), pair(CATS, DOGS, 2, label=False), pair(MOVED, "It is unparsable.", 3))


async def ask(request: Request, role: str = "") -> Reply:
    """Reply like the helper of the scripted runs."""
    return await reply_to(request, lambda chat: "")


def test_shares_by_kind_and_prover() -> None:
    """Moved phrases and the sentences themselves are aligned by all provers; a text without a tree is left out."""
    kinds = labelled_pairs(ITEMS, 50, generator(0))
    counts = {kind: len(pairs) for kind, pairs in kinds.items()}
    assert counts == {"equivalent": 2, OTHER: 1, "random": 50, SELF: 3}
    results = asyncio.run(measure(kinds, ask))
    for name in PROVERS:
        assert results["equivalent"][name].share[0] == results[SELF][name].share[0] == 1
        assert results["equivalent"][name].missing == 1
    assert results[OTHER]["covering (quick)"].share[0] == 0


def test_the_table_is_reproducible() -> None:
    """The lines are the same for the same seed, and name each prover and kind."""
    lines = run(ITEMS, ask, 5, generator(1))
    assert lines == run(ITEMS, ask, 5, generator(1))
    assert lines[0] == f"| pairs | n | {' | '.join(PROVERS)} |"
    assert [line.split(" | ")[0] for line in lines if line.startswith("| eq")] == ["| equivalent"]
    assert sum("area under the ROC 1.000" in line for line in lines) == len(PROVERS)
    assert any("cannot process them: 1" in line for line in lines)


def test_roc_by_hand() -> None:
    """Of four comparisons, three are won and one is a tie."""
    area, points = roc(Strengths((0.9, 0.7)), Strengths((0.7, 0.0)))
    assert area == pytest.approx(3.5 / 4)
    assert (points[0], points[-1]) == ((0.0, 0.5, 1.0), (0.9, 0.0, 0.5))


def test_a_helper_processes_a_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser is called once for a repeated request."""
    helpers = Helpers({"parse": "words"})
    calls: list[object] = []

    def serve(model: object, requests: object) -> list[Reply]:
        calls.append(requests)
        return [Reply("x")]

    monkeypatch.setattr("pytest_llmprops.benchmarks.oracle.tools.sentences.serve", serve)
    request = Parse("one", "en", "constituency")
    replies = [asyncio.run(helpers(request, role="parse")) for _ in range(2)]
    helpers.close()
    assert replies[0] is replies[1]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--limit", "1", "--limit must be at least 2"),
        ("--parse", "gone:x", "gone"),
        ("--data", "nowhere", "nowhere"),
    ],
)
def test_bad_options_give_one_line(
    option: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad option gives one line and exit status 2."""
    assert said in one_error(capsys, "prover", option, value)
