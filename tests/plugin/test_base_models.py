"""Base models in a run: answers scored by likelihood or continued, and how tables mark them."""

from __future__ import annotations

import json
import re

from pytest_llmprops.core.requests import request_from_json
from pytest_llmprops.reports.allure.case import prompt_text
from pytest_llmprops.reports.compare import terminal_lines
from pytest_llmprops.reports.kit.series import series_of
from pytest_llmprops.runs.comparable import differences
from pytest_llmprops.runs.compare import compare
from pytest_llmprops.runs.reader import read_run
from pytest_llmprops.runs.replies import read_requests
from tests.support.completions_server import by_length, completions_server
from tests.support.dtails import SELECT, two_languages
from tests.support.runs import ROOT, Runner

HTEST = str(ROOT / "suites" / "test_htest.py")
BY_LIKELIHOOD = ("--llm-set", "htest.answer=likelihood")
FEW = ("--llm-limit", "2", "-q")
#: a base model that takes the first option, and continues every text with the label A
FIRST = """
from pytest_llmprops.core.requests import Likelihood, Reply


def reply(request):
    if isinstance(request, Likelihood):
        options = [{"logprob": -1.0 - n, "tokens": 1} for n in range(len(request.options))]
        return Reply(value={"options": options})
    return " A"
"""


def test_a_planted_model_is_right(run: Runner) -> None:
    """A server that prefers the right label after each text gets 100%; the record says how it was measured."""
    known = {}
    for file in (ROOT / "data" / "htest").glob("*_test.jsonl"):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            known[row.get("centerpiece") or row["question"]] = row["options"][row["correct_options"][0]]

    def knowing(before: str, token: str) -> float:
        asked = re.findall(r'Input: "(.*)" Label:$', before.splitlines()[-1])
        return -0.25 if asked and token == f" {known.get(asked[0])}" else by_length(before, token)

    with completions_server(score=knowing) as server:
        model = f"completions:base?base_url={server.url}"
        done = run(HTEST, "--model", model, *BY_LIKELIHOOD, *FEW, "-n", "2", "-k", "not letter_geometry")
    assert done.code == 0, done.output
    assert [row["accuracy"] for row in done.run["summary"]] == [1.0] * 10
    assert {m["name"]: m["value"] for m in done.run["metrics"]} == {"normalised_accuracy": 1.0}
    assert done.run["protocols"]["htest"]["settings"]["answer"] == "likelihood"
    assert {row["kind"] for row in done.requests} == {"likelihood"}
    # One call per item, the first of which checks the model before the run.
    assert len(server.bodies) == len(done.verdicts) == 20
    assert "by likelihood: an answer is the most likely option" in done.output
    assert re.search(r"^htest · base\* ", done.output, re.MULTILINE)
    assert "GPT 4o" not in done.output
    verdict = next(iter(done.verdicts.values()))
    right = {"A": 1, "B": 2}[verdict["expected"]]
    assert verdict["values"][f"logprob{right}"] == -0.25
    # requests.jsonl has the examples of a task once, and readers and reports get whole texts.
    assert any(isinstance(row["request"]["text"], dict) for row in done.requests)
    calls = list(read_requests(done.folder).each())
    assert all(call.request["text"].endswith(("Label:", "Answer:")) for call in calls)
    assert all(call.request["text"].startswith('Input: "') for call in calls)
    assert "Scored continuations:\n' A'\n' B'" in prompt_text(
        request_from_json({"kind": calls[0].kind, **calls[0].request})
    )


def test_models_that_score_nothing(run: Runner) -> None:
    """With answer = likelihood, a chat model without likelihoods is not served, with one line that says why.

    The first call shows a server that scores nothing, before the run: one line, exit code 4, no verdict.
    """
    homophones = str(ROOT / "suites" / "test_homophones.py")
    done = run(HTEST, homophones, "--model", "fake:echo", *BY_LIKELIHOOD, *FEW)
    assert done.run["not_served"]["htest"]
    [line] = [line for line in done.output.splitlines() if line.startswith("not served: ")]
    assert "fake-echo does not score likelihoods; leave out --llm-set htest.answer=likelihood" in line
    with completions_server("no-logprobs") as server:
        done = run(HTEST, "--model", f"completions:base?base_url={server.url}", *BY_LIKELIHOOD, *FEW)
    done.refused("returned no log probabilities", "likelihoods need a server that supports echo and logprobs")


def test_base_models_continue_the_examples(run: Runner) -> None:
    """With answer = text, a base model continues the examples of H-TEST, and each chat of one message."""
    model = f"fake:call?file={run.write('first.py', FIRST)}&kinds=completion"
    suites = [
        str(ROOT / "suites" / f"test_{name}.py") for name in ("htest", "homophones", "dtails", "oracle")
    ]
    done = run(*suites, "--model", model, "--llm-helper", "parse=words", *FEW)
    assert {row["kind"] for row in done.requests} == {"completion"}
    assert {row["benchmark"] for row in done.run["summary"]} == {"htest", "homophones", "oracle"}
    # These say themselves what a base model can answer.
    assert set(done.run["not_served"]) == {"htest", "dtails"}
    for name, tasks in (("htest", "letter_geometry"), ("dtails", "select, translate")):
        said = rf"^note: {name}: fake-call\S* is a base model, which cannot answer items of {tasks}$"
        assert re.search(said, done.output, re.MULTILINE)
    assert {v["given"] for name, v in done.verdicts.items() if name.startswith("htest")} == {"A"}
    request = done.requests[0]["request"]
    assert (request["max_tokens"], request["stop"]) == (5, ["\n"])


