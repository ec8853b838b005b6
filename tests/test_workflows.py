"""The workflows of this repository, its action, and the workflows that users get: linters, forks and comments."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_llmprops import __version__
from pytest_llmprops.benchmark_registry import benchmark_names
from pytest_llmprops.cli.run import project_files
from tests.support.programs import JQ
from tests.support.runs import ROOT, Runner

WORKFLOW = ".github/workflows/model-upgrade.yml"
TEXT = project_files()[WORKFLOW].decode("utf-8")
JOBS: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
#: the use of the action
[BLOCK] = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.S | re.M)
EXAMPLE: Any = yaml.safe_load(BLOCK)
GITLAB: Any = yaml.safe_load((ROOT / "examples" / "gitlab-ci.yml").read_text(encoding="utf-8"))
MARK = "<!-- llmprops gate -->"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return all workflows, with that of `init` as it is written, and the use of the action on its page."""
    folder = tmp_path_factory.mktemp("project")
    for name, text in (("init.yml", TEXT), ("action.yml", BLOCK.replace("@COMMIT", "@" + "0" * 40))):
        (folder / name).write_text(text, encoding="utf-8")
    return [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), *sorted(folder.iterdir())]


def lint(name: str, *arguments: str | Path) -> str:
    """Return the output of a linter, which must find nothing; skip if it is not installed."""
    beside = str(Path(sys.executable).parent)
    program = shutil.which(name, path=os.pathsep.join((beside, os.environ.get("PATH", ""))))
    if program is None:
        pytest.skip(f"{name} is not installed: install the extra dev")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_actionlint_finds_nothing(files: list[Path]) -> None:
    """Syntax, expressions and the inputs of actions are right. Other linters, which may be missing, are not started."""
    assert lint("actionlint", "-shellcheck=", "-pyflakes=", *files) == ""


def test_zizmor_finds_nothing(files: list[Path]) -> None:
    """Actions are pinned, permissions are least, no credentials persist, and no input becomes part of a command."""
    assert lint("zizmor", "--offline", "--no-progress", *files, ROOT / "action.yml") == ""


def used(value: object) -> Iterator[str]:
    """Yield the action of each step."""
    if isinstance(value, dict):
        if isinstance(value.get("uses"), str):
            yield value["uses"]
        for part in value.values():
            yield from used(part)
    elif isinstance(value, list):
        for part in value:
            yield from used(part)


def test_an_action_has_one_commit_everywhere(files: list[Path]) -> None:
    """All workflows use the same commit of an action, so that an upgrade forgets none."""
    commits: dict[str, set[str]] = {}
    for path in (*files, ROOT / "action.yml"):
        for action in used(yaml.safe_load(path.read_text(encoding="utf-8"))):
            name, _, commit = action.partition("@")
            commits.setdefault("/".join(name.split("/")[:2]), set()).add(commit)
    assert len(commits) >= 7
    assert {name: found for name, found in commits.items() if len(found) > 1} == {}


def test_a_changed_model_is_measured() -> None:
    """A change of model.txt starts each workflow, and the model of model.txt is measured."""
    watched = ["model.txt", "gate.toml", "baselines/**"]
    # YAML reads the key "on" as true.
    assert (
        yaml.safe_load(TEXT)[True]["pull_request"]["paths"]
        == EXAMPLE[True]["pull_request"]["paths"]
        == watched
    )
    [rule] = GITLAB["model upgrade"]["rules"]
    assert rule["changes"] == ["model.txt", "gate.toml", "baselines/**/*"]
    for script in (
        *(named(steps, "Measure and decide") for steps in (JOBS["gate"]["steps"], ACTION["runs"]["steps"])),
        GITLAB["model upgrade"]["script"][-1],
    ):
        assert "< model.txt)" in script
    assert f"=={__version__}'" in GITLAB["model upgrade"]["script"][1]
    assert set(ACTION["inputs"]["benchmarks"]["default"].split()) < set(benchmark_names())


def named(steps: list[dict[str, Any]], name: str) -> str:
    """Return the commands of the step with this name."""
    [script] = [str(step["run"]) for step in steps if step.get("name") == name]
    return script


