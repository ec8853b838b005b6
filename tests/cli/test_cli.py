"""The `llmprops` command, in process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.homophones.benchmark import Homophones
from pytest_llmprops.benchmarks.homophones.items import masked
from pytest_llmprops.benchmarks.htest.benchmark import TASKS, HTest
from pytest_llmprops.cli.main import main
from pytest_llmprops.core.benchmark import Loaded
from pytest_llmprops.data.files import DataFolder, builtin_data, read_manifest
from pytest_llmprops.data.pull import BASE_URL


def run(*words: object) -> int:
    return main([str(word) for word in words])


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the only line on standard error; standard output must be empty."""
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("llmprops: ")
    return line


def generated(benchmark: HTest | Homophones, root: Path) -> Loaded:
    """Load a folder as `--llm-source published --llm-data` does, and check its files against the manifest."""
    source = DataFolder(root, "published").source_for(benchmark.name)
    folder = DataFolder(root, source)
    loaded = benchmark.load(folder)
    assert folder.verify(read_manifest()) == []
    return loaded


def htest_texts(root: Path, part: str) -> set[str]:
    folder = DataFolder(root, "published")
    return {row["centerpiece"] for task in TASKS for row in folder.jsonl(f"htest/{task}_{part}.jsonl")}


# generate


def test_generated_htest_can_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`generate htest` names the files it wrote, and they load as a generated set of all ten tasks."""
    assert run("generate", "htest", "--n", 4, "--seed", 3, "--out", tmp_path) == 0
    printed = capsys.readouterr()
    files = {Path(line) for line in printed.out.splitlines()}
    assert files == {path for path in tmp_path.rglob("*") if path.is_file()}
    assert "5 and 5510 of them are new" in printed.err
    loaded = generated(HTest(), tmp_path)
    assert [(i.task, i["answer"]) for i in loaded.items] == [
        (task, n % 2) for task in TASKS for n in range(4)
    ]
    assert {i.source for i in loaded.items} == {"generated"}
    assert all(len(loaded.context[task]) == 50 for task in TASKS)
    builtin = {i.id for i in HTest().load(DataFolder(builtin_data(), "builtin")).items}
    assert not builtin & {i.id for i in loaded.items}


def test_generate_htest_has_tasks_and_a_seed(tmp_path: Path) -> None:
    """`--task` chooses tasks; the same seed writes the same bytes, another seed writes others."""
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        words = ("--task", "uppercase", "--task", "end_ly", "--n", 6, "--seed", seed)
        assert run("generate", "htest", *words, "--out", tmp_path / name) == 0
    tests = [(tmp_path / n / "htest" / "uppercase_test.jsonl").read_bytes() for n in ("one", "same", "other")]
    assert tests[0] == tests[1] != tests[2]
    assert {i.task for i in generated(HTest(), tmp_path / "one").items} == {"uppercase", "end_ly"}


@pytest.mark.parametrize(
    ("words", "named"),
    [(("--task", "smell"), "smell"), (("--n", "5"), "5"), (("--n", "0"), "0"), (("--n", "-2"), "-2")],
)
def test_generate_htest_refuses_in_one_line(
    words: tuple[str, ...], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown task or a number that cannot be halved gives one line and status 2, and nothing is written."""
    assert run("generate", "htest", *words, "--out", tmp_path / "new") == 2
    assert named in one_error(capsys)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("language", ["en", "es", "zh"])
