"""DTAiLS through pytest: choices, rules, translations, their parser, and invalid input, with and without workers."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.support.dtails import (
    DTAILS,
    SELECT,
    asked,
    row,
    rules_file,
    said_in_one_line,
    two_languages,
    write_chooser,
    write_language,
)
from tests.support.gated_runs import command
from tests.support.runs import Runner

#: options that run the data in the current folder
DATA = ("--llm-data", ".")


@pytest.fixture
def data(run: Runner) -> tuple[str, ...]:
    """Options that select two languages written by the test."""
    return two_languages(run.folder)


def test_both_tasks(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """A chat model chooses and translates, and the record has summary, values and metrics of both tasks."""
    done = run(*data, "--model", write_chooser(run.folder), "-n", workers, "-q")
    assert done.code == 1
    assert done.run["complete"] is True
    rows = {(r["task"], r["language"]): r for r in done.run["summary"]}
    assert {place: (r["items"], r["source"], r["clusters"]) for place, r in rows.items()} == {
        ("select", "af"): (3, "generated", 1), ("translate", "af"): (3, "generated", 1),
        ("select", "hy"): (2, "generated", 1), ("translate", "hy"): (2, "generated", 1),
    }  # fmt: skip
    assert all(r["errors"] == 0 for r in rows.values())
    metrics = {(m["task"], m["language"], m["name"], m["group"]): m for m in done.run["metrics"]}
    assert metrics["select", "af", "frequency_baseline", ""]["value"] == 1.0
    # The model takes the first variation of every list.
    first = metrics["select", "all", "position_rate", "1of2"]
    assert (first["value"], first["n"], first["direction"]) == (1.0, 5, "target:0.5")
    shown = command(run, "runs", "show", str(done.folder)).output
    assert re.search(r"^  select/all +1of2 +2of2\n(  .*\n)*?  position_rate +1 +0$", shown, re.MULTILINE)
    verdict = done.verdicts["dtails/af/live/g02"]
    assert verdict["cluster"] == "dtails/af/live"
    assert verdict["values"]["run1_position"] == 1.0


def test_orders_are_the_same_for_all_models_and_workers(run: Runner, data: tuple[str, ...]) -> None:
    """Two models, with one process or two, see each item in one order; another seed gives others."""
    shown = []
    write_chooser(run.folder)
    other = run.write("other.py", (run.folder / "chooser.py").read_text(encoding="utf-8") + "\n# another\n")
    for file, more in ((run.folder / "chooser.py", "0"), (other, "2")):
        run(*data, "--model", f"fake:call?file={file}", "-n", more, *SELECT, "--llm-cache", "off")
        shown.append(sorted(asked(run.folder, rules=False)))
        (run.folder / "asked.jsonl").unlink()
    assert shown[0] == shown[1]
    assert len(shown[0]) == 5
    run(*data, "--model", f"fake:call?file={other}", *SELECT, "--llm-cache", "off", "--llm-seed", "5")
    assert sorted(asked(run.folder, rules=False)) != shown[0]


def test_damaged_rows(run: Runner) -> None:
    """An invalid row gives one line with file, row and language, and no request is made."""
    write_language(run.folder, "af", [row(), row(sentence="Another.", label="\x1b[2J")])
    done = run(DTAILS, "--model", write_chooser(run.folder), *DATA, "-n", "2", "-q")
    said_in_one_line(
        done, "expert_dataset.csv: row 2 (af): ", r"label '\x1b[2J' is not one of the variations"
    )
    assert not (run.folder / "asked.jsonl").exists()


ZWNJ, ZWJ = "\u200c", "\u200d"


def test_joiners_and_right_to_left_text(run: Runner) -> None:
    """Zero-width joiners, right-to-left text and decomposed letters reach prompts and record unchanged."""
    best, other = f"مهم{ZWNJ}ترین", f"بیش{ZWJ}تر/بیشترین"
    sentence, target = "\u202bThe most\u202c important e\u0301.", f"این {best} است"
    variations = json.dumps([best, other])
    write_language(
        run.folder, "fa", [row(sentence=sentence, target=target, variations=variations, label=other)]
    )
    reply = f"def reply(chat):\n    return {f'```{best}```'!a} if '3 back' not in chat.prompt else ''\n"
    model = f"fake:call?file={run.write('best.py', reply)}"
    done = run(DTAILS, "--model", model, *DATA, "-n", "2", "-q")
    verdict = done.verdicts["dtails/fa/live/g01"]
    assert (verdict["status"], verdict["given"], verdict["expected"]) == ("wrong", best, other)
    assert verdict["reason"] == f"chose {best}"
    raw = (done.folder / "verdicts.jsonl").read_text(encoding="utf-8")
    assert best in raw
    assert other in raw
    prompts = [r["request"]["messages"][0][1] for r in done.requests]
    assert any(sentence in prompt and best in prompt and other in prompt for prompt in prompts), prompts
    assert "\u202b" not in done.output, "what reorders a line is kept from the terminal"
    assert f"(chose {best})" in done.output, "joiners are part of the word"


def test_a_limit_is_per_concept(run: Runner) -> None:
    """--llm-limit 1 selects one row per concept, the same for both tasks."""
    done = run(DTAILS, "--model", "fake:echo", "--llm-limit", "1", "-k", "dtails/af", "-q")
    bases = [name.removesuffix("+translate") for name in done.verdicts]
    assert len(bases) == 14
    assert len(set(bases)) == 7 == len({v["cluster"] for v in done.verdicts.values()})


@pytest.mark.parametrize(("workers", "cache"), [("0", "reuse"), ("2", "off")])
def test_own_rules_are_requested_once(run: Runner, data: tuple[str, ...], workers: str, cache: str) -> None:
    """With rules=self each concept makes one request for rules, and the prompts contain the reply."""
    model = write_chooser(run.folder)
    settings = ("--llm-set", "dtails.rules=self", "--llm-cache", cache, "-n", workers, *SELECT, "-q")
    done = run(*data, "--model", model, *settings)
    wanted = asked(run.folder, rules=True)
    assert len(wanted) == len(set(wanted)) == 2
    assert sum("Here are sentences" in prompt for prompt in wanted) == 1, "Armenian has no train rows"
    assert not any("house 1" in prompt for prompt in wanted), "a test row's sentence"
    choices = asked(run.folder, rules=False)
    assert len(choices) == 5
    assert all(p.startswith("Here are rules for how to translate") for p in choices)
    counts = {v["language"]: v["values"]["sentences"] for v in done.verdicts.values()}
    assert counts == {"af": 1.0, "hy": 0.0}
    for verdict in done.verdicts.values():
        chosen = verdict["evidence"]["shown"][0][0]
        assert {rule["variation"] for rule in verdict["evidence"]["rules"]} == {chosen, verdict["expected"]}
        assert (chosen == verdict["expected"]) == bool(verdict["values"]["run1_right"])
    assert done.run["calls"]["sent"] == 7
    assert done.run["calls"]["requests"] == 10
    assert any("train_dataset.csv" in name for name in done.run["data"])
    assert done.run["protocols"]["dtails"]["settings"]["rules"] == "self"


def test_rules_of_files(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """Files joined by a comma, relative to the current folder, are in every prompt; the record has their hashes."""
    live = {"woon": "to dwell", "leef/lewe": "to be alive"}
    files = {
        "af.json": rules_file(run.folder / "af.json", {"live": live}),
        "hy.json": rules_file(run.folder / "hy.json", {"live": {"ապրել": "a", "բնակվել": "b"}}, "hy"),
    }
    settings = ("--llm-set", "dtails.rules=hy.json, af.json", "-n", workers, *SELECT, "-q")
    done = run(*data, "--model", write_chooser(run.folder), *settings)
    assert len(done.verdicts) == 5
    assert {v["values"]["sentences"] for v in done.verdicts.values()} == {0.0}
    choices = asked(run.folder, rules=False)
    assert sum('Afrikaans:{"woon": "to dwell", "leef/lewe": "to be alive"}\n' in p for p in choices) == 3
    assert sum('Armenian:{"ապրել": "a", "բնակվել": "b"}\n' in p for p in choices) == 2
    hashes = {name: value for name, value in done.run["data"].items() if name.startswith("given:")}
    assert hashes == {
        f"given:{name}": hashlib.sha256(f.read_bytes()).hexdigest() for name, f in files.items()
    }


@pytest.mark.parametrize(
    ("language", "concept", "workers", "said"),
    [
        ("hy", "live", "0", ("rules for hy, not for 'af'", "-k dtails/hy")),
        (
            "af",
            "love",
            "2",
            ("no rules for 'live' with the variations 'leef/lewe, woon' and 1 more", "--lang af"),
        ),
        pytest.param("", "", "2", ("not JSON",), id="damaged"),
    ],
)
def test_rules_that_do_not_fit_the_items(
    run: Runner, data: tuple[str, ...], language: str, concept: str, workers: str, said: tuple[str, ...]
) -> None:
    """Rules for another language or other concepts, and a damaged file, are refused in one line before any request."""
    run.write("rules.json", "{")
    if language:
        rules = {concept: {"woon": "a rule", "leef/lewe": "a rule"}}
        rules_file(run.folder / "rules.json", rules, language)
    settings = ("--llm-set", "dtails.rules=rules.json", "-n", workers, "-q")
    done = run(*data, "--model", write_chooser(run.folder), *settings)
    assert done.code == (4 if language else 1), done.output
    said_in_one_line(done, "rules.json: ", *said)
    assert not (run.folder / "asked.jsonl").exists()
    assert not language or not done.folder.exists()


def test_a_plan_checks_the_rules(run: Runner, data: tuple[str, ...]) -> None:
    """A plan refuses rules that do not cover the planned items; --collect-only does not check them."""
    rules_file(run.folder / "rules.json", {"live": {"ապրել": "a", "բնակվել": "b"}}, "hy")
    settings = ("--model", "fake:echo", "--llm-set", "dtails.rules=rules.json")
    assert run(*data, *settings, "--llm-plan").code == 4
    assert run(*data, *settings, "--collect-only", "-q").code == 0


#: a translation model defined by the test, and a parser that splits at hyphens in the languages it supports
MODELS = """
from dataclasses import replace

