"""How pytest and JUnit reports show wrong answers: as failures, and as expected ones of controls and under a gate."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.support.gated_runs import model
from tests.support.runs import Finished, Runner

ITEMS = 40
WRONG, EMPTY, ERRORS = (1, 2, 3), (5,), (20,)
GATE = "[[rule]]\nbenchmark = 'sums'\nmin_accuracy = 0.3\nmax_errors = 0.1\nmin_items = 1\n"


def _run(run: Runner, *args: str, errors: bool = True) -> Finished:
    run.sums(ITEMS)
    spec = model(run, WRONG, empty=EMPTY, errors=ERRORS if errors else ())
    return run("--model", spec, "--junitxml", "out.xml", *args)


def _gated(run: Runner) -> tuple[str, str]:
    return "--llm-gate", str(run.write("gate.toml", GATE))


def _cases(run: Runner) -> dict[str, ElementTree.Element]:
    tree = ElementTree.parse(run.folder / "out.xml")
    return {case.attrib["name"].rpartition("/")[2].rstrip("]"): case for case in tree.iter("testcase")}


def test_wrong_answers_are_expected_failures(run: Runner, workers: str) -> None:
    """With a gate, wrong and unreadable answers are expected failures with their reason; errors stay errors."""
    done = _run(run, *_gated(run), "-n", workers, "-rx")
    assert f"{ITEMS - 5} passed, 4 xfailed, 1 error" in done.output
    assert done.code == 0
    lines = [line for line in done.output.splitlines() if line.startswith("XFAIL ")]
    assert len(lines) == 4
    [wrong] = [line for line in lines if "sums/0002]" in line]
    assert "wrong: expected '3', given '2'" in wrong
    [unread] = [line for line in lines if "sums/0005]" in line]
    assert "unparsed: the reply is empty" in unread
    assert [v["status"] for v in done.verdicts.values()].count("wrong") == 3
    assert done.run["complete"] is True


@pytest.mark.parametrize(("is_gated", "workers"), [(False, "2"), (True, "0")])
def test_junit_has_the_verdicts(run: Runner, workers: str, is_gated: bool) -> None:
    """JUnit output has every verdict's properties; a wrong answer is a failure, or skipped with a gate."""
    _run(run, *(_gated(run) if is_gated else ()), "-n", workers)
    cases = _cases(run)
    assert len(cases) == ITEMS
    status = {}
    for name, case in cases.items():
        properties = {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
        status[name] = properties.get("llmprops.status")
        if name != "0020":
            score = "1" if status[name] == "correct" else "0"
            assert [properties[f"llmprops.{n}"] for n in ("benchmark", "task", "score")] == [
                "sums",
                "add",
                score,
            ]
    assert [status[n] for n in ("0000", "0001", "0005")] == ["correct", "wrong", "unparsed"]
    wrong, error = cases["0001"], cases["0020"]
    [outcome] = [e for e in wrong if e.tag in ("skipped", "failure")]
    assert outcome.tag == ("skipped" if is_gated else "failure")
    assert "given '1'" in f"{outcome.attrib.get('message')} {outcome.text}"
    assert error.find("error") is not None


def test_controls_are_expected_failures(run: Runner, workers: str) -> None:
    """A control must not be solved: a wrong answer fails neither the case nor the session; a solved one passes."""
    run.sums(ITEMS)
    run.change("test_sums.py", 'name = "sums"\n', 'name = "sums"\n    controls = frozenset({"add"})\n')
    done = run("--model", model(run, WRONG), "-n", workers)
    assert f"{ITEMS - 3} passed, 3 xfailed" in done.output
    # They are in the table only.
    assert not _lines_of(done, "  wrong ")
    assert done.code == 0
    assert [v["status"] for v in done.verdicts.values()].count("wrong") == 3


def _lines_of(done: Finished, start: str) -> list[str]:
    return [line for line in done.output.splitlines() if line.startswith(start)]


def test_ten_wrong_items_follow_the_tables(run: Runner, workers: str) -> None:
    """A run ends with all tables, then ten wrong items of each benchmark, then one line with what to do next."""
    run.sums(ITEMS)
    run.write("test_more.py", (run.folder / "test_sums.py").read_text(encoding="utf-8"))
    run.change("test_more.py", 'name = "sums"\n', 'name = "more"\n')
    run.change("test_more.py", "sums/", "more/")
    done = run("--model", model(run, range(12)), "-n", workers)
    for name in ("sums", "more"):
        shown = _lines_of(done, f"  wrong {name}/")
        assert len(shown) == len(set(shown)) == 10
    lines = done.output.splitlines()
    first = lines.index(next(line for line in lines if line.startswith("  wrong ")))
    assert max(n for n, line in enumerate(lines) if line.startswith("  task ")) < first
    assert done.output.count("\n  … and 2 more in verdicts.jsonl (pytest -rfx lists all)\n") == 2
    assert [line for line in lines if line.startswith("next: ")] == lines[-2:-1]
    assert not _lines_of(done, "WRONG ")


@pytest.mark.parametrize("option", ["-rf", "-ra"])
def test_pytest_lists_all_wrong_items_if_it_is_asked(run: Runner, option: str) -> None:
    """-rf lists each wrong item, without a section for each."""
    run.sums(ITEMS)
    done = run("--model", model(run, range(12)), option)
    listed = _lines_of(done, "WRONG ")
    assert len(listed) == 12
    assert "sums/0000]" in listed[0]
    assert "= FAILURES =" not in done.output
    assert "12 failed, 28 passed" in done.output
