"""The code in README.md and docs/models.md runs."""

from __future__ import annotations

import re
import types
from pathlib import Path

import pytest

from pytest_llmprops import BackendOptions, ModelSpec, UsageError
from tests.support.runs import Runner

ROOT = Path(__file__).resolve().parent.parent


def _blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def capitals(run: Runner) -> Runner:
    """Write the README's benchmark to a separate folder and return its runner."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Write a benchmark")[2]
    assert "capitals.jsonl" in text
    [code] = _blocks(ROOT / "README.md", "python")
    [data] = _blocks(ROOT / "README.md", "json")
    run.write("test_capitals.py", code)
    run.write("capitals.jsonl", data)
    run.write(
        "rules.json",
        '[{"match": "France", "reply": "Paris."}, {"match": "Peru", "reply": "lima"}, {"match": "", "reply": "?"}]',
    )
    return run


def test_benchmark_of_the_readme_runs(capitals: Runner, workers: str) -> None:
    """The example gives verdicts, a record and a summary, in one process and with workers."""
    done = capitals("--model", f"fake:rule?file={capitals.folder / 'rules.json'}", "-n", workers)
    assert {n: v["status"] for n, v in done.verdicts.items()} == {
        "cities/fr": "correct", "cities/pe": "correct", "cities/ke": "wrong",
    }  # fmt: skip
    assert done.run["summary"][0]["benchmark"] == "cities"
    assert any(name.endswith("capitals.jsonl") for name in done.run["data"])


def test_benchmark_of_the_readme_is_short() -> None:
    """It has at most 25 lines of Python."""
    [code] = _blocks(ROOT / "README.md", "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 25


def test_options_work_with_the_benchmark_of_the_readme(capitals: Runner) -> None:
    """Limit, selection, budget, plan, parameters and settings work with a user's own benchmark."""
    model = ("--model", f"fake:rule?file={capitals.folder / 'rules.json'}")
    assert len(capitals(*model, "--llm-limit", "2").verdicts) == 2
    assert list(capitals(*model, "-k", "cities/pe").verdicts) == ["cities/pe"]
    assert "refused to start" in capitals(*model, "--llm-max-calls", "1", "--llm-cache", "refresh").output
    assert "cities" in capitals(*model, "--llm-plan").output
    asked = capitals(*model, "--llm-param", "max_tokens=7").requests
    assert {r["request"]["max_tokens"] for r in asked} == {7}
    assert "known are" in capitals(*model, "--llm-set", "capital.k=1").output


def test_model_example_of_the_docs_runs(run: Runner, workers: str) -> None:
    """The model registered in docs/models.md answers, in one process and with workers."""
    code, _ = _blocks(ROOT / "docs" / "models.md", "python")
    run.sums(3)
    run.write("conftest.py", code)
    done = run("--model", "shout:any", "-n", workers)
    assert {v["given"] for v in done.verdicts.values()} == {"0 + 1 =", "1 + 1 =", "2 + 1 ="}


def test_packaged_backend_of_the_docs_checks_its_package() -> None:
    """The backend in docs/models.md refuses a missing package and an unknown parameter."""
    _, code = _blocks(ROOT / "docs" / "models.md", "python")
    module = types.ModuleType("packaged")
    exec(compile(code, "docs/models.md", "exec"), module.__dict__)
    with pytest.raises(UsageError, match="needs the package 'shouting'"):
        module.BACKEND.check(
            ModelSpec("shout:loud?voice=high", "shout", "loud", {"voice": "high"}), BackendOptions()
        )
    with pytest.raises(UsageError, match="pitch"):
        module.BACKEND.check(
            ModelSpec("shout:loud?pitch=1", "shout", "loud", {"pitch": "1"}), BackendOptions()
        )
    assert module.BACKEND.kinds(ModelSpec("shout:loud", "shout", "loud")) == {"chat"}