def shell(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub does, with the programs of ``folder/bin`` first, and Python as ``python``."""
    path = os.pathsep.join((str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder, env={"PATH": path, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_fork_is_not_gated(tmp_path: Path) -> None:
    """In a pull request from a fork, another job runs instead of the gate; it says so in one line, and fails."""
    ours, fork = JOBS["gate"]["if"], JOBS["not-gated"]["if"]
    assert ours == "github.event_name != 'pull_request' || " + fork.partition(" && ")[2].replace("!=", "==")
    assert fork.startswith("github.event_name == 'pull_request' && ")
    first = ACTION["runs"]["steps"][0]
    assert first["if"] == fork
    for script in (JOBS["not-gated"]["steps"][0]["run"], first["run"], GITLAB["model upgrade"]["script"][0]):
        done = shell(script, tmp_path)
        [line] = done.stdout.splitlines()
        assert done.returncode == 1
        assert "ot gated" in line


def test_only_the_comment_may_write() -> None:
    """The job with the key can read; the job that can write checks out nothing."""
    assert JOBS["gate"]["permissions"] == {"contents": "read"}
    assert JOBS["comment"]["permissions"] == {"pull-requests": "write"}
    assert [step.split("@")[0] for step in used(JOBS["comment"])] == ["actions/download-artifact"]
    assert "secrets." not in json.dumps({name: job for name, job in JOBS.items() if name != "gate"})


#: answers with the comments of a file through jq, as `gh api --jq` does; records what it is asked to write
GH = """#!{python}
import json, pathlib, subprocess, sys
words = sys.argv[1:]
if "--jq" in words:
    comments = pathlib.Path("comments.json").read_bytes()
    sys.exit(subprocess.run(["jq", "-r", words[words.index("--jq") + 1]], input=comments).returncode)
body = pathlib.Path(words[-1].removeprefix("body=@")).read_text()
pathlib.Path("written.json").write_text(json.dumps([*words[:-1], body]))
"""
#: the same of curl, for GitLab
CURL = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
if "--request" not in words:
    sys.stdout.write(pathlib.Path("comments.json").read_text())
else:
    body = pathlib.Path(words[words.index("--data-urlencode") + 1].removeprefix("body@")).read_text()
    pathlib.Path("written.json").write_text(json.dumps([words[words.index("--request") + 1], words[-1], body]))
"""


def commented(
    folder: Path, program: str, text: str, script: str, variables: dict[str, str], comments: object
) -> Any:
    """Run the step of a comment, with ``text`` in place of a program and existing comments; return what it writes."""
    for name in ("bin", "reports"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "bin" / program).write_text(text.replace("{python}", sys.executable), encoding="utf-8")
    (folder / "bin" / program).chmod(0o700)
    (folder / "comments.json").write_text(json.dumps(comments), encoding="utf-8")
    (folder / "reports" / "decision.md").write_text("## PASS: new may replace old\n", encoding="utf-8")
    done = shell(script, folder, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "written.json").read_text(encoding="utf-8"))


@JQ.needed
@pytest.mark.parametrize(
    "steps", [JOBS["comment"]["steps"], ACTION["runs"]["steps"]], ids=["workflow", "action"]
)
def test_comment_on_github_is_updated(steps: list[dict[str, Any]], tmp_path: Path) -> None:
    """The first run writes a comment; the next ones replace it, and no comment of others."""
    others = [
        {"id": 1, "user": {"login": "someone"}, "body": MARK},
        {"id": 2, "user": {"login": "github-actions[bot]"}, "body": f"coverage, see {MARK}"},
    ]
    own = {"id": 3, "user": {"login": "github-actions[bot]"}, "body": f"{MARK}\nolder"}
    variables = {
        "COMMENTS": "repos/o/r/issues/7/comments", "GITHUB_REPOSITORY": "o/r", "COMMIT": "abc", "JOB": "https://job",
        "REPORT": "https://report",
    }  # fmt: skip
    body = f"{MARK}\n## PASS: new may replace old\n\n- Report: https://report\n- Job: https://job\n- Commit: abc\n"
    for comments, method, place in (
        (others, "POST", "repos/o/r/issues/7/comments"),
        ([*others, own], "PATCH", "repos/o/r/issues/comments/3"),
    ):
        written = commented(tmp_path, "gh", GH, named(steps, "Comment"), variables, comments)
        assert written == ["api", "--silent", "--method", method, place, "--field", body]


