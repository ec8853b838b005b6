"""The command `llmprops dtails rules`: the rules file, its example sentences, and the error messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.benchmarks.dtails.rules import parse_rules_file
from pytest_llmprops.cli.main import main
from tests.support.dtails import DTAILS, GOOD, NONSENSE, asked, row, write_chooser, write_language
from tests.support.runs import Runner

TRAIN = [
    row(sentence="Fish live in water.", label="leef/lewe"),
    row(sentence="We live in a small town."),
    row(sentence="You live near."),
    row(sentence="THEY LIVE HERE!"),
]


def rules(*words: object) -> int:
    return main(["dtails", "rules", *(str(word) for word in words)])


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the single line on standard error."""
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("llmprops: ")
    return line


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with one Afrikaans concept, its train rows, and one more concept in its word list."""
    words = "live,VERB,leef/lewe;woon\nsee,VERB,sien;kyk\n"
    return write_language(tmp_path / "data", "af", [row()], TRAIN, words)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model that writes rules."""
    return write_chooser(tmp_path)


def counts(file: Path) -> dict[str, dict[str, int]]:
    """Return the number of sentences per concept and variation in a rules file."""
    rules_file = parse_rules_file(file.read_text(encoding="utf-8"), str(file))
    return {c.concept: {rule.variation: rule.sentences for rule in c.rules} for c in rules_file.concepts}


