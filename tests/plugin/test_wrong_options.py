"""Options and test functions that do not fit a benchmark: one line, before the first call."""

from __future__ import annotations

import pytest

from tests.support.runs import ROOT, Runner

SUITES = tuple(str(ROOT / "suites" / f"test_{name}.py") for name in ("htest", "homophones"))
ROLE = """
    roles = frozenset({"judge"})

    def load"""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--llm-protocol", "fast"), "--llm-protocol fast: htest has paper, quick"),
        (
            ("--llm-helper", "raeder=fake:echo"),
            "unknown helper role 'raeder'; the roles are homophones: none; htest: reader",
        ),
        (("--llm-set", "htest.cot=true"), "htest needs a helper for the role 'reader'"),
    ],
    ids=["protocol", "role", "helper"],
)
def test_option_that_fits_no_benchmark_is_said_once(
    run: Runner, workers: str, args: tuple[str, ...], said: str
) -> None:
    """A wrong option is one line for all files, with and without workers, and no run is recorded."""
    done = run(*SUITES, "--model", "fake:echo", "-n", workers, *args)
    assert done.code == 4
    [line] = [line for line in done.output.splitlines() if "ERROR" in line]
    assert said in line
    assert not done.folder.exists()


def test_option_that_does_not_fit_a_deselected_benchmark_is_no_error(run: Runner) -> None:
    """A benchmark that -k leaves out needs no helper."""
    done = run(*SUITES, "--model=fake:echo", "--llm-set=htest.cot=true", "-k", "homophones", "--llm-limit=1")
    assert done.code == 1
    assert {verdict["benchmark"] for verdict in done.verdicts.values()} == {"homophones"}


@pytest.mark.parametrize(
    ("role", "declares", "code"),
    [("judge", False, 1), ("juge", False, 1), ("judge", True, 1), ("parse", True, 1), ("juge", True, 4)],
)
def test_own_benchmark_may_declare_its_roles(run: Runner, role: str, declares: bool, code: int) -> None:
    """A class that names no helper roles may use any; one that does refuses others, except those of other suites."""
    run.sums(3)
    if declares:
        sums = run.folder / "test_sums.py"
        run.write("test_sums.py", sums.read_text(encoding="utf-8").replace("\n    def load", ROLE, 1))
    done = run("--model", "fake:echo", "--llm-helper", f"{role}=fake:echo")
    assert done.code == code
    assert ("unknown helper role 'juge'; the roles are sums: judge" in done.output) == (code == 4)


@pytest.mark.parametrize("options", [(), ("--model", "fake:echo")], ids=["without-model", "with-model"])
def test_fixture_without_marker_is_one_line(run: Runner, options: tuple[str, ...]) -> None:
    """A test that uses verdict or search without the marker is an error with one line, also without a model."""
    run.write("test_unmarked.py", "def test_v(verdict): pass\n\n\ndef test_s(search): pass\n")
    done = run(*options)
    assert done.code == 1
    assert "2 errors" in done.output
    for fixture, function in (("verdict", "test_v"), ("search", "test_s")):
        assert (
            f"the fixture '{fixture}' needs the marker llmprops: write @pytest.mark.llmprops" in done.output
        )
        assert f"above {function}" in done.output
    assert "Error: " not in done.output
    assert "/plugin/" not in done.output
