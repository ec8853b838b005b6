"""Bad input: one clear line that names the problem and the fix, and no traceback."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.stub_server import RunningStub
from tests.support.runs import ROOT, Finished, Runner

HTEST = str(ROOT / "suites" / "test_htest.py")
HOMOPHONES = str(ROOT / "suites" / "test_homophones.py")


def _one_line(done: Finished, *said: str) -> str:
    """Check that the run failed without a traceback; return the first line that contains all of ``said``."""
    assert done.code not in (0, 1, 5), done.output
    assert "Traceback" not in done.output, done.output
    assert "INTERNALERROR" not in done.output, done.output
    lines = [line for line in done.output.splitlines() if all(part in line for part in said)]
    assert lines, done.output
    return lines[0]


def _unreadable(done: Finished, *said: str) -> None:
    """Check that the session failed, and that a line without traceback says all of ``said``."""
    assert done.code == 1, done.output
    assert "Traceback" not in done.output, done.output
    assert "INTERNALERROR" not in done.output, done.output
    assert [line for line in done.output.splitlines() if all(part in line for part in said)], done.output


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--model", "nosuch"), ("unknown model", "nosuch", "openai:nosuch")),
        (("--model", "nosuch:model"), ("unknown backend", "nosuch")),
        (("--model", "fake:echo", "-n", "2", "--llm-run", "run\udcff"), ("run\\xff", "UTF-8", "-n 0")),
        (("--model", "openai:"), ("model name is missing",)),
        (("--model", "fake:nosuch"), ("unknown fake model", "nosuch")),
        (("--model", "fake:echo?nosuch=1"), ("nosuch", "not a parameter")),
        (("--model", "fake:echo?nosuch"), ("NAME?key=value",)),
        (("--model", "llamacpp:nosuch.gguf"), ("nosuch.gguf",)),
        (("--model", "gpt-4o"), ("OPENAI_API_KEY",)),
        (("--model", "fake:echo", "--llm-limit", "0"), ("--llm-limit 0", "at least 1")),
        (("--model", "fake:echo", "--llm-limit", "many"), ("--llm-limit many", "number")),
        (("--model", "fake:echo", "--llm-base-url", "example.org"), ("--llm-base-url", "http")),
        (
            ("--model", "fake:echo", "--llm-cache", "maybe"),
            ("--llm-cache maybe", "reuse, refresh, off, only"),
        ),
        (("--model", "fake:echo", "--llm-source", "elsewhere"), ("--llm-source", "builtin, published, all")),
        (("--model", "fake:echo", "--llm-protocol", "slow"), ("--llm-protocol slow", "paper, quick")),
        (("--model", "fake:echo", "--llm-set", "htest.nosuch=1"), ("htest.nosuch=1", "k, cot")),
        (("--model", "fake:echo", "--llm-set", "htest.k=15"), ("htest.k=15", "4, 14, 28, 50")),
        (("--model", "fake:echo", "--llm-set", "htest.cot=perhaps"), ("htest.cot=perhaps", "true or false")),
        (("--model", "fake:echo", "--llm-set", "homophones.asks=0"), ("asks must be from 1 to 10",)),
        (("--model", "fake:echo", "--llm-set", "nosuch.k=1"), ("unknown benchmark 'nosuch'",)),
        (("--model", "fake:echo", "--llm-set", "htest.k"), ("NAME=VALUE",)),
        (("--model", "fake:echo", "--llm-param", "temperature"), ("NAME=VALUE",)),
        (("--model", "fake:echo", "--llm-param", "temperature=hot"), ("temperature must be a number",)),
        (("--model", "fake:echo", "--llm-param", "temperature=NaN"), ("'NaN' must be a finite number",)),
        (
            ("--model", "fake:echo", "--llm-param", "logit_bias=[1e999]"),
            ("'[1e999]' must be a finite number",),
        ),
        (("--model", "fake:echo", "--llm-set", "htest.temperature=nan"), ("must be a finite number",)),
        (("--model", "fake:echo", "--llm-param", "max_tokens=1.5"), ("max_tokens must be a whole number",)),
        (("--model", "fake:echo", "--llm-cache-age", "nan"), ("--llm-cache-age nan", "24h")),
        (("--model", "fake:echo", "--llm-set", "htest.cot=true"), ("--llm-helper reader=SPEC",)),
        (("--model", "fake:echo", "--llm-source", "published"), ("--llm-data DIR", "llmprops data pull")),
        (
            ("--model", "fake:echo", "--llm-source", "published", "--llm-data", "nowhere"),
            ("nowhere", "no such file"),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) and str(value[0]).startswith("--") else "",
)
def test_wrong_option_is_one_line(run: Runner, args: tuple[str, ...], said: tuple[str, ...]) -> None:
    """A wrong option is refused in one line that names the problem or the fix."""
    _one_line(run(HTEST, "--llm-limit", "1", *args), *said)


def test_missing_package_names_its_extra(run: Runner) -> None:
    """A backend whose package is missing names the package and the extra that installs it."""
    run.sums()
    run.write("sitecustomize.py", "import sys\nsys.modules['xllamacpp'] = None\n")
    done = run("--model", "smollm2", env={"PYTHONPATH": f"{run.folder}:{ROOT}"})
    _one_line(done, "xllamacpp", "pip install 'pytest-llmprops[local]'")


def _published(folder: Path, name: str, content: bytes) -> str:
    path = folder / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(folder / "data")


HEADER = b"sentence,word,answer,GPT-4\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ("testset_english.csv", "empty")),
        (HEADER + "Le caf\u00e9 is closed,kafay,cafe,Y\n".encode("latin-1"), ("not UTF-8", "offset")),
        (b"sentence,answer\nThe san is up,sun\n", ("no column 'word'",)),
        (HEADER + b"The san is up,san\n", ("line 2", "fields")),
        (HEADER + b"The san is up,san,,Y\n", ("row 1", "must not be empty")),
        (HEADER + b"The san is up,san,sun,Y\n", ("sha256", "differs from the manifest")),
        (b"id,sentence,word,answer\n1,a san,san,sun\n1,b san,san,sun\n", ("repeats the id",)),
    ],
)
def test_invalid_data_file_is_one_line(run: Runner, content: bytes, said: tuple[str, ...]) -> None:
    """An invalid data file stops the run with one line that says what is wrong with it."""
    data = _published(run.folder, "homophones/testset_english.csv", content)
    done = run(HOMOPHONES, "--model", "fake:echo", "--llm-source", "published", "--llm-data", data)
    _unreadable(done, *said)


def test_unreadable_data_leaves_the_other_benchmarks_running(run: Runner, workers: str) -> None:
    """A data file that cannot be read fails its benchmark in one line; the others are measured."""
    data = _published(run.folder, "homophones/testset_english.csv", HEADER + b"The san is up,san,sun,Y\n")
    _published(run.folder, "homophones/SOURCE.json", b'{"source": "generated"}')
    _published(run.folder, "htest/rhyme_test.jsonl", b'{"text": "blue shoe"}\n')
    published = ("--model", "fake:constant?text=sun", "--llm-source", "published", "--llm-data", data)
    done = run(HTEST, HOMOPHONES, *published, "-n", workers)
    _unreadable(done, "htest/rhyme_test.jsonl: row 1", "every line needs")
    assert {v["benchmark"] for v in done.verdicts.values()} == {"homophones"}
    assert "1 error" in done.output
    [note] = [note for note in done.run["notes"] if note.startswith("htest: not measured")]
    assert "htest/rhyme_test.jsonl: row 1" in note
    # Its error is selected with any of its tasks, and left out with the others.
    assert run(HTEST, HOMOPHONES, *published, "-n", workers, "-k", "asked").code == 0
    assert run(HTEST, HOMOPHONES, *published, "-n", workers, "-k", "asked or end_ly").code == 1


@pytest.mark.parametrize("option", ["--collect-only", "--llm-plan"])
def test_unreadable_data_fails_a_run_without_calls(run: Runner, option: str) -> None:
    """--collect-only and --llm-plan name the file that cannot be read, and fail."""
    data = _published(run.folder, "htest/rhyme_test.jsonl", b'{"text": "blue shoe"}\n')
    done = run(HTEST, "--model", "fake:echo", "--llm-source", "published", "--llm-data", data, option)
    _unreadable(done, "ERROR: ", "htest/rhyme_test.jsonl: row 1", "every line needs")


def test_unreadable_data_fails_a_passing_gate(run: Runner) -> None:
    """A gate on one benchmark does not hide that another could not be read; a rule on it is invalid."""
    rows = "".join(f"The san is up {number},san,sun,Y\n" for number in range(40)).encode()
    data = _published(run.folder, "homophones/testset_english.csv", HEADER + rows)
    _published(run.folder, "homophones/SOURCE.json", b'{"source": "generated"}')
    _published(run.folder, "htest/rhyme_test.jsonl", b'{"text": "blue shoe"}\n')
    published = ("--model", "fake:constant?text=sun", "--llm-source", "published", "--llm-data", data)
    rule = '[[rule]]\nname = "{0}"\nbenchmark = "{0}"\nmin_accuracy = 0.5\n'
    passing = str(run.write("passing.toml", rule.format("homophones")))
    done = run(HTEST, HOMOPHONES, *published, "--llm-gate", passing)
    assert (done.code, done.run["gate"]["decision"]) == (1, "pass")
    both = str(run.write("both.toml", rule.format("homophones") + rule.format("htest")))
    done = run(HTEST, HOMOPHONES, *published, "--llm-gate", both)
    assert (done.code, done.run["gate"]["decision"]) == (1, "invalid")


def test_unreadable_data_fails_a_search(run: Runner) -> None:
    """A function that only searches fails, too: a skipped case would pass."""
    suite = str(ROOT / "suites" / "test_oracle.py::test_oracle_search")
    data = _published(run.folder, "msrp/msr_paraphrase_train.txt", b"no header\n")
    done = run(suite, "--model", "fake:echo", "--llm-source", "published", "--llm-data", data)
    _unreadable(done, "msr_paraphrase_train.txt", "no column")


def test_generated_data_needs_no_manifest(run: Runner) -> None:
    """Data marked as generated is read without a hash, and its results have the source 'generated'."""
    data = _published(run.folder, "homophones/testset_english.csv", HEADER + b"The san is up,san,sun,Y\n")
    _published(run.folder, "homophones/SOURCE.json", b'{"source": "generated"}')
    done = run(
        HOMOPHONES, "--model", "fake:constant?text=sun", "--llm-source", "published", "--llm-data", data
    )
    assert done.code == 0
    assert {row["source"] for row in done.run["summary"]} == {"generated"}


@pytest.mark.parametrize("answer", ["empty", "control", "huge"])
def test_odd_replies_become_verdicts(
    run: Runner, start_stub: Callable[..., RunningStub], answer: str
) -> None:
    """Empty replies are unparsed, hostile and huge ones wrong; no control character reaches the terminal."""
    run.sums(8)
    stub = start_stub(delay=0.0, answer=answer)
    done = run("--model", "openai:stub", "--llm-base-url", stub.url)
    assert done.code == 1
    expected = "unparsed" if answer == "empty" else "wrong"
    assert {v["status"] for v in done.verdicts.values()} == {expected}
    assert not [c for c in done.output if not c.isprintable() and c not in "\n\t"]
    assert len(done.output) < 20_000


def test_empty_replies_in_a_row_stop_the_run(run: Runner, start_stub: Callable[..., RunningStub]) -> None:
    """Twenty empty replies in a row stop the run with one line."""
    run.sums(100)
    stub = start_stub(delay=0.0, answer="empty")
    done = run("--model", "openai:stub", "--llm-base-url", stub.url, "--llm-concurrency", "4")
    assert "20 empty replies in a row" in _one_line(done, "stopped:")
    assert stub.stats()["requests"] < 40


def test_unwritable_store_is_one_line(run: Runner, workers: str) -> None:
    """A store that cannot be written stops the run with one line that names the option."""
    run.sums()
    (run.folder / "file").write_text("", encoding="utf-8")
    done = run("--model", run.adder, "--llm-store", str(run.folder / "file" / "store.sqlite"), "-n", workers)
    _one_line(done, "reply store", "--llm-store FILE")


def test_damaged_store_is_set_aside(run: Runner, workers: str) -> None:
    """A damaged store is renamed and reported, and the run uses a new one."""
    run.sums()
    damaged = b"SQLite format 3\0" + b"and no database after it" * 100
    run.store.write_bytes(damaged)
    done = run("--model", run.adder, "-n", workers)
    assert len(done.verdicts) == 12
    [aside] = run.folder.glob("store.sqlite.damaged-*")
    assert aside.read_bytes() == damaged
    assert "is damaged" in done.output
    assert aside.name in done.output


def test_another_file_is_no_store(run: Runner, workers: str) -> None:
    """A file of the user that is named as the store by mistake ends the run with one line, and is not touched."""
    run.sums()
    run.store.write_text("notes")
    done = run("--model", run.adder, "-n", workers)
    _one_line(done, f"reply store {run.store}: is not a SQLite file", "--llm-store FILE")
    assert run.store.read_text() == "notes"


def test_store_damaged_inside_is_set_aside(run: Runner) -> None:
    """Damage found only while reading is handled like damage at the start."""
    run.sums(300)
    run("--model", run.adder)
    data = bytearray(run.store.read_bytes())
    data[4096 * 2 : 4096 * 12] = b"\xee" * (4096 * 10)
    run.store.write_bytes(data)
    done = run("--model", run.adder)
    assert len(done.verdicts) == 300
    assert "is damaged" in done.output
    assert list(run.folder.glob("store.sqlite.damaged-*"))


def test_store_is_private_and_holds_no_key(run: Runner, start_stub: Callable[..., RunningStub]) -> None:
    """Only its owner can read the store; neither the store, the record nor the output has the key."""
    run.sums(4)
    key = "sk-secret-0123456789abcdef"
    stub = start_stub(delay=0.0)
    done = run("--model", "openai:stub", "--llm-base-url", stub.url, env={"OPENAI_API_KEY": key})
    assert len(done.verdicts) == 4
    assert stat.S_IMODE(run.store.stat().st_mode) == 0o600
    for path in [run.store, *done.folder.iterdir()]:
        assert key.encode() not in path.read_bytes()
    assert key not in done.output


def test_two_runs_share_a_store(run: Runner) -> None:
    """Two simultaneous runs with the same store both finish, and it has every reply."""
    run.sums(150)
    started = [run.start("--model", run.adder, "--model", "fake:echo") for _ in range(2)]
    ended = [one.end() for one in started]
    assert [done.code for done in ended] == [1, 1]
    assert not any("locked" in done.output for done in ended)
    with sqlite3.connect(run.store) as db:
        assert db.execute("SELECT count(*) FROM replies").fetchone() == (300,)


def test_folder_of_a_run_is_not_overwritten(run: Runner) -> None:
    run.sums(2)
    first = run("--model", run.adder)
    done = run("--model", run.adder, "--llm-run", str(first.folder))
    _one_line(done, "--llm-run", "already holds a run")


def test_a_run_that_another_process_began_meanwhile_stays(run: Runner, workers: str) -> None:
    """A run whose folder gets a record of another process while it collects ends in one line, and removes nothing."""
    run.sums(2)
    folder = run.folder / "record"
    run.write(
        "conftest.py",
        "import pathlib\n"
        "def pytest_collection_modifyitems():\n"
        "    for name in ('run.json', 'verdicts.jsonl'):\n"
        "        pathlib.Path('record', name).write_text('of another run')\n",
    )
    folder.mkdir()
    done = run("--model", run.adder, "-n", workers, "--llm-run", str(folder))
    _one_line(done, "--llm-run", "already holds a run")
    assert {(folder / name).read_text() for name in ("run.json", "verdicts.jsonl")} == {"of another run"}


def test_command_line_errors_are_one_line(tmp_path: Path) -> None:
    """Each error of the llmprops command prints one line, with exit status 1 or 2."""
    for args in (
        ["generate", "htest", "--n", "3", "--out", str(tmp_path / "a")],
        ["generate", "homophones", "--lang", "en", "--n", "100000", "--out", str(tmp_path / "b")],
        ["runs", "import-homophones", "--data", str(tmp_path)],
        ["data", "pull", "nosuch/file", "--dest", str(tmp_path / "c")],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "pytest_llmprops.cli.main", *args],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        lines = (done.stderr + done.stdout).strip().splitlines()
        assert done.returncode in (1, 2), done
        assert len(lines) == 1, done
