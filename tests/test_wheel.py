"""The installed wheel, outside of the checkout, has the suites, the data and every command."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.stub_server import RunningStub
from pytest_llmprops.benchmark_registry import benchmark_names
from pytest_llmprops.cli.run import REPOSITORY
from tests.support.installed import Environment
from tests.support.runs import ROOT, Finished

PLAIN = ("-p", "no:cacheprovider", "-p", "no:allure_pytest", "-q")


# Not of the module: a process may leave a module and come back to it, and the folder is that of the session.
@pytest.fixture(scope="session")
def project(installed: Environment) -> Path:
    """Return the folder of a new project, as `llmprops init` writes it."""
    folder = installed.folder / "project"
    written = installed.llmprops("init", str(folder)).splitlines()
    files = {str(path) for path in folder.rglob("*") if path.is_file()}
    assert files == {line for line in written if line.startswith(str(folder))}
    return folder


def test_package_is_the_wheel(installed: Environment) -> None:
    """The environment imports the wheel, not the checkout."""
    file = installed("-c", "import pytest_llmprops; print(pytest_llmprops.__file__)")
    assert Path(file.strip()).is_relative_to(installed.packages)
    # `uvx pytest-llmprops` runs the program of the package's name.
    program = installed.python.with_name("pytest-llmprops")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("pytest-llmprops ")


def test_wheel_has_all_suites_and_their_data(installed: Environment) -> None:
    """`--pyargs pytest_llmprops.suites` collects all five benchmarks; node ids are those of a checkout."""
    options = ("--model", "fake:echo", "--llm-limit", "1", "--co")
    lines = installed("-m", "pytest", *PLAIN, "--pyargs", "pytest_llmprops.suites", *options).splitlines()
    files = {line.partition("::")[0] for line in lines if "::" in line}
    assert files == {f"suites/test_{name}.py" for name in benchmark_names()}


def test_wheel_has_licences_and_no_labelled_replies(installed: Environment) -> None:
    """The licence of the table of prices is in the metadata; replies that only tests read stay in the checkout."""
    [information] = installed.packages.glob("pytest_llmprops-*.dist-info")
    licences = {
        path.name: path.read_text(encoding="utf-8")
        for path in information.glob("licenses/**/*")
        if path.is_file()
    }
    assert set(licences) == {"LICENSE", "prices.json.license"}
    assert "Copyright (c) 2023 Berri AI" in licences["prices.json.license"]
    package = installed.packages / "pytest_llmprops"
    assert (package / "models" / "api" / "prices.json").is_file()
    assert {path.name for path in (package / "fixtures").glob("*.*")} == {"__init__.py", "strategies.py"}
    assert [path for path in package.rglob("*") if "labelled" in path.name or path.name == "replies"] == []


def test_run_of_an_installed_benchmark(installed: Environment) -> None:
    """The suite of a third-party benchmark is the one that its registration names; no key of this machine is seen."""
    assert "OPENAI_API_KEY (not set)" in installed.llmprops("list", "models")
    models = ("--model", "fake:echo", "--llm-helper", "reader=fake:echo")
    assert "[fake-echo-capitals/" in installed.llmprops("run", "capitals", *PLAIN, *models, "--co")


def shell_steps(steps: list[dict[str, Any]]) -> dict[str, str]:
    """Return the commands of the steps of a job or an action by their names."""
    return {step["name"]: step["run"] for step in steps if "run" in step}


def test_workflow_commands_run(
    installed: Environment, project: Path, start_stub: Callable[..., RunningStub]
) -> None:
    """The commands of the workflow and of the action measure the model of model.txt, decide, and write the summary."""
    workflow = (project / ".github" / "workflows" / "model-upgrade.yml").read_text(encoding="utf-8")
    steps = shell_steps(yaml.safe_load(workflow)["jobs"]["gate"]["steps"])
    assert list(steps) == ["Install", "Measure and decide", "Job summary", "Report", "Allure report"]
    # The wheel is a file of this machine.
    assert steps["Install"] == f"pip install 'pytest-llmprops[report] @ {REPOSITORY}'"
    assert (project / "model.txt").read_text(encoding="utf-8") == "gpt-4o\n"
    gate = project / "gate.toml"
    # Ten items per task and language rule out no drop of 5 points.
    gate.write_text(
        gate.read_text(encoding="utf-8").replace("max_drop = 0.05", "max_drop = 0.2"), encoding="utf-8"
    )
    stub = start_stub(delay=0.0)
    env = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": stub.url, "MODEL": "", "CACHE": "reuse"}
    env |= {"GITHUB_STEP_SUMMARY": str(project / "summary.md"), "PYTEST_ADDOPTS": "--llm-limit 10"}
    python = str(installed.python)
    baseline = ("suites/test_homophones.py", "suites/test_htest.py", "--llm-run", "reports/runs/old")
    installed.run(
        python, "-m", "pytest", *PLAIN, *baseline, "--model", "gpt-4o", status=1, folder=project, env=env
    )
    installed.llmprops("runs", "promote", "old", "current", folder=project)
    # Eight workers would take longer than the calls.
    measure = (
        steps["Measure and decide"]
        .replace("pytest", f"{shlex.quote(python)} -m pytest", 1)
        .replace("-n 8", "-n 0")
    )
    done = installed.run("bash", "-e", "-c", measure, folder=project, env=env)
    assert "PASS: gpt-4o may replace baseline old" in done.stdout
    assert Finished(0, "", project / "reports" / "candidate").run["models"]["gpt-4o"]["price"]
    assert Finished(0, "", project / "reports" / "runs" / "old").run["calls"]["cost_usd"] > 0
    assert "--llm-max-cost" in measure
    for name in ("Job summary", "Report"):
        installed.run("bash", "-e", "-c", steps[name], folder=project, env=env)
    summary = (project / "summary.md").read_text(encoding="utf-8")
    assert "## PASS: gpt-4o" in summary
    assert "### A → B: " in summary
    assert (project / "reports" / "decision.md").read_text(encoding="utf-8") == summary
    assert (project / "reports" / "report" / "report.html").is_file()
    assert (project / "reports" / "junit.xml").is_file()
    assert any((project / "reports" / "allure-results").iterdir())
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    shutil.rmtree(project / "reports")
    env |= {name.upper(): value["default"] for name, value in action["inputs"].items()}
    env["OPTIONS"] += " -n 0"
    script = shell_steps(action["runs"]["steps"])
    done = installed.run(
        "bash", "-e", "-o", "pipefail", "-c", script["Measure and decide"], folder=project, env=env
    )
    assert "PASS: gpt-4o may replace baseline old" in done.stdout
    # What follows is the same as in the workflow.
    for name in ("Job summary", "Report"):
        assert script[name].replace('"$BASELINE"', "current").replace('"$GATE"', "gate.toml") == steps[name]