def test_a_language_without_train_rows(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Built-in data has no train rows, so prompts have no sentences and the file says sentences: 0."""
    out = tmp_path / "af.json"
    assert rules("--model", model, "--lang", "af", "--out", out) == 0
    rules_file = parse_rules_file(out.read_text(encoding="utf-8"), "x")
    assert (rules_file.language, len(rules_file.concepts)) == ("af", 7)
    assert {rule.sentences for c in rules_file.concepts for rule in c.rules} == {0}
    assert '"sentences": 0' in out.read_text(encoding="utf-8")
    said = capsys.readouterr().out
    assert said == f"{out}: rules for 7 of 7 concepts, 7 of them without example sentences (sentences: 0)\n"
    prompts = asked(tmp_path, rules=True)
    assert len(prompts) == 7
    assert not any("Here are sentences" in prompt for prompt in prompts)


def test_train_rows_of_a_data_folder(
    tmp_path: Path, data: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Train rows supply the sentences, longest first, and no sentence of a test row is used."""
    out = tmp_path / "new" / "af.json"
    assert rules("--model", model, "--lang", "af", "--data", data, "--out", out) == 0
    assert capsys.readouterr().out == f"{out}: rules for 1 of 1 concepts\n"
    assert counts(out) == {"live": {"leef/lewe": 1, "woon": 2}}
    [prompt] = asked(tmp_path, rules=True)
    assert prompt.endswith(
        "to help you: {'leef/lewe': ['Fish live in water.'], 'woon': ['We live in a small town.', 'You live near.']}"
    )
    [concept] = parse_rules_file(out.read_text(encoding="utf-8"), "x").concepts
    assert (concept.pos, concept.texts()) == (
        "VERB",
        {"leef/lewe": "when <b>it</b> is leef/lewe", "woon": "when <b>it</b> is woon"},
    )


def test_concepts_without_a_test_row(tmp_path: Path, data: Path, model: str) -> None:
    """With --all the concepts of the word list are included too, each once."""
    out = tmp_path / "af.json"
    assert rules("--model", model, "--lang", "af", "--data", data, "--out", out, "--all") == 0
    assert counts(out) == {"live": {"leef/lewe": 1, "woon": 2}, "see": {"sien": 0, "kyk": 0}}


def test_the_default_file(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --out the file is named after language and model and written to the current folder."""
    monkeypatch.chdir(tmp_path)
    assert rules("--model", model, "--lang", "gl") == 0
    [file] = tmp_path.glob("rules-gl-*chooser.py.json")
    assert capsys.readouterr().out.startswith(f"{file.name}: ")
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


# a corpus

ENGLISH = [
    "They live here.",
    "She lived in Rome.",
    "Fish live.",
    "He lives and lives.",
    "It is live!",
    "Nothing.",
]
AFRIKAANS = ["Hulle woon hier.", "Sy het in Rome gewoon, sy woon.", "Visse leef.", "Hy leef en woon.",
             "Dis regstreeks!", "Niks, woon."]  # fmt: skip


def test_a_corpus_of_two_files(tmp_path: Path, data: Path, model: str) -> None:
    """A pair with a form of exactly one variation supplies a sentence, unless it is a test sentence."""
    files = [tmp_path / "corpus.en", tmp_path / "corpus.af"]
    for file, lines in zip(files, (ENGLISH, AFRIKAANS), strict=True):
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    out = tmp_path / "af.json"
    assert rules("--model", model, "--lang", "af", "--data", data, "--corpus", *files, "--out", out) == 0
    [prompt] = asked(tmp_path, rules=True)
    assert prompt.endswith("to help you: {'leef/lewe': ['Fish live.'], 'woon': ['She lived in Rome.']}")
    assert counts(out) == {"live": {"leef/lewe": 1, "woon": 1}}
    prefix = tmp_path / "prefix.json"
    assert (
        rules(
            "--model", model, "--lang", "af", "--data", data, "--corpus", tmp_path / "corpus", "--out", prefix
        )
        == 0
    )
    assert prefix.read_bytes() == out.read_bytes(), "a Moses pair is named by what its files share"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.en": "They live.\nAnd so.\n", "a.af": "Hulle woon.\n"}, "same number of lines"),
        ({"a.en": "They live.\n", "b.en": ""}, "b.en"),
        ({"a.en": "no columns here\n"}, "columns"),
        ({"a.en": None}, "a.en: no such file"),
    ],
)
def test_a_damaged_corpus(
    tmp_path: Path,
    data: Path,
    model: str,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, Any],
    said: str,
) -> None:
    """An invalid corpus gives a one-line message before the model is called, and no rules file is written."""
    paths = [tmp_path / name for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        if text is not None:
            path.write_text(text, encoding="utf-8")
    out = tmp_path / "af.json"
    assert rules("--model", model, "--lang", "af", "--data", data, "--corpus", *paths, "--out", out) == 2
    assert said in one_error(capsys)
    assert not out.exists()
    assert not asked(tmp_path, rules=True)


# the file in a run


def test_run_accepts_the_written_file(run: Runner) -> None:
    """A run accepts the written file as dtails.rules=FILE, and the model sees a person's edits."""
    data = write_language(run.folder, "af", [row()], TRAIN, "live,VERB,leef/lewe;woon\n")
    model, out = write_chooser(run.folder), run.folder / "af.json"
    store = run.folder / "rules.sqlite"
    assert rules("--model", model, "--lang", "af", "--data", data, "--out", out, "--store", store) == 0
    options = (DTAILS, "--model", model, "--llm-source", "published", "--llm-data", str(data))
    settings = ("--llm-set", f"dtails.rules={out}", "-k", "not translate", "-q")
    first = run(*options, *settings)
    [prompt] = asked(run.folder, rules=False)
    assert '{"leef/lewe": "when <b>it</b> is leef/lewe", "woon": "when <b>it</b> is woon"}' in prompt
    assert [v["values"]["sentences"] for v in first.verdicts.values()] == [3.0]
    edited = json.loads(out.read_text(encoding="utf-8"))
    edited["concepts"][0]["variations"][1]["rule"] = "a roof: «dak»"
    out.write_text(json.dumps(edited, indent=1), encoding="utf-8")
    second = run(*options, *settings)
    assert '"woon": "a roof: «dak»"' in asked(run.folder, rules=False)[-1]
    hashes = [finished.run["data"][f"given:{out}"] for finished in (first, second)]
    assert len(set(hashes)) == 2
    assert len(asked(run.folder, rules=True)) == 1, "rules of a file are not asked for"


# the model


def test_stored_replies_are_reused(tmp_path: Path, data: Path, model: str) -> None:
    """A second call reuses the stored replies, makes no request and writes the same file."""
    outs = [tmp_path / "one.json", tmp_path / "two.json"]
    for out in outs:
        assert (
            rules("--model", model, "--lang", "af", "--data", data, "--out", out, "--store", tmp_path / "s")
            == 0
        )
    assert len(asked(tmp_path, rules=True)) == 1
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert (
        rules("--model", model, "--lang", "af", "--data", data, "--out", outs[1], "--store", tmp_path / "t")
        == 0
    )
    assert len(asked(tmp_path, rules=True)) == 2


def test_model_without_readable_rules(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that never writes the JSON is called three times per concept; no file is written."""
    out = tmp_path / "af.json"
    model = write_chooser(tmp_path, NONSENSE)
    assert rules("--model", model, "--lang", "af", "--data", data, "--all", "--out", out) == 2
    line = one_error(capsys)
    assert "no rules for 2 of 2 concepts, such as 'live': it is not JSON" in line
    assert "run again" in line
    assert not out.exists()
    assert len(asked(tmp_path, rules=True)) == 6


def test_some_concepts_fail(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Readable rules are written, failed concepts are counted, the first is named, and the status is 2."""
    out = tmp_path / "af.json"
    model = write_chooser(tmp_path, f"(lambda keys: 'no' if 'sien' in keys else {GOOD}(keys))")
    assert rules("--model", model, "--lang", "af", "--data", data, "--all", "--out", out) == 2
    printed = capsys.readouterr()
    assert printed.out == f"{out}: rules for 1 of 2 concepts\n"
    assert "no rules for 1 of 2 concepts, such as 'see': it is not JSON" in printed.err
    assert list(counts(out)) == ["live"]


def test_two_concepts_with_one_spelling_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two concepts with the same spelling count as two failures."""
    test = [row(), row(variations="['lewendig', 'direk']", label="direk", sentence="It is live.")]
    data = write_language(tmp_path / "data", "af", test)
    model = write_chooser(tmp_path, NONSENSE)
    assert rules("--model", model, "--lang", "af", "--data", data) == 2
    assert "no rules for 2 of 2 concepts" in one_error(capsys)


def test_fenced_json_is_accepted(tmp_path: Path, data: Path) -> None:
    """JSON inside a code fence is accepted."""
    out = tmp_path / "af.json"
    model = write_chooser(tmp_path, f"(lambda keys: '```json\\n' + {GOOD}(keys) + '\\n```')")
    assert rules("--model", model, "--lang", "af", "--data", data, "--out", out) == 0
    assert len(asked(tmp_path, rules=True)) == 1
    assert list(counts(out)) == ["live"]


def test_control_characters_of_a_reply_are_escaped(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Control characters in an unexpected key are shown as escapes in the terminal."""
    model = write_chooser(tmp_path, '(lambda keys: \'{"\\\\u001b[2J\\\\u202e": "x"}\')')
    assert rules("--model", model, "--lang", "af", "--data", data) == 2
    line = one_error(capsys)
    assert line.isprintable()


# invalid options


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--lang", "xx"), "--lang xx: no rows in this language; the data has af, "),
        (("--lang", "af", "--data", "nowhere"), "nowhere/dtails/en-af/expert_dataset.csv: no such file"),
        (("--lang", "af", "--max-tokens", "0"), "--max-tokens must be at least 1"),
        (("--lang", "af", "--temperature", "-1"), "--temperature"),
        (("--lang", "af", "--temperature", "nan"), "--temperature"),
        (("--lang", "af", "--model", "maxmatch:words.txt"), "not a chat model; rules need a chat model"),
        (("--lang", "af", "--model", "nosuch"), "unknown model"),
        (("--lang", "af", "--model", "fake:list?file=nosuch"), "cannot read nosuch"),
    ],
)
def test_wrong_options(
    tmp_path: Path,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    """Each invalid option gives one line with status 2; nothing is written and no request is made."""
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    assert rules("--model", model, *arguments) == 2
    assert said in one_error(capsys)
    assert {p for p in tmp_path.iterdir() if p.suffix == ".json"} == {
        p for p in before if p.suffix == ".json"
    }
    assert not asked(tmp_path, rules=True)


@pytest.mark.parametrize("where", ["folder", "file/inside.json"])
def test_an_unwritable_file(
    tmp_path: Path, data: Path, model: str, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    """An unwritable output file gives a one-line message, and no temporary file is left."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    out = tmp_path / where
    assert rules("--model", model, "--lang", "af", "--data", data, "--out", out) == 2
    line = one_error(capsys)
    assert str(out) in line
    assert "cannot be written" in line
    assert "choose another --out" in line
    assert not list(tmp_path.rglob(".*"))


def test_a_damaged_row(tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid row gives a one-line message with file and row."""
    data = write_language(tmp_path / "data", "af", [row(variations="woon;leef")])
    assert rules("--model", model, "--lang", "af", "--data", data) == 2
    assert "expert_dataset.csv: row 1 (af): variations 'woon;leef' are not a list" in one_error(capsys)


def test_a_wrong_key_stops(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fatal failure such as a wrong key ends the command with a one-line message that names the model."""
    replies = tmp_path / "replies.json"
    replies.write_text('[{"error": "wrong key", "kind": "key", "fatal": true}]', encoding="utf-8")
    assert rules("--model", f"fake:list?file={replies}", "--lang", "af", "--data", data) == 2
    line = one_error(capsys)
    assert "wrong key" in line
    assert "fake-list" in line
