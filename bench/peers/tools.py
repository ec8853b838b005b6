"""The compared tools: what each one needs on disk, its command, and where its results are."""

from __future__ import annotations

import json
import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
#: maximum tokens of a reply, as in H-TEST's protocol
MAX_TOKENS = 5
MODEL = "stub"


@dataclass(frozen=True)
class Prompts:
    """The prompts of a measurement.

    :param items: H-TEST items in the layout of published data, which the suite reads.
    :param file: the same prompts as JSON Lines with ``prompt`` and ``target``, which the other tools read.
    """

    items: Path
    file: Path

    def rows(self) -> list[dict[str, str]]:
        """Return the lines of ``file``."""
        with self.file.open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class Outcome:
    """What a tool counted: judged replies, and the correct ones."""

    replies: int
    correct: int


class Tool(ABC):
    """A tool in an environment of its own, ``.venv-peers/<environment>``."""

    name: str
    environment: str
    #: command that prints the version as its last word
    version_command: Sequence[str]

    @property
    def home(self) -> Path:
        """Return the folder of the environment."""
        return ROOT / ".venv-peers" / self.environment

    def variables(self, folder: Path) -> Mapping[str, str]:
        """Return the environment variables that the tool needs."""
        return {}

    def version(self, environment: Mapping[str, str]) -> str:
        """Return the tool's version."""
        done = subprocess.run(
            [str(self.home / self.version_command[0]), *self.version_command[1:]],
            env=dict(environment), cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.split()[-1]

    @abstractmethod
    def command(self, prompts: Prompts, url: str, in_flight: int, folder: Path) -> list[str]:
        """Write what the tool needs into ``folder``, and return the command that asks the server at ``url``."""

    @abstractmethod
    def outcome(self, folder: Path) -> Outcome:
        """Return what the tool counted in a finished run in ``folder``."""


class Ours(Tool):
    """A command of this package."""

    environment = "pytest-llmprops"
    version_command = ("bin/llmprops", "--version")

    def __init__(self, *arguments: str) -> None:
        self.name = f"`pytest {' '.join(arguments)}`"
        self._arguments = arguments

    def command(self, prompts: Prompts, url: str, in_flight: int, folder: Path) -> list[str]:
        return [
            str(self.home / "bin" / "pytest"), *self._arguments, "-q", "-o", f"cache_dir={folder / 'cache'}",
            "--model", f"openai:{MODEL}", "--llm-base-url", url, "--llm-concurrency", str(in_flight),
            "--llm-data", str(prompts.items),
            "--llm-store", str(folder / "store"), "--llm-run", str(folder / "run"),
        ]  # fmt: skip

    def outcome(self, folder: Path) -> Outcome:
        with (folder / "run" / "verdicts.jsonl").open(encoding="utf-8") as lines:
            statuses = Counter(json.loads(line)["status"] for line in lines)
        return Outcome(statuses.total() - statuses["error"], statuses["correct"])


class Promptfoo(Tool):
    """promptfoo, with the results in its database, as by default, and in a file."""

    name = environment = "promptfoo"
    version_command = ("bin/node", "node_modules/.bin/promptfoo", "--version")

    def variables(self, folder: Path) -> Mapping[str, str]:
        switches = ("DISABLE_TELEMETRY", "DISABLE_UPDATE", "DISABLE_REMOTE_GENERATION", "DISABLE_SHARING")
        return {f"PROMPTFOO_{switch}": "1" for switch in switches} | {
            "PROMPTFOO_CONFIG_DIR": str(folder),
            "OPENAI_API_KEY": "none",
        }

    def version(self, environment: Mapping[str, str]) -> str:
        package = self.home / "node_modules" / "promptfoo" / "package.json"
        version: str = json.loads(package.read_text(encoding="utf-8"))["version"]
        return version

    def command(self, prompts: Prompts, url: str, in_flight: int, folder: Path) -> list[str]:
        config = folder / "promptfooconfig.json"
        config.write_text(json.dumps(promptfoo_config(prompts.rows(), url)), encoding="utf-8")
        return [
            str(self.home / "bin" / "node"), str(self.home / "node_modules" / ".bin" / "promptfoo"),
            "eval", "--config", str(config), "--max-concurrency", str(in_flight), "--no-cache", "--no-table",
            "--no-progress-bar", "--output", str(folder / "results.json"),
        ]  # fmt: skip

    def outcome(self, folder: Path) -> Outcome:
        return promptfoo_outcome(json.loads((folder / "results.json").read_bytes()))


class InspectAi(Tool):
    """inspect_ai, with its log in the default format."""

    name = environment = "inspect_ai"
    version_command = ("bin/inspect", "--version")

    def variables(self, folder: Path) -> Mapping[str, str]:
        return {"OPENAI_API_KEY": "none"}

    def command(self, prompts: Prompts, url: str, in_flight: int, folder: Path) -> list[str]:
        return [
            str(self.home / "bin" / "inspect"), "eval", "bench/peers/inspect_task.py",
            "-T", f"file={prompts.file}", "--model", f"openai/{MODEL}", "--model-base-url", url,
            "-M", "responses_api=false", "--temperature", "0", "--max-tokens", str(MAX_TOKENS),
            "--max-connections", str(in_flight), "--display", "none", "--log-dir", str(folder / "logs"),
        ]  # fmt: skip

    def outcome(self, folder: Path) -> Outcome:
        [log] = (folder / "logs").glob("*.eval")
        dump = [str(self.home / "bin" / "inspect"), "log", "dump", "--header-only", str(log)]
        done = subprocess.run(dump, capture_output=True, check=True)
        return inspect_outcome(json.loads(done.stdout))


class LmEval(Tool):
    """lm-evaluation-harness."""

    name = "lm-evaluation-harness"
    environment = "lm_eval"
    version_command = (
        "bin/python",
        "-c",
        "from importlib.metadata import version; print(version('lm_eval'))",
    )

    def variables(self, folder: Path) -> Mapping[str, str]:
        return {"OPENAI_API_KEY": "none", "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}

    def command(self, prompts: Prompts, url: str, in_flight: int, folder: Path) -> list[str]:
        (folder / "tasks").mkdir()
        # YAML reads JSON.
        (folder / "tasks" / "prompts.yaml").write_text(
            json.dumps(lm_eval_task(prompts.file)), encoding="utf-8"
        )
        model = (
            f"model={MODEL},base_url={url}/chat/completions,num_concurrent={in_flight},tokenizer_backend=None"
        )
        return [
            str(self.home / "bin" / "lm_eval"), "run", "--model", "local-chat-completions", "--model_args", model,
            "--tasks", "prompts", "--include_path", str(folder / "tasks"), "--apply_chat_template",
            "--log_samples", "--output_path", str(folder / "results"),
        ]  # fmt: skip

    def outcome(self, folder: Path) -> Outcome:
        [file] = (folder / "results").rglob("results_*.json")
        return lm_eval_outcome(json.loads(file.read_bytes()))


def promptfoo_config(rows: Sequence[Mapping[str, str]], url: str) -> dict[str, Any]:
    """Return promptfoo's configuration: one test per prompt, whose reply must equal the target."""
    provider = {"apiBaseUrl": url, "temperature": 0, "max_tokens": MAX_TOKENS}
    return {
        "prompts": ["{{prompt}}"],
        "providers": [{"id": f"openai:chat:{MODEL}", "config": provider}],
        "defaultTest": {"assert": [{"type": "equals", "value": "{{target}}"}]},
        "tests": [{"vars": {"prompt": row["prompt"], "target": row["target"]}} for row in rows],
    }


def promptfoo_outcome(results: Mapping[str, Any]) -> Outcome:
    """Return the counts in promptfoo's results."""
    stats = results["results"]["stats"]
    return Outcome(stats["successes"] + stats["failures"], stats["successes"])


def inspect_outcome(header: Mapping[str, Any]) -> Outcome:
    """Return the counts in the header of inspect_ai's log."""
    results = header["results"]
    [score] = results["scores"]
    replies = score["scored_samples"]
    return Outcome(replies, round(score["metrics"]["accuracy"]["value"] * replies))


def lm_eval_task(file: Path) -> dict[str, Any]:
    """Return the task of lm-evaluation-harness for a file of prompts."""
    return {
        "task": "prompts",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(file)}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{target}}",
        "generation_kwargs": {"until": [], "max_gen_toks": MAX_TOKENS, "temperature": 0},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }


def lm_eval_outcome(results: Mapping[str, Any]) -> Outcome:
    """Return the counts in the results of lm-evaluation-harness."""
    replies = results["n-samples"]["prompts"]["effective"]
    return Outcome(replies, round(results["results"]["prompts"]["exact_match,none"] * replies))


TOOLS: Sequence[Tool] = (
    Ours("suites/test_htest.py", "-n", "0"),
    Ours("suites/", "-k", "htest", "-n", "8"),
    Promptfoo(),
    InspectAi(),
    LmEval(),
)
