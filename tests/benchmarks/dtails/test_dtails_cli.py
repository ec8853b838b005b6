"""The commands `llmprops lab dtails rules` and `annotate`: files, output and error messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_llmprops.benchmarks.dtails.items import COLUMNS, LANGUAGES, expert_rows, parse_rows, train_rows
from pytest_llmprops.benchmarks.dtails.rules import RulesFile, parse_rules_file
from pytest_llmprops.cli.main import main
from pytest_llmprops.data.files import DataFolder, builtin_data
from tests.support.annotation import fill
from tests.support.commands import one_error
from tests.support.dtails import GOOD, asked, row, rules_file, write_chooser, write_language

TRAIN = [
    row(sentence="Fish live in water.", label="leef/lewe"),
    row(sentence="We live in a small town."),
    row(sentence="You live near."),
    row(sentence="THEY LIVE HERE!"),
]


RULES_OF_AF = ("lab", "dtails", "rules", "--lang", "af")
Capture = pytest.CaptureFixture[str]


def dtails(*words: object) -> int:
    return main(["lab", "dtails", *map(str, words)])


def rules(*words: object) -> int:
    return main([*RULES_OF_AF, *map(str, words)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with one Afrikaans concept, its train rows, and one more concept in its word list."""
    words = "live,VERB,leef/lewe;woon\nsee,VERB,sien;kyk\n"
    return write_language(tmp_path / "data", "af", [row()], TRAIN, words)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The rules file to write."""
    return tmp_path / "af.json"


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model that writes rules."""
    return write_chooser(tmp_path)


def written(file: Path) -> RulesFile:
    return parse_rules_file(file.read_text(encoding="utf-8"), str(file))


def counts(file: Path) -> dict[str, dict[str, int]]:
    """Return the number of sentences per concept and variation in a rules file."""
    return {c.concept: {rule.variation: rule.sentences for rule in c.rules} for c in written(file).concepts}


def test_built_in_train_rows_of_every_language(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """--lang all writes a file per language, and each variation of the built-in data has sentences of its own."""
    monkeypatch.chdir(tmp_path)
    assert rules("--model", model, "--lang", "all") == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split("-")[1] for line in lines] == list(LANGUAGES)
    files = [tmp_path / line.split(":")[0] for line in lines]
    assert last == f"use them with --llm-set dtails.rules={','.join(file.name for file in files)}"
    builtin = DataFolder(builtin_data(), "builtin")
    for code, file in zip(LANGUAGES, files, strict=True):
        assert written(file).language == code
        assert len(counts(file)) == len({r.concept for r in expert_rows(builtin, code)})
        numbers = [number for own in counts(file).values() for number in own.values()]
        # Fewer sentences than rows would mean that a test sentence is among them.
        assert sum(numbers) == len(train_rows(builtin, code))
        assert min(numbers) >= 3


def test_train_rows_of_a_data_folder(tmp_path: Path, data: Path, model: str, capsys: Capture) -> None:
    """Train rows supply the sentences, longest first, without those of test rows; --all adds the word list.

    Without train rows, prompts have no sentences and the file says sentences: 0.
    """
    out = tmp_path / "new" / "af.json"
    assert rules("--model", model, "--data", data, "--out", out) == 0
    assert capsys.readouterr().out == f"{out}: rules for 1 of 1 concepts\n"
    live = {"leef/lewe": 1, "woon": 2}
    assert counts(out) == {"live": live}
    [prompt] = asked(tmp_path, rules=True)
    assert prompt.endswith(
        "to help you: {'leef/lewe': ['Fish live in water.'], 'woon': ['We live in a small town.', 'You live near.']}"
    )
    [concept] = written(out).concepts
    assert concept.pos == "VERB"
    assert concept.texts() == {name: f"when <b>it</b> is {name}" for name in live}
    assert rules("--model", model, "--data", data, "--out", out, "--all") == 0
    assert counts(out) == {"live": live, "see": {"sien": 0, "kyk": 0}}
    bare = write_language(tmp_path / "bare", "af", [row()])
    capsys.readouterr()
    assert rules("--model", model, "--data", bare, "--out", out) == 0
    assert (written(out).language, counts(out)) == ("af", {"live": {"leef/lewe": 0, "woon": 0}})
    assert '"sentences": 0' in out.read_text(encoding="utf-8")
    said = capsys.readouterr().out
    assert said == f"{out}: rules for 1 of 1 concepts, 1 of them without example sentences (sentences: 0)\n"
    assert "Here are sentences" not in asked(tmp_path, rules=True)[-1]


def test_model_without_readable_rules(tmp_path: Path, out: Path, capsys: Capture) -> None:
    """A model that never writes the JSON is called three times per concept, of which two may have one spelling."""
    test = [row(), row(variations="['lewendig', 'direk']", label="direk", sentence="It is live.")]
    data = write_language(tmp_path / "data", "af", test)
    model = write_chooser(tmp_path, "(lambda keys: 'As rules, I suggest: none')")
    line = one_error(capsys, *RULES_OF_AF, "--model", model, "--data", data, "--out", out)
    assert "no rules for 2 of 2 concepts, such as 'live': it is not JSON" in line
    assert "run again" in line
    assert not out.exists()
    assert len(asked(tmp_path, rules=True)) == 6
    model = write_chooser(tmp_path, '(lambda keys: \'{"\\\\u001b[2J\\\\u202e": "x"}\')')
    assert one_error(capsys, *RULES_OF_AF, "--model", model, "--data", data).isprintable()