def test_comment_on_gitlab_is_updated(tmp_path: Path) -> None:
    """The job of the page writes one note, and replaces it."""
    script = GITLAB["model upgrade"]["after_script"][2]
    variables = {
        "CI_API_V4_URL": "https://gitlab/api/v4", "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "7", "CI_JOB_URL": "https://job",
        "CI_COMMIT_SHA": "abc", "COMMENT_TOKEN": "secret",
    }  # fmt: skip
    notes = "https://gitlab/api/v4/projects/5/merge_requests/7/notes"
    report = "https://job/artifacts/file/reports/report/report.html"
    body = f"{MARK}\n## PASS: new may replace old\n\n- Report: {report}\n- Commit: abc\n"
    others = [{"id": 1, "body": "looks good"}]
    own = {"id": 3, "body": f"{MARK}\nolder"}
    for comments, method, place in ((others, "POST", notes), ([*others, own], "PUT", f"{notes}/3")):
        assert commented(tmp_path, "curl", CURL, script, variables, comments) == [method, place, body]


#: the step of each workflow that writes the decision, or why there is none
SUMMARIES = {
    "workflow": named(JOBS["gate"]["steps"], "Job summary"),
    "action": named(ACTION["runs"]["steps"], "Job summary"),
    "gitlab": GITLAB["model upgrade"]["after_script"][2].partition("notes=")[0],
}


def reason(folder: Path, script: str, log: str | None) -> str:
    """Return the line of the comment after a run without a decision; ``log`` is its output."""
    (folder / "reports").mkdir(parents=True)
    if log is not None:
        (folder / "reports" / "pytest.txt").write_text(log, encoding="utf-8")
    ended = shell(script, folder, GITHUB_STEP_SUMMARY="summary.md", BASELINE="current", GATE="gate.toml")
    assert ended.returncode == 0, ended.stderr
    head, empty, line = (folder / "reports" / "decision.md").read_text(encoding="utf-8").splitlines()
    # Indented lines are text, not Markdown.
    assert (head, empty, line[:4]) == ("## NOT DECIDED", "", "    ")
    return line[4:]


#: a mistake, and what the comment says about it
MISTAKES = [
    (("--model", "gpt-4o"), "model gpt-4o needs a key: set the environment variable OPENAI_API_KEY"),
    (("--model", "fake:echo", "--llm-max-calls", "3"), "refused to start: the plan needs 12 calls"),
    (("--model", "fake:echo", "-k", "rhyme"), "no item matches -k rhyme; the tasks are add"),
    (("--model", "fake:echo", "broken.py"), "broken.py: ModuleNotFoundError: No module named 'nosuchmodule'"),
]


def test_the_comment_says_why_nothing_was_decided(run: Runner) -> None:
    """The line of the log that names the mistake is in each workflow's comment; without one, it points to the log."""
    run.sums()
    run.write("broken.py", "import nosuchmodule\n")
    gate = run.write("gate.toml", '[[rule]]\nbenchmark = "sums"\nmin_accuracy = 0.1\nmin_items = 1\n')
    for number, (words, said) in enumerate(MISTAKES):
        done = run("--llm-gate", str(gate), *words)
        assert done.code not in (0, 1), done.output
        for name, script in SUMMARIES.items():
            assert said in reason(run.folder / f"{name}-{number}", script, done.output)
    for name, script in SUMMARIES.items():
        assert reason(run.folder / name, script, None) == "the log of the job says why"


def test_the_exit_code_is_that_of_pytest() -> None:
    """The output goes through a pipe, whose exit code would be that of its last command."""
    [measure] = (step for step in JOBS["gate"]["steps"] if step.get("name") == "Measure and decide")
    [action] = (step for step in ACTION["runs"]["steps"] if step.get("name") == "Measure and decide")
    # GitHub runs this shell with -o pipefail.
    assert measure["shell"] == action["shell"] == "bash"
    assert "set -o pipefail" in GITLAB["model upgrade"]["script"][2]
    for script in (measure["run"], action["run"], GITLAB["model upgrade"]["script"][3]):
        assert script.rstrip().endswith("2>&1 | tee reports/pytest.txt")