from pytest_llmprops import Reply, register_model
from pytest_llmprops.benchmark_registry import find_registration, register_benchmark


class Own:
    pinned, max_batch, blocking = True, 8, True

    def __init__(self, name):
        self.identity = {"backend": name}

    def deviations(self):
        return ()

    def close(self):
        pass


class Translator(Own):
    def translate(self, requests):
        assert all((r.source, r.target) in (("en", "af"), ("en", "hy")) for r in requests)
        return [Reply(TEXT) for r in requests]


class Parser(Own):
    def parse(self, requests):
        assert all(r.analysis == "words" for r in requests)
        parsed = [self.words(r) for r in requests]
        return [Reply(value=v, served_model="splitter" if v["words"] else "") for v in parsed]

    def words(self, r):
        if r.language != "af":
            return {"words": None, "by": "", "missing": "no model of " + r.language}
        return {"words": [[w, w, "", -1, ""] for w in r.text.split("-")], "by": "splitter 1 af"}


register_model("own", lambda spec, options: Translator("own"), kinds=("translate",))
for name in ("splitter", "mine"):
    register_model(name, lambda spec, options, name=name: Parser(name), kinds=("parse",))
register_benchmark(replace(find_registration("dtails"), default_helpers=DEFAULTS))
"""


def write_models(run: Runner, text: str, default: str = "") -> None:
    """Register the parsers, the default one, and a translator that translates everything by an expression of ``r``."""
    defaults = {"parse": (default,)} if default else {}
    run.write("conftest.py", MODELS.replace("TEXT", text).replace("DEFAULTS", repr(defaults)))
    run.write("test_dtails.py", Path(DTAILS).read_text(encoding="utf-8"))


def test_a_translation_model(run: Runner, data: tuple[str, ...], workers: str) -> None:
    """A translation-only model gets translation requests, and its selections are counted as not served."""
    write_models(run, "'Hulle woon hier.' if r.target == 'af' else 'ապրել'")
    done = run("test_dtails.py", *data[1:], "--model", "own", "-n", workers, "-q")
    assert done.code == 0, done.output
    assert {v["task"] for v in done.verdicts.values()} == {"translate"}
    assert len(done.verdicts) == 5
    assert done.run["not_served"] == {"dtails": {"own": 5}}
    assert {r["request"]["text"] for r in done.requests} == {f"They live in house {n}." for n in range(3)}


def test_tokenizer_is_recorded(run: Runner, data: tuple[str, ...]) -> None:
    """Each verdict says whether the parser or, without its language, Unicode split its words."""
    write_models(run, "'dit-wooon-x' if r.target == 'af' else 'ապրոլ'")
    options = ("--model", "own", "--llm-helper", "parse=splitter", "-n", "2", "-q")
    done = run("test_dtails.py", *data[1:], *options)
    assert done.code == 0, done.output
    tokenizers = {
        (v["language"], v["values"]["parser"], v["reason"].rpartition("; ")[2])
        for v in done.verdicts.values()
    }
    assert tokenizers == {("af", 1.0, "words by splitter 1 af)"), ("hy", 0.0, "words by unicode-words)")}
    rates = {m["language"]: m["value"] for m in done.run["metrics"] if m["name"] == "parser_rate"}
    assert rates == {"af": 1.0, "hy": 0.0}
    assert done.run["helpers"]["parse"]["identity"] == {"backend": "splitter"}


def test_tokenizer_stanza_requires_a_parser(run: Runner, data: tuple[str, ...]) -> None:
    """dtails.tokenizer=stanza stops the run in one line if there is no parser or it lacks the language."""
    write_models(run, "'none'")
    strict = ("--model", "own", "--llm-set", "dtails.tokenizer=stanza", "-q")
    lacking = ("-n", "2", "--llm-helper", "parse=splitter", "-k", "dtails/hy")
    done = run("test_dtails.py", *data[1:], *strict, *lacking)
    said_in_one_line(done, "stopped: dtails.tokenizer=stanza: no model of hy; or use dtails.tokenizer=auto")
    assert done.run["complete"] is False
    assert done.verdicts == {}
    none = run("test_dtails.py", *data[1:], *strict)
    said_in_one_line(none, "stopped: dtails.tokenizer=stanza", "--llm-helper parse=stanza")
