"""The `llmprops` command, in process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.homophones.benchmark import Homophones
from pytest_llmprops.benchmarks.homophones.items import masked
from pytest_llmprops.benchmarks.htest.benchmark import HTest
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.benchmark import Loaded
from pytest_llmprops.data.files import DataFolder, read_manifest
from pytest_llmprops.data.pull import BASE_URL
from tests.support.commands import one_error, output
from tests.support.programs import ESPEAK

Capture = pytest.CaptureFixture[str]


def generated(benchmark: HTest | Homophones, root: Path) -> Loaded:
    """Load a folder as `--llm-data` does, and check its files against the manifest."""
    source = DataFolder(root, "published").source_for(benchmark.name)
    folder = DataFolder(root, source)
    loaded = benchmark.load(folder)
    assert folder.verify(read_manifest()) == []
    return loaded


def rhymes(root: Path) -> set[str]:
    """Return the texts of the test and dev files of a task of H-TEST."""
    files = ("htest/rhyme_test.jsonl", "htest/rhyme_dev.jsonl")
    return {row["centerpiece"] for file in files for row in DataFolder(root, "published").jsonl(file)}


@ESPEAK.needed
@pytest.mark.parametrize("language", ["en", "zh"])
def test_generated_homophones_can_be_loaded(language: str, tmp_path: Path, capsys: Capture) -> None:
    """`generate homophones` writes one file, which loads as a generated set of all three tasks.

    `--sentences` replaces the built-in sentences with the user's.
    """
    words: tuple[object, ...] = ("--lang", language, "--n", 2, "--seed", 2, "--out", tmp_path / "set")
    sentences = {"The farmer carried a bucket.": "farmer", "My cat had a kitten.": "kitten"}
    if language == "zh":
        pytest.importorskip("pypinyin", reason="needs pytest-llmprops[zh]")
        pytest.importorskip("jieba", reason="needs pytest-llmprops[zh]")
    else:
        own = tmp_path / "own.txt"
        own.write_text("\n\n".join(map("\t".join, sentences.items())), encoding="utf-8")
        words += ("--sentences", own)
    (line,) = output(capsys, "lab", "homophones", "generate", *words).splitlines()
    assert Path(line).is_file()
    items = generated(Homophones(), tmp_path / "set").items
    assert [i.task for i in items] == ["asked", "context_only", "word_only"] * 2
    assert {(i.language, i.source) for i in items} == {(language, "generated")}
    assert all(i.id.startswith(f"homophones/{language}/g000") for i in items)
    asked = [i for i in items if i.task == "asked"]
    restored = {str(masked(i["sentence"], i["word"])).replace("____", i["answers"][0]) for i in asked}
    assert (restored == set(sentences)) == (language == "en")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lab htest generate --task smell --out new", "smell"),
        ("lab htest generate --n 5 --out new", "5"),
        ("lab htest generate --task rhyme --n 2 --out few.txt", "few.txt"),
        ("lab homophones generate --lang en --n 50 --out new --sentences none.txt", "none.txt"),
        (
            "lab homophones generate --lang en --n 50 --out new --sentences few.txt",
            "line 1: write sentence<TAB>answer",
        ),
        ("lab htest generate --chat --data empty --out new", "empty"),
        ("runs import none.csv --model m", "none.csv: no such file"),
        ("data pull no/such/file.csv --dest new", "no/such/file.csv"),
    ],
)
def test_command_refuses_in_one_line(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A wrong option, file or folder gives one line and no success, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    Path("few.txt").write_text("The farmer carried a heavy bucket.\n", encoding="utf-8")
    assert main(words.split()) == (1 if "pull" in words else 2)
    printed = capsys.readouterr()
    (line,) = (printed.out + printed.err).splitlines()
    assert said in line
    assert not Path("new").exists()


def test_generated_htest_leaves_out_another_set(tmp_path: Path, capsys: Capture) -> None:
    """`--task` chooses tasks. `--data` leaves out the items of another set, which the same seed would generate again.

    So it does for the rows of `--chat`, which are for training.
    """
    words = ("lab", "htest", "generate", "--task", "rhyme", "--n", 20, "--seed", 7)
    first, other = tmp_path / "first", tmp_path / "other"
    files = output(capsys, *words, "--out", first).splitlines()
    assert {Path(line) for line in files} == {path for path in first.rglob("*") if path.is_file()}
    assert {item.task for item in generated(HTest(), first).items} == {"rhyme"}
    output(capsys, *words, "--data", first, "--out", other)
    assert not rhymes(first) & rhymes(other)
    assert {item.source for item in generated(HTest(), other).items} == {"generated"}
    for name, more in (("rows", ()), ("other rows", ("--data", first))):
        output(capsys, *words, "--chat", *more, "--out", tmp_path / name)
        rows = (tmp_path / name / "rhyme_train.jsonl").read_text(encoding="utf-8").splitlines()
        asked = [json.loads(row)["messages"][0]["content"] for row in rows]
        texts = {text.removeprefix('Input: "').rpartition('" Label: ')[0] for text in asked}
        assert (len(texts), bool(texts & rhymes(first))) == (20, not more)


def test_pull_passes_its_options_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """`data pull` passes files, folder and base URL to the puller, and returns its status; Ctrl-C ends it with 130."""
    seen = []

    def pull(dest: Path, out: object, **options: object) -> int:
        seen.append((dest, options))
        if len(seen) == 3:
            raise KeyboardInterrupt
        return 1

    monkeypatch.setattr("pytest_llmprops.data.pull.pull", pull)
    url = "http://127.0.0.1:1/{repository}/{commit}/{path}"
    assert main(["data", "pull", "htest", "eras/*.json", "--base-url", url, "--dest", str(tmp_path)]) == 1
    assert main(["data", "pull", "--dest", str(tmp_path)]) == 1
    assert seen == [
        (tmp_path, {"files": ["htest", "eras/*.json"], "base_url": url}),
        (tmp_path, {"files": [], "base_url": BASE_URL}),
    ]
    assert one_error(capsys, "data", "pull", "--dest", "new", status=130) == "llmprops: interrupted"
