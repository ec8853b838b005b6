"""The commands of the README: a new user's upgrade from a first run to a decision."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from fixtures.apis import Answer, Call, completion, gpt_5, serving
from tests.support.runs import ROOT, Runner

README = (ROOT / "README.md").read_text(encoding="utf-8")


def respond(call: Call) -> Answer:
    """Answer as OpenAI's API, whose newer model takes no temperature and thinks; both give the same answers."""
    return gpt_5(call) if call.body["model"] == "gpt-5" else completion(call)


def commands(section: str) -> list[str]:
    """Return the commands of a section, in order, without those that install packages or show runs."""
    text = README.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^    (\S.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    # The last command starts a server.
    return [line for line in lines if not line.startswith(("pip install ", "llmprops view"))]


def test_the_upgrade_of_the_readme_is_decided(run: Runner) -> None:
    """The printed commands, in order, write a project, measure a baseline, promote it, and decide on a candidate."""
    printed = [*commands("Measure your model"), *commands("Decide on an upgrade")]
    assert [command.split()[0] for command in printed] == [
        "llmprops", "export", "pytest", "llmprops", "pytest",
    ]  # fmt: skip
    project = run.folder / "new"
    project.mkdir()
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    with serving(respond) as url:
        done = subprocess.run(
            ["bash", "-c", "\n".join(f'{command}\necho "exit code $?"' for command in printed)],
            cwd=project,
            env=run.environment({"OPENAI_BASE_URL": f"{url}/v1", "PATH": path}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
    codes = re.findall(r"^exit code (\d+)$", done.stdout, re.MULTILINE)
    # Some answers of the baseline are wrong.
    assert codes == ["0", "0", "1", "0", "0"], done.stdout + done.stderr
    [record] = (project / "reports" / "runs").glob("*-gpt-5")
    facts = json.loads((record / "run.json").read_text(encoding="utf-8"))
    assert (facts["complete"], facts["gate"]["decision"], facts["gate"]["reasons"]) == (True, "pass", [])
    caveats = facts["gate"]["caveats"]
    assert "gpt-5 takes no temperature: sampled at its default" in caveats
    [decision] = re.findall(r"^PASS: .*$", README, re.MULTILINE)
    assert f"\n{decision}\n" in done.stdout
    for caveat in caveats:
        assert f"  CAVEAT           {caveat}\n" in done.stdout
