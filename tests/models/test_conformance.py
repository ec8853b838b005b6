"""Runs behind the personalities of APIs in ``fixtures/apis.py`` have the verdicts of runs behind a plain server."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from fixtures.apis import APIS, KEY, Api, Mistake, plain, serving, table
from tests.support.runs import ROOT, Finished, Runner

#: the README's benchmark, and two items of each suite that every way of asking is among
SELECTED = (
    "cities or dtails/af/know or dtails/gl/know or eras/explicit/01 or eras/implicit/01 or htest/rhyme"
    " or htest/spelled_math or homophones/en/0025 or oracle/general/043 or (oracle/pair/068 and consistency)"
)
OPTIONS = ("--llm-limit", "2", "--llm-cache", "off", "--llm-set", "eras.samples=2", "-q", "-k", SELECTED)


def write_benchmark(run: Runner) -> None:
    """Write the README's benchmark."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for language, name in (("python", "test_capitals.py"), ("json", "capitals.jsonl")):
        run.write(name, re.findall(rf"```{language}\n(.*?)```", readme, re.DOTALL)[0])


def measured(run: Runner, url: str, model: str, *args: str, env: Mapping[str, str]) -> Finished:
    """Return a finished run of the README's benchmark and the suites."""
    suites = (str(run.folder / "test_capitals.py"), str(ROOT / "suites"), "--rootdir", str(run.folder))
    # Without a helper, spaCy's would be loaded.
    return run(*suites, "--llm-helper", "parse=words", "--model", model, "--llm-base-url", url, *OPTIONS, *args, env=env)


def statuses(done: Finished) -> dict[str, str]:
    """Return the status of each verdict."""
    return {name: row["status"] for name, row in done.verdicts.items()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, dict[str, str]]:
    """Return the statuses behind a plain server, by whether it returns log probabilities."""
    found = {}
    for logprobs in (True, False):
        run = Runner(tmp_path_factory.mktemp("plain"))
        write_benchmark(run)
        with serving(plain(logprobs)) as url:
            done = measured(run, f"{url}/v1", "openai:m", env={"OPENAI_API_KEY": KEY})
        assert done.run["deviations"] in ([], {}, {"m": []}), done.run["deviations"]
        found[logprobs] = statuses(done)
        assert len(set(found[logprobs].values())) > 2
        assert "error" not in found[logprobs].values(), done.output
    return found
