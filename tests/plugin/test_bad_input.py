"""Bad input: one clear line that names the problem and the fix, and no traceback."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pytest_llmprops.cli.main import main
from pytest_llmprops.plugin.options import resolve_options
from tests.support.runs import ROOT, Finished, Runner

HTEST = str(ROOT / "suites" / "test_htest.py")
HOMOPHONES = str(ROOT / "suites" / "test_homophones.py")


def _unreadable(done: Finished, *said: str) -> None:
    """Check that the session failed, and that a line without traceback says all of ``said``."""
    assert done.code == 1, done.output
    assert not re.search("Traceback|INTERNALERROR", done.output), done.output
    assert [line for line in done.output.splitlines() if all(part in line for part in said)], done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--llm-limit 0", "at least 1"),
        ("llm_batch_wait -1", "must be a number"),
        ("--llm-base-url example.org", "http"),
        ("--llm-cache maybe", "must be one of reuse, refresh, off, only"),
        ("llm_cache_age nan", "24h"),
        ("--llm-engine ray://host", "must be one of local, batch, ray, ray://HOST:PORT"),
        ("llm_confirm 5", "5 USD, 20000 calls"),
        ("--llm-store postgresql://u:ge/heim@h/db", "must be postgresql://USER@HOST:PORT/DATABASE"),
        ("--llm-set htest.k", "NAME=VALUE"),
        ("--llm-param temperature=hot", "temperature must be a number"),
        ("--llm-param logit_bias=[1e999]", "'[1e999]' must be a finite number"),
    ],
)
def test_wrong_value_is_refused(pytester: pytest.Pytester, words: str, said: str) -> None:
    """The message has the option, its value and what is accepted."""
    name, value = words.split()
    is_option = name.startswith("--")
    config = pytester.parseconfig(*([name, value] if is_option else ["-o", f"{name}={value}"]))
    # A URL that cannot be read is not repeated: it may have a password.
    shown = ("" if is_option else "ini key ") + words.replace("u:ge/heim@h/db", "…")
    with pytest.raises(pytest.UsageError, match=f"^{re.escape(shown)}: .*{re.escape(said)}") as refused:
        resolve_options(config)
    assert "heim" not in str(refused.value)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--model", "nosuch:model"), ("unknown backend", "nosuch")),
        (("--model", "fake:eco"), ("did you mean echo?",)),
        (("--modle", "gpt-4o"), ("--modle: unknown option; did you mean --model?",)),
        (("--model", "fake:echo", "-n", "2", "--llm-run", "run\udcff"), ("run\\xff", "UTF-8", "-n 0")),
        (("--model", "gpt-4o, gpt-5"), ("each model needs its own option: --model gpt-4o --model gpt-5",)),
        (("-m", "not htest"), ("-m not htest: htest is a benchmark, not a marker; select it with -k htest",)),
        (("--llm-set", "htest.matc=exact"), ("htest.matc=exact", "did you mean match?")),
        (("--llm-set", "htest.cot=perhaps"), ("htest.cot=perhaps", "true or false")),
        (("-o", "llm_source=published"), ("--llm-data DIR", "llmprops data pull")),
        (
            ("--llm-rpm", "60"),
            ("--llm-rpm: is only an ini key", "llm_rpm = VALUE in pytest.ini", "-o llm_rpm=VALUE"),
        ),
        (("--llm-protocol", "fast"), ("--llm-protocol fast: htest has paper, quick",)),
        (
            ("--llm-set", "htest.cot=true"),
            ("htest needs a helper for the role 'reader'", "--llm-helper reader=SPEC"),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) and str(value[0]).startswith("-") else "",
)
def test_wrong_option_is_one_line(run: Runner, args: tuple[str, ...], said: tuple[str, ...]) -> None:
    """A wrong option is one line for all files, with and without workers, and no run is recorded."""
    model = () if "--model" in args else ("--model", "fake:echo")
    done = run(HTEST, HOMOPHONES, "--llm-limit", "1", *model, *args)
    done.refused(*said)


def _published(run: Runner, files: dict[str, bytes]) -> tuple[str, ...]:
    """Write published data; return the options that measure it."""
    for name, content in files.items():
        path = run.folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return ("--model", "fake:constant?text=sun", "--llm-data", str(run.folder / "data"))


HEADER = b"sentence,word,answer,GPT-4\n"
ENGLISH = "homophones/testset_english.csv"
UNREADABLE = {"htest/rhyme_test.jsonl": b'{"text": "blue shoe"}\n'}
GENERATED = {
    ENGLISH: HEADER + b"".join(b"The san is up %d,san,sun,Y\n" % number for number in range(40)),
    "homophones/SOURCE.json": b'{"source": "generated"}',
}


def test_unreadable_data_leaves_the_other_benchmarks_running(run: Runner, workers: str) -> None:
    """A data file that cannot be read fails its benchmark in one line; a gate on the others does not hide it."""
    published = _published(run, GENERATED | UNREADABLE)
    gate = run.write("gate.toml", '[[rule]]\nbenchmark = "homophones"\nmin_accuracy = 0.5\n')
    gated = ("--llm-gate", str(gate), "-n", workers)
    done = run(HTEST, HOMOPHONES, *published, *gated)
    _unreadable(done, "htest/rhyme_test.jsonl: row 1", "every line needs")
    assert {(v["benchmark"], v["source"]) for v in done.verdicts.values()} == {("homophones", "generated")}
    assert "1 error" in done.output
    [note] = [note for note in done.run["notes"] if note.startswith("htest: not measured")]
    assert "htest/rhyme_test.jsonl: row 1" in note
    assert (done.code, done.run["gate"]["decision"], done.run["complete"]) == (1, "invalid", False)
    assert "this run is incomplete: htest: not measured: " in done.run["gate"]["reasons"][0]
    assert main(["gate", str(done.folder), "--gate", str(gate)]) == 7
    # Of the other benchmark alone, the run is complete.
    assert run(HOMOPHONES, *published, *gated).code == 0
    # Its error is selected with any of its tasks, and left out with the others.
    assert run(HTEST, HOMOPHONES, *published, "-n", workers, "-k", "asked").code == 0
    assert run(HTEST, HOMOPHONES, *published, "-n", workers, "-k", "asked or end_ly").code == 1


def test_unreadable_data_fails_what_makes_no_calls_or_only_searches(run: Runner) -> None:
    """--collect-only and --llm-plan name the file that cannot be read, and fail; so does a search, which is no pass.

    A published file that is not the pinned one stops the run with one line.
    """
    published = _published(run, UNREADABLE | {"msrp/msr_paraphrase_train.txt": b"no header\n"})
    for option in ("--collect-only", "--llm-plan"):
        _unreadable(
            run(HTEST, *published, option), "ERROR: ", "htest/rhyme_test.jsonl: row 1", "every line needs"
        )
    done = run(str(ROOT / "suites" / "test_oracle.py::test_oracle_search"), *published)
    _unreadable(done, "msr_paraphrase_train.txt", "no column")
    changed = {ENGLISH: HEADER + b"The san is up,san,sun,Y\n"}
    _unreadable(run(HOMOPHONES, *_published(run, changed)), "sha256", "differs from the manifest")


def test_an_own_benchmark_may_declare_its_roles(run: Runner) -> None:
    """A class that names no helper roles may use any; one that does refuses others, except those of other suites."""
    run.sums(3)
    assert run("--model", "fake:echo", "--llm-helper", "juge=fake:echo").code == 1
    run.change("test_sums.py", "    def load", '    roles = frozenset({"judge"})\n\n    def load')
    assert run("--model", "fake:echo", "--llm-helper", "parse=fake:echo").code == 1
    refused = run("--model", "fake:echo", "--llm-helper", "juge=fake:echo", "-n", "2")
    refused.refused("unknown helper role 'juge'; the roles are sums: judge")


def test_a_run_that_another_process_began_meanwhile_stays(run: Runner) -> None:
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
    done = run("--model", run.adder, "--llm-run", str(folder))
    assert (done.code, "already holds a run" in done.output) == (4, True)
    assert {(folder / name).read_text() for name in ("run.json", "verdicts.jsonl")} == {"of another run"}


def test_option_that_does_not_fit_a_deselected_benchmark_is_no_error(run: Runner) -> None:
    """A benchmark that -k leaves out needs no helper."""
    options = ("--llm-set", "htest.cot=true", "-k", "homophones", "--llm-limit", "1")
    done = run(HTEST, HOMOPHONES, "--model", "fake:echo", *options)
    assert done.code == 1
    assert {verdict["benchmark"] for verdict in done.verdicts.values()} == {"homophones"}


def test_fixture_without_marker_is_one_line(run: Runner) -> None:
    """A test that uses verdict or search without the marker is an error with one line, also without a model."""
    run.write("test_unmarked.py", "def test_v(verdict): pass\n\n\ndef test_s(search): pass\n")
    for options in ((), ("--model", "fake:echo")):
        done = run(*options)
        assert done.code == 1
        assert "2 errors" in done.output
        for fixture, function in (("verdict", "test_v"), ("search", "test_s")):
            said = f"the fixture '{fixture}' needs the marker llmprops: write @pytest.mark.llmprops"
            assert said in done.output
            assert f"above {function}" in done.output
        assert "Error: " not in done.output
        assert "/plugin/" not in done.output


def test_a_keyword_that_matches_no_task_names_the_tasks(run: Runner) -> None:
    """Pytest's status 5 alone does not say what is wrong."""
    done = run(HTEST, "--model", "fake:echo", "-k", "palindrom3", "-q", "-n", "0")
    assert done.code == 5
    said = "no item matches -k palindrom3; the tasks are end_ly, .*uppercase; did you mean palindrome\\?$"
    assert re.search(said, done.output, re.MULTILINE), done.output
    planned = run(HTEST, "--model", "fake:echo", "-k", "palindrome", "--llm-plan", "-n", "0")
    assert "no item matches" not in planned.output


def test_records_are_in_the_folder_of_the_command(run: Runner, tmp_path: Path) -> None:
    """Without an ini file, pytest's root folder would be the common folder of all paths on the command line."""
    run.sums()
    (run.folder / "pytest.ini").unlink()
    far = tmp_path / "far"
    far.mkdir()
    command = run.command(
        "test_sums.py", "--model", run.adder, "-o", "llm_source=all", "--llm-data", str(far), "-q"
    )
    place = command.index("--llm-run")
    del command[place : place + 2]
    done = subprocess.run(command, cwd=run.folder, env=run.environment(), capture_output=True, timeout=120)
    assert done.returncode == 1
    assert len(list(run.folder.glob("reports/runs/*/run.json"))) == 1


def test_windows_has_no_workers(run: Runner) -> None:
    """Python has no Unix sockets there: -n is refused in one line, and a run without workers is not."""
    run.sums(2)
    run.write("conftest.py", "import sys\n\ndef pytest_addoption():\n    sys.platform = 'win32'\n")
    assert run("--model", run.adder, "-n", "0").code == 1
    run("--model", run.adder, "-n", "2").refused("ERROR: -n: workers need Unix sockets")