def test_some_concepts_fail(tmp_path: Path, data: Path, out: Path, capsys: Capture) -> None:
    """Readable rules are written, failed concepts are counted, the first is named, and the status is 2.

    An unwritable output file gives a one-line message.
    """
    model = write_chooser(tmp_path, f"(lambda keys: 'no' if 'sien' in keys else {GOOD}(keys))")
    assert rules("--model", model, "--data", data, "--all", "--out", out) == 2
    printed = capsys.readouterr()
    assert printed.out == f"{out}: rules for 1 of 2 concepts\n"
    assert "no rules for 1 of 2 concepts, such as 'see': it is not JSON" in printed.err
    assert list(counts(out)) == ["live"]
    line = one_error(capsys, *RULES_OF_AF, "--model", model, "--data", data, "--out", tmp_path)
    assert re.search(f"{tmp_path}.* cannot be written .*choose another place", line)


def test_wrong_options(tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Each invalid option gives one line with status 2; nothing is written and no request is made."""
    monkeypatch.chdir(tmp_path)
    for option, value, said in (
        ("--lang", "xx", "--lang xx: no rows in this language; the data has af, "),
        ("--data", "nowhere", "nowhere/dtails/en-af/expert_dataset.csv: no such file"),
        ("--max-tokens", "0", "--max-tokens must be at least 1"),
        ("--temperature", "nan", "--temperature"),
        ("--model", "maxmatch:words.txt", "not a chat model; rules need a chat model"),
        ("--model", "fake:list?file=nosuch", "cannot read nosuch"),
    ):
        assert said in one_error(capsys, *RULES_OF_AF, "--model", model, option, value)
    assert not list(tmp_path.glob("*.json"))
    assert not asked(tmp_path, rules=True)


def test_a_wrong_key_stops(tmp_path: Path, data: Path, capsys: Capture) -> None:
    """A fatal failure such as a wrong key ends the command with a one-line message that names the model."""
    replies = tmp_path / "replies.json"
    replies.write_text('[{"error": "wrong key", "kind": "key", "fatal": true}]', encoding="utf-8")
    line = one_error(capsys, *RULES_OF_AF, "--model", f"fake:list?file={replies}", "--data", data)
    assert "wrong key" in line
    assert "fake-list" in line


def test_from_sheets_to_the_expert_set(tmp_path: Path, capsys: Capture) -> None:
    """Sheets are written, refused while they are empty, and yield results and data once they are filled."""
    sheets = tmp_path / "sheets"
    assert dtails("annotate", sheets, "--lang", "ta", "--annotators", 2) == 0
    names = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert names == ["annotator_1.csv", "annotator_2.csv", "key.json"]
    line = one_error(capsys, "lab", "dtails", "annotate", sheets, "--score")
    assert "annotator_1.csv: line 2: question 1: choice is empty" in line
    for sheet in sheets.glob("*.csv"):
        fill(sheet, lambda line: {"choice": "1", "confidence": "2"})
    assert dtails("annotate", sheets, "--score", "--write", tmp_path / "out.csv") == 0
    out = capsys.readouterr().out
    assert out.startswith("sentences of builtin, ta: ")
    assert parse_rows(
        DataFolder(tmp_path, "x").csv("out.csv", required=COLUMNS), "ta", "published", "out.csv"
    )


def test_rules_from_sheets_to_result(tmp_path: Path, capsys: Capture) -> None:
    """The task rules takes its concepts from the rules file, and the separator can be chosen."""
    texts = {"sun": {"son": "the star", "sol": "sunlight"}}
    file, out = rules_file(tmp_path / "rules.json", texts, "xx"), tmp_path / "out"
    words = ("--task", "rules", "--lang", "xx", "--rules", file, "--separator", "semicolon", "--seed", 4)
    assert dtails("annotate", out, *words) == 0
    assert "question;ask;concept" in (out / "annotator_3.csv").read_text(encoding="utf-8")
    for sheet in out.glob("*.csv"):
        fill(sheet, lambda line: {"answer": "none" if line["ask"].startswith("Which") else "yes"})
    capsys.readouterr()
    assert dtails("annotate", out, "--score") == 0
    assert "concepts 1, questions 4, annotators 3 of 3" in capsys.readouterr().out
    assert dtails("annotate", out, "--score", "--write", tmp_path / "set") == 2
    assert "these are of --task rules" in capsys.readouterr().err


def test_wrong_options_of_annotate(tmp_path: Path, capsys: Capture) -> None:
    """Each invalid option gives a one-line message, and nothing is written."""
    for words, says in (
        ("--task rules --lang af", "--task rules needs --rules FILE"),
        ("--task rules --lang af --rules x --data y", "--data is only for --task selection"),
        ("--task rules --lang af --rules none.json", "none.json: No such file or directory"),
        ("--task selection --lang af --rules x", "--rules is only for --task rules"),
        ("--task selection --lang ../", "--lang ../: not a code of two lowercase letters"),
        ("--task selection --lang zz", "zz.csv: no such file"),
        ("--task selection --lang af --annotators 0", "--annotators must be at least 1"),
    ):
        assert says in one_error(capsys, "lab", "dtails", "annotate", tmp_path / "out", *words.split())
    assert not (tmp_path / "out").exists()
