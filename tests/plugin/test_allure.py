"""Files that a run writes to the folder of --alluredir."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_llmprops.reports.allure import case
from pytest_llmprops.reports.allure import run as allure_run
from tests.support.allure import MIXED, MIXED_MODEL, category, properties, results, texts
from tests.support.runs import ROOT, WORD_HELPERS, Finished, Runner

pytest.importorskip("allure_pytest", reason="needs allure-pytest: pip install -e '.[dev]'")


def measured(run: Runner, *args: str, text: str = "What is", name: str = "results") -> tuple[Finished, Path]:
    """Run the mixed benchmark with Allure; return the run and the folder of results."""
    run.write("test_mixed.py", MIXED.replace("TEXT", text))
    run.write("mixed.py", MIXED_MODEL)
    folder = run.folder / name
    options = ["--model", "fake:call?file=mixed.py", "-o", "llm_retries=0"]
    return run(*options, "--alluredir", str(folder), *args), folder


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Path]:
    """Return one run of the mixed benchmark with workers, and the folder of results."""
    return measured(Runner(tmp_path_factory.mktemp("mixed")), "-n", "2")


def labels(result: dict[str, Any]) -> dict[str, str]:
    """Return a result's labels by name; of several tags, the last."""
    return {label["name"]: label["value"] for label in result["labels"]}


def test_result_describes_the_case_and_its_call(mixed: tuple[Finished, Path]) -> None:
    """A wrong case has labels, a description, a step for its call, and its prompt, reply and verdict."""
    _, folder = mixed
    by_title = results(folder)
    assert len(by_title) == 20
    wrong = by_title["sums/0003"]
    assert wrong["status"] == "failed"
    assert wrong["statusDetails"]["message"].startswith("wrong: expected '4'")
    assert "\n" not in wrong["statusDetails"]["message"]
    assert wrong["parameters"] == [
        {"name": "item", "value": "sums/0003"},
        {"name": "model", "value": "fake-call-file=mixed.py"},
    ]
    case_labels = labels(wrong)
    assert [case_labels[n] for n in ("epic", "feature", "story", "severity", "tag")] == [
        "Sums", "add", "English, builtin items", "critical", "fake-call-file=mixed.py",
    ]  # fmt: skip
    assert labels(by_title["sums/0015"])["severity"] == "minor"
    assert "Does the model &lt;b&gt;add&lt;/b&gt;? Adds one." in wrong["descriptionHtml"]
    assert "Expected answer: 4" in wrong["descriptionHtml"]
    [step] = wrong["steps"]
    facts = {p["name"]: p["value"] for p in step["parameters"]}
    assert step["name"] == "ask fake-call-file=mixed.py"
    assert facts.keys() == {"time", "tokens", "finish reason", "served model"}
    attached = texts(folder, wrong)
    assert attached.keys() == {"prompt", "reply", "verdict"}
    assert attached["prompt"] == "What is 3 + 1 ="
    assert "<script>alert('reply')</script>" in attached["reply"]
    assert attached["reply"].endswith("␛[31mred")
    assert "expected  4\n" in attached["verdict"]
    assert "length" in attached["verdict"]


def test_each_kind_of_failure_has_its_category(mixed: tuple[Finished, Path]) -> None:
    """Each kind of failure has its own category; a passed case has none."""
    _, folder = mixed
    by_title = results(folder)
    failures = {name: kind for name, one in by_title.items() if (kind := category(folder, one))}
    assert failures == {
        "sums/0003": "Wrong answers",
        "sums/0004": "Refusals",
        "sums/0005": "Unreadable replies",
        "sums/0006": "Backend errors",
        "sums/0007": "Faults in benchmark code",
        "sums/0008": "Unmet expectations",
    }
    assert {n for n in failures if by_title[n]["status"] == "broken"} == {"sums/0006", "sums/0007"}
    [step] = by_title["sums/0006"]["steps"]
    assert step["status"] == "broken"
    assert step["statusDetails"]["message"] == "the server <b>broke</b>"


