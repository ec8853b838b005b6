"""How pytest and JUnit reports show wrong answers: as failures, and as expected ones of controls and under a gate."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.support.gated_runs import gate, model
from tests.support.runs import Finished, Runner

ITEMS = 40
WRONG, EMPTY, ERRORS = (1, 2, 3), (5,), (20,)


def _run(run: Runner, *args: str) -> Finished:
    run.sums(ITEMS)
    spec = model(run, WRONG, empty=EMPTY, errors=ERRORS)
    return run("--model", spec, "--junitxml", "out.xml", *args)


def _cases(run: Runner) -> dict[str, ElementTree.Element]:
    tree = ElementTree.parse(run.folder / "out.xml")
    return {case.attrib["name"].rpartition("/")[2].rstrip("]"): case for case in tree.iter("testcase")}


def test_wrong_answers_are_expected_failures(run: Runner, workers: str) -> None:
    """With a gate, wrong and unreadable answers are expected failures with their reason; errors stay errors."""
    file = gate(run, min_accuracy=0.3, max_errors=0.1, min_items=1)
    done = _run(run, "--llm-gate", str(file), "-n", workers, "-rx")
    assert f"{ITEMS - 5} passed, 4 xfailed, 1 error" in done.output
    assert done.code == 0
    lines = _lines_of(done, "XFAIL ")
    assert len(lines) == 4
    [wrong] = [line for line in lines if "sums/0002]" in line]
    assert "wrong: expected '3', given '2'" in wrong
    [unread] = [line for line in lines if "sums/0005]" in line]
    assert "unparsed: the reply is empty" in unread
    assert [v["status"] for v in done.verdicts.values()].count("wrong") == 3
    assert done.run["complete"] is True
    skipped = _cases(run)["0001"].find("skipped")
    assert skipped is not None
    assert "given '1'" in f"{skipped.attrib.get('message')} {skipped.text}"


def test_junit_has_the_verdicts(run: Runner) -> None:
    """JUnit output has every verdict's properties; a wrong answer is a failure."""
    _run(run, "-n", "2")
    cases = _cases(run)
    assert len(cases) == ITEMS
    status = {}
    for name, case in cases.items():
        properties = {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
        status[name] = properties.get("llmprops.status")
        if name != "0020":
            shown = [properties[f"llmprops.{n}"] for n in ("benchmark", "task", "score")]
            assert shown == ["sums", "add", "1" if status[name] == "correct" else "0"]
    assert [status[n] for n in ("0000", "0001", "0005")] == ["correct", "wrong", "unparsed"]
    failure = cases["0001"].find("failure")
    assert failure is not None
    assert "given '1'" in f"{failure.attrib.get('message')} {failure.text}"
    assert cases["0020"].find("error") is not None


def _lines_of(done: Finished, start: str) -> list[str]:
    return [line for line in done.output.splitlines() if line.startswith(start)]


def test_ten_wrong_items_follow_the_tables(run: Runner) -> None:
    """A run ends with all tables, then ten wrong items of each benchmark, then one line with what to do next.

    -rf lists each wrong item, without a section for each.
    """
    run.sums(ITEMS)
    run.write("test_more.py", (run.folder / "test_sums.py").read_text(encoding="utf-8"))
    run.change("test_more.py", 'name = "sums"\n', 'name = "more"\n')
    run.change("test_more.py", "sums/", "more/")
    spec = model(run, range(12))
    done = run("--model", spec, "-n", "2")
    for name in ("sums", "more"):
        shown = _lines_of(done, f"  wrong {name}/")
        assert len(shown) == len(set(shown)) == 10
    lines = done.output.splitlines()
    first = lines.index(next(line for line in lines if line.startswith("  wrong ")))
    assert max(n for n, line in enumerate(lines) if line.startswith("  task ")) < first
    assert done.output.count("\n  … and 2 more in verdicts.jsonl (pytest -rfx lists all)\n") == 2
    assert [line for line in lines if line.startswith("next: ")] == lines[-2:-1]
    assert not _lines_of(done, "WRONG ")
    asked = run("test_sums.py", "--model", spec, "-rf")
    listed = _lines_of(asked, "WRONG ")
    assert len(listed) == 12
    assert "sums/0000]" in listed[0]
    assert "= FAILURES =" not in asked.output
    assert "12 failed, 28 passed" in asked.output