def test_chat_of_one_message_is_a_base_models_prompt(run: Runner) -> None:
    """It is sent with its parameters, as a deviation; a chat of several messages is an error in one line."""
    run.sums(3)
    message = """Message("user", f"{item['n']} + 1 =")"""
    chat = f"""Chat(([Message("system", "Add.")] if item["n"] == 2 else []) + [{message}]"""
    run.change("test_sums.py", """Chat.user(f"{item['n']} + 1 =\"""", chat)
    run.change("test_sums.py", "max_tokens=8", 'max_tokens=8, stop=("X",)')
    run.change("test_sums.py", "Item, Verdict", "Item, Message, Verdict")
    with completions_server() as server:
        options = ("--model", f"completions:base?base_url={server.url}", "-n", "2", "--llm-repeats", "2")
        done = run(*options)
    assert {body["prompt"] for body in server.bodies} == {"0 + 1 =", "1 + 1 ="}
    assert {(body["max_tokens"], *body["stop"]) for body in server.bodies} == {(8, "X")}
    assert [verdict["status"] for _, verdict in sorted(done.verdicts.items())] == ["wrong", "wrong", "error"]
    said = "a base model continues one text, and a chat of system, user has several; choose a chat model"
    assert done.verdicts["sums/0002"]["reason"] == said
    [deviations] = done.run["deviations"].values()
    assert deviations == ["prompts are texts to be continued, because it is a base model"]
    assert done.run["summary"][0]["samples"] == 6


def test_chat_models_are_scored_after_their_prompt(run: Runner) -> None:
    """A chat model is scored on the question that it would answer, with the bare options."""
    model = f"fake:call?file={run.write('first.py', FIRST)}&kinds=chat,likelihood"
    done = run(HTEST, "--model", model, *BY_LIKELIHOOD, *FEW, "-k", "rhyme")
    calls = list(read_requests(done.folder).each())
    assert {tuple(call.request["options"]) for call in calls} == {("A", "B")}
    end = "Label: \nA \nB (Respond in one letter and nothing else)"
    assert all(call.request["text"].endswith(end) for call in calls)


def test_choices_of_dtails(run: Runner) -> None:
    """DTAiLS scores the variations in the order shown, records positions and both accuracies, and reads nothing."""
    model = f"fake:call?file={run.write('first.py', FIRST)}&kinds=likelihood"
    options = ("--llm-set", "dtails.answer=likelihood", "--llm-set", "dtails.runs=2")
    done = run(*two_languages(run.folder), *SELECT, "--model", model, *options, "-q")
    metrics = {(m["language"], m["name"], m["group"]): m["value"] for m in done.run["metrics"]}
    assert metrics["all", "position_rate", "1of2"] == 1.0
    names = {name for _, name, _ in metrics}
    assert ("normalised_accuracy" in names, "retry_rate" in names) == (True, False)
    verdict = next(iter(done.verdicts.values()))
    assert (verdict["values"]["run1_logprob1"], verdict["values"]["run2_logprob2"]) == (-1.0, -2.0)
    shown = verdict["evidence"]["shown"][0]
    assert verdict["values"]["run1_characters1"] == len(shown[0])
    assert done.requests[0]["request"]["options"] == [f" {name}" for name in shown]
    refused = run(*two_languages(run.folder), "--model", model, *options, "--llm-set", "dtails.rules=self")
    assert (refused.code, "rules = self needs answer = text" in refused.output) == (4, True)


def test_runs_by_text_and_by_likelihood_are_not_mixed(run: Runner) -> None:
    """Gates refuse to compare them; reports and comparisons mark the model that was scored by likelihood."""
    model = f"fake:call?file={run.write('first.py', FIRST)}&kinds=completion,likelihood"
    by_text = read_run(run(HTEST, "--model", model, *FEW, "-k", "rhyme").folder)
    by_likelihood = read_run(run(HTEST, "--model", model, *FEW, *BY_LIKELIHOOD, "-k", "rhyme").folder)
    [line] = differences(by_text.facts, by_likelihood.facts, ["htest"])
    assert "answer" in line
    [text, likelihood] = series_of([by_text, by_likelihood])
    assert text.label.endswith("answer text")
    assert likelihood.label.endswith("(htest by likelihood)")
    [alone] = series_of([by_likelihood])
    assert alone.starred.endswith("(htest by likelihood)")
    lines = terminal_lines(compare([by_text, by_likelihood]), 400)
    assert ["(htest by likelihood)" in line for line in lines[:2]] == [False, True]
    assert sum("(htest by likelihood)" in line for line in lines) == 2