@pytest.mark.parametrize("choice", ["failures", "none"])
def test_attach_selects_the_cases_with_texts(run: Runner, choice: str) -> None:
    """``llm_attach`` adds texts to failures and at least one pass per task, or to none."""
    # With this seed the random sample has none of these cases, which would hide a missing pass per task.
    ids = [f"sums/{n:04d}" for n in range(20)]
    seed = next(s for s in range(1000) if not any(case.in_sample(s, i) for i in ids))
    _, folder = measured(run, "-o", f"llm_attach={choice}", "--llm-seed", str(seed))
    by_title = results(folder)
    with_texts = {name for name, result in by_title.items() if texts(folder, result)}
    failed = {name for name, result in by_title.items() if result["status"] != "passed"}
    if choice == "none":
        assert not with_texts
        assert not [r for r in by_title.values() if "Question: " in r["descriptionHtml"]]
        assert all(result["steps"] for result in by_title.values())
    else:
        assert failed < with_texts < set(by_title)
        passes = [by_title[name] for name in with_texts - failed]
        assert {labels(result)["feature"] for result in passes} == {"add", "control"}


def identity(result: dict[str, Any]) -> tuple[Any, ...]:
    """Return what Allure 2 and 3 derive a case's history from."""
    return result["historyId"], result["testCaseId"], str(result["parameters"])


def test_identity_is_independent_of_texts_and_workers(mixed: tuple[Finished, Path], run: Runner) -> None:
    """A case keeps its history when its texts change or workers are used."""
    _, other = measured(run, "-n", "0", text="Other words:")
    first, second = results(mixed[1]), results(other)
    assert texts(mixed[1], first["sums/0003"])["prompt"] != texts(other, second["sums/0003"])["prompt"]
    assert {n: identity(r) for n, r in first.items()} == {n: identity(r) for n, r in second.items()}
    assert len({identity(r)[0] for r in first.values()}) == len(first)
    assert len({identity(r)[2] for r in first.values()}) == len(first)


def test_two_models_have_separate_results(run: Runner) -> None:
    """The cases of two models have separate titles, identities and parent suites, and the test's own severity.

    A case that pytest skips before its verdict is awaited has them, too, without texts. With
    ``llm_allure_identity = item``, two models' cases have one history; two models in one run are refused.
    """
    run.sums(2)
    run.change("test_sums.py", "@pytest", "import allure\n@allure.severity('trivial')\n@pytest")
    models = ("--model", run.adder, "--model", "fake:constant?text=1")
    option = ("-o", "llm_allure_identity=item")
    done = run(*models, *option)
    done.refused("Allure would take the models' cases for retries of one case; give one --model")
    by_model = []
    for folder, pair in (("first", models[:2]), ("second", models[2:])):
        run(*pair, *option, "--alluredir", folder)
        by_model.append(results(run.folder / folder)["sums/0000"])
    first, second = by_model
    assert first["historyId"] == second["historyId"]
    # Allure 3 leaves out what is excluded.
    assert [p["name"] for p in first["parameters"] if not p.get("excluded")] == ["item"]
    assert first["parameters"][1]["value"] != second["parameters"][1]["value"]
    for name in ("measured", "skipped"):
        if name == "skipped":
            run.change("test_sums.py", "@allure", "@pytest.mark.skip\n@allure")
        run(*models, "--alluredir", name)
        by_title = results(run.folder / name)
        assert len(by_title) == len({identity(r)[2] for r in by_title.values()}) == 4
        assert len({labels(r)["parentSuite"] for r in by_title.values()}) == 2
        severities = [o["value"] for r in by_title.values() for o in r["labels"] if o["name"] == "severity"]
        assert severities == ["trivial"] * 4
        assert {labels(r)["epic"] for r in by_title.values()} == {"Sums"}
        has_texts = any(texts(run.folder / name, result) for result in by_title.values())
        assert (has_texts, name == "skipped") in ((True, False), (False, True))


def test_controller_describes_the_run(mixed: tuple[Finished, Path], run: Runner) -> None:
    """The folder has one environment, table of results and summary of all workers, and the reason of a stop."""
    done, folder = mixed
    environment = properties(folder)
    assert (environment["Run"], environment["Protocol sums"]) == (done.folder.name, "quick")
    assert environment["Calls"] == "20 made, 0 replies from the store"
    shown = json.loads((folder / allure_run.GLOBALS).read_text(encoding="utf-8"))
    assert [a["name"] for a in shown["attachments"]] == ["results by task", "run summary"]
    assert all((folder / a["source"]).is_file() for a in shown["attachments"])
    assert "wrong sums/0003" in (folder / allure_run.SUMMARY).read_text(encoding="utf-8")
    run.sums(30)
    run.change("test_sums.py", "return Verdict.check", "item['m']\n        return Verdict.check")
    run("--model", run.adder, "--alluredir", "stopped")
    [error] = json.loads((run.folder / "stopped" / allure_run.GLOBALS).read_text(encoding="utf-8"))["errors"]
    assert error["message"].startswith("the run stopped: ")