def test_generated_homophones_can_be_loaded(
    language: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`generate homophones` writes one file, which loads as a generated set of all three tasks."""
    if language == "zh":
        pytest.importorskip("pypinyin", reason="needs pytest-llmprops[zh]")
        pytest.importorskip("jieba", reason="needs pytest-llmprops[zh]")
    assert run("generate", "homophones", "--lang", language, "--n", 5, "--seed", 2, "--out", tmp_path) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert Path(line).is_file()
    items = generated(Homophones(), tmp_path).items
    assert [i.task for i in items] == ["asked", "context_only", "word_only"] * 5
    assert {(i.language, i.source) for i in items} == {(language, "generated")}
    assert all(i.id.startswith(f"homophones/{language}/g000") for i in items)


def test_homophones_from_own_sentences(tmp_path: Path) -> None:
    """`--sentences` replaces the built-in sentences with the user's."""
    own = tmp_path / "own.txt"
    own.write_text(
        "The farmer carried a heavy bucket.\n\nMy brother painted the kitchen.\n", encoding="utf-8"
    )
    words = ("--lang", "en", "--n", 2, "--sentences", own)
    assert run("generate", "homophones", *words, "--out", tmp_path / "set") == 0
    asked = [i for i in generated(Homophones(), tmp_path / "set").items if i.task == "asked"]
    restored = {str(masked(i["sentence"], i["word"])).replace("____", i["answers"][0]) for i in asked}
    assert restored == {"The farmer carried a heavy bucket.", "My brother painted the kitchen."}


def test_missing_or_short_sentences_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file and one with too few usable sentences give one line each."""
    words = ("generate", "homophones", "--lang", "en", "--n", 50, "--out", tmp_path / "set", "--sentences")
    assert run(*words, tmp_path / "none.txt") == 2
    assert "none.txt" in one_error(capsys)
    (tmp_path / "few.txt").write_text("The farmer carried a heavy bucket.\n", encoding="utf-8")
    assert run(*words, tmp_path / "few.txt") == 2
    assert "of 50" in one_error(capsys)


def test_unwritable_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the output folder is a file, one line names it."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert run("generate", "htest", "--task", "rhyme", "--n", 2, "--out", tmp_path / "file") == 2
    assert str(tmp_path / "file") in one_error(capsys)


def test_generate_htest_excludes_other_folders(tmp_path: Path) -> None:
    """`--data`, repeated, excludes the items of other sets; the same seed then writes other items."""
    words = ("generate", "htest", "--task", "palindrome", "--task", "rhyme", "--n", 20, "--seed", 1)
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for number, folder in enumerate(folders):
        excluded = [word for earlier in folders[:number] for word in ("--data", earlier)]
        assert run(*words, *excluded, "--out", folder) == 0
    texts = [
        {
            row["centerpiece"]
            for task in ("palindrome", "rhyme")
            for part in ("test", "dev")
            for row in DataFolder(folder, "generated").jsonl(f"htest/{task}_{part}.jsonl")
        }
        for folder in folders
    ]
    assert [len(one) for one in texts] == [140] * 3
    assert len(set().union(*texts)) == 420


# htest export-train


def trained_on(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the (text, label) pairs of each task's fine-tuning file, by task."""
    by_task: dict[str, list[tuple[str, str]]] = {}
    for path in folder.glob("*_train.jsonl"):
        pairs = []
        for line in path.read_text(encoding="utf-8").splitlines():
            question, answer = json.loads(line)["messages"]
            assert (question["role"], answer["role"]) == ("user", "assistant")
            text = question["content"].removeprefix('Input: "').rpartition('" Label: ')[0]
            assert question["content"] == (
                f'Input: "{text}" Label: \nA \nB (Respond in one letter and nothing else)'
            )
            pairs.append((text, answer["content"]))
        by_task[path.name.removesuffix("_train.jsonl")] = pairs
    return by_task


def test_training_rows_differ_from_builtin_items(tmp_path: Path) -> None:
    """`htest export-train` writes each label equally often per task, and no text of a built-in item."""
    assert run("htest", "export-train", "--n", 20, "--seed", 7, "--out", tmp_path) == 0
    trained = trained_on(tmp_path)
    assert set(trained) == set(TASKS)
    for pairs in trained.values():
        assert sorted(label for _, label in pairs) == ["A"] * 10 + ["B"] * 10
    texts = {text for pairs in trained.values() for text, _ in pairs}
    assert not texts & (htest_texts(builtin_data(), "test") | htest_texts(builtin_data(), "dev"))


def test_training_rows_leave_out_another_set(tmp_path: Path) -> None:
    """`--data` leaves out the items of another set, which the same seed would generate again."""
    assert run("generate", "htest", "--n", 20, "--seed", 7, "--out", tmp_path / "set") == 0
    held_out = htest_texts(tmp_path / "set", "test") | htest_texts(tmp_path / "set", "dev")
    overlaps = []
    for name, more in (("all", ()), ("rest", ("--data", tmp_path / "set"))):
        words = ("--n", 20, "--seed", 7, "--out", tmp_path / name)
        assert run("htest", "export-train", *words, *more) == 0
        texts = {text for pairs in trained_on(tmp_path / name).values() for text, _ in pairs}
        overlaps.append(len(texts & held_out))
    assert overlaps[0] > 0
    assert overlaps[1] == 0


def test_training_data_folder_without_htest_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A `--data` folder without H-TEST files is refused in one line that names it."""
    assert run("htest", "export-train", "--data", tmp_path / "empty", "--out", tmp_path / "out") == 2
    assert str(tmp_path / "empty") in one_error(capsys)


# data pull


def test_pull_passes_its_options_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`data pull` passes files, folder and base URL to the puller, and returns its status."""
    seen = []

    def pull(dest: Path, **options: object) -> int:
        seen.append((dest, options))
        return 1

    monkeypatch.setattr("pytest_llmprops.data.pull.pull", pull)
    url = "http://127.0.0.1:1/{repository}/{commit}/{path}"
    assert run("data", "pull", "htest", "eras/*.json", "--base-url", url, "--dest", tmp_path) == 1
    assert run("data", "pull", "--dest", tmp_path) == 1
    assert seen == [
        (tmp_path, {"files": ["htest", "eras/*.json"], "base_url": url}),
        (tmp_path, {"files": None, "base_url": BASE_URL}),
    ]


@pytest.mark.parametrize("words", [("no/such/file.csv",), ("--base-url", "http://127.0.0.1:1/file")])
def test_pull_refuses_in_one_line(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown file and a base URL without placeholders give one line each, and nothing is fetched."""
    assert run("data", "pull", *words, "--dest", tmp_path / "data") == 1
    printed = capsys.readouterr()
    (line,) = (printed.out + printed.err).splitlines()
    assert words[-1] in line
    assert not (tmp_path / "data").exists()


# usage and interrupts


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["smell"],
        ["generate"],
        ["generate", "htest"],
        ["data", "pull"],
        ["runs", "import-homophones", "x"],
    ],
)
def test_wrong_usage_has_status_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A missing or unknown command or option is argparse's usage error."""
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "usage: llmprops" in capsys.readouterr().err


def test_interrupt_has_status_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends the command with one line."""

    def pull(*args: object, **options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_llmprops.data.pull.pull", pull)
    assert run("data", "pull", "--dest", tmp_path) == 130
    assert one_error(capsys) == "llmprops: interrupted"