def test_expected_failures_keep_their_categories(run: Runner) -> None:
    """With a gate, wrong verdicts are skipped results; the folder has its decision until the next run.

    Older results in the folder are named in the summary and the environment, unless they are removed.
    """
    file = run.write("gate.toml", GATE)
    done, folder = measured(run, "--llm-gate", str(file), "-n", "2")
    gate = json.loads((folder / allure_run.GATE).read_text(encoding="utf-8"))
    assert gate == done.run["gate"]
    assert (folder / allure_run.GATE_TEXT).read_text(encoding="utf-8").startswith(gate["line"])
    by_title = results(folder)
    assert {n: category(folder, r) for n, r in by_title.items() if r["status"] == "skipped"} == {
        "sums/0003": "Wrong answers", "sums/0004": "Refusals", "sums/0005": "Unreadable replies",
    }  # fmt: skip
    assert texts(folder, by_title["sums/0003"]).keys() == {"prompt", "reply", "verdict"}
    assert "results of earlier runs" not in done.output
    second, _ = measured(run)
    assert not (folder / allure_run.GATE).exists()
    assert "the report will include 20 results of earlier runs" in second.output
    assert properties(folder)["Results of earlier runs"].startswith("20 in this folder")
    third, _ = measured(run, "--clean-alluredir")
    assert "results of earlier runs" not in third.output
    assert len(list(folder.glob("*-result.json"))) == 20


GATE = """
[[rule]]
benchmark = "sums"
min_accuracy = 0.5
min_items = 10
"""


def test_run_continues_without_the_results_folder(run: Runner) -> None:
    """If the folder disappears, one line says so, and every verdict is still recorded."""
    run.sums(12)
    folder = run.folder / "results"
    run.write(
        "conftest.py",
        "import shutil\n"
        f"def pytest_runtest_logstart(nodeid):\n    '0005' in nodeid and shutil.rmtree({str(folder)!r})\n",
    )
    done = run("--model", run.adder, "--alluredir", str(folder))
    assert (done.code, len(done.verdicts), done.run["complete"]) == (1, 12, True)
    assert f"Allure: {folder}: No such file or directory; some results are missing" in done.output
    assert "INTERNALERROR" not in done.output


def test_a_case_is_titled_by_what_a_person_recognises(run: Runner) -> None:
    """The swapped word or the sentence, with the id beside it; the description begins with question and answers."""
    folder = run.folder / "allure"
    files = [
        str(ROOT / "suites" / f"test_{name}.py")
        for name in ("homophones", "htest", "eras", "dtails", "oracle")
    ]
    chosen = "(0001 or 0200 or eras/explicit or dtails/af or oracle/pair) and not search"
    run(
        *files, "--model", "fake:constant?text=A", "--llm-limit", "1", "-k", chosen, "--alluredir", str(folder),
        *WORD_HELPERS, "-n", "0",
    )  # fmt: skip
    by_title = results(folder)
    assert "phrydge → fridge (homophones/en/0001)" in by_title
    titles = " ".join(by_title)
    assert re.search(r"play → \w+: Ons speel", titles) or re.search(r"\w+ → \w+: .* \(dtails/af/", titles)
    assert re.search(r"[\u4e00-\u9fff]{6,}[^ ]* \(eras/explicit/", titles)
    names = {title: result["parameters"][0]["value"] for title, result in by_title.items()}
    assert [t for t, name in names.items() if not t.endswith(f" ({name})")] == []
    page = by_title["phrydge → fridge (homophones/en/0001)"]["descriptionHtml"]
    assert page.startswith("<p>Question: ")
    assert "phrydge" in page.partition("<p>Expected answer: fridge</p><p>Answer: A</p>")[0]
