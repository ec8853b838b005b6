"""``llmprops lab htest train``: fine-tune a language model on each task, and measure all tasks before and after.

Lee & Lim, section 5, analysis 1, and appendix F: 1,000 items of a task, three epochs, and all ten tasks with 50
examples before and after (Table 8, Figure 6). The paper trains gpt-3.5-turbo-0613 on OpenAI's platform. This module
trains an adapter (LoRA, Hu et al. 2021) of a local model.
"""

from __future__ import annotations

import hashlib
import importlib
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_llmprops.benchmarks.htest.benchmark import continuation
from pytest_llmprops.benchmarks.htest.items import LABELS
from pytest_llmprops.benchmarks.htest.tools.generation import known_tasks, train_prompt, training_rows
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Chat, Completion
from pytest_llmprops.core.strict_json import JSON
from pytest_llmprops.models.base import CallOptions, kinds_of
from pytest_llmprops.models.hf import backend as hf
from pytest_llmprops.models.hf.chat import HfCausalModel
from pytest_llmprops.models.registry import parse_spec
from pytest_llmprops.models.sampling import common_prefix
from pytest_llmprops.models.spec import ModelSpec
from pytest_llmprops.training.run import begin, run_training, train_and_measure, write_record
from pytest_llmprops.training.task import (
    IGNORED,
    CardFacts,
    DataFile,
    Row,
    Settings,
    require_packages,
    token_tensors,
)

#: Number of further items that are scored after each epoch. They choose nothing.
HELD_OUT = 100
#: The settings that differ from those of all trainings. The paper states the epochs; the others are assumed.
DEFAULTS = Settings(batch=8, learning_rate=2e-4, evaluations=3, patience=0, keeps_best=False)
#: Dropout of the adapter in training.
_DROPOUT = 0.05
#: Rows per batch of an evaluation.
_BATCH = 8
#: Parameters of a specification that change neither the training nor the adapter.
_PARAMETERS = ("batch", "dtype", "kind", "revision")
ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class FineTuning:
    """What is trained and measured.

    :param model: Specification of the base, ``hf:FOLDER_OR_REPO``.
    :param tasks: The tasks to train on, one model for each; all ten if none is named.
    :param seeds: Number of trainings on each task. A seed changes the items as well as the training.
    :param items: Training items of a task, half of them A.
    :param rank: Rank of the adapter's matrices.
    :param exclude: Texts that no training item may have, besides those of the built-in items.
    :param data: Folder with published data to measure; empty for the built-in items.
    :param limit: Measured items of a task; None for all.
    :param k: Number of examples in the prompts that measure.
    """

    model: str
    tasks: Sequence[str] = ()
    seeds: int = 1
    items: int = 1000
    rank: int = 16
    exclude: Collection[str] = ()
    data: str = ""
    limit: int | None = None
    k: int = 50

    @property
    def arguments(self) -> list[str]:
        """The arguments of pytest that choose the items and settings of the measurements."""
        words = ["--llm-protocol", "paper", "--llm-set", f"htest.k={self.k}", "-k", "not letter_geometry"]
        words += ["--llm-data", self.data] if self.data else ["-o", "llm_source=builtin"]
        return words if self.limit is None else [*words, "--llm-limit", str(self.limit)]


def base_of(model: str) -> ModelSpec:
    """Return the specification of the base, with the absolute path of a folder.

    :raises UsageError: If it is not a model of transformers, or has a parameter that trainings do not support.
    """
    spec = parse_spec(model)
    if spec.backend != "hf":
        raise UsageError(
            f"--model {model}: only models of transformers can be trained; give hf:FOLDER_OR_REPO"
        )
    for key in spec.params:
        if key not in _PARAMETERS:
            raise UsageError(
                f"--model {model}: '{key}' is not supported here; a training takes {', '.join(_PARAMETERS)}"
            )
    folder = Path(spec.name).expanduser()
    return replace(spec, name=str(folder.resolve()) if folder.is_dir() else spec.name)


def spec_text(spec: ModelSpec, name: str = "", *without: str) -> str:
    """Return a specification as text, with another name and without some parameters."""
    query = "&".join(f"{key}={value}" for key, value in spec.params.items() if key not in without)
    return f"hf:{name or spec.name}{'?' if query else ''}{query}"


class LabelTask:
    """Training of an adapter on the labels of a task.

    A chat model learns the paper's question without examples and its label, as ``htest generate --chat`` writes it for
    APIs. A base model learns one line with its label. Only the label and the end of the reply are trained on.

    :param rows: Training items. :param held_out: Items that are scored.
    :param rank: Rank of the adapter's matrices, which are added to all linear layers except the last.
    :raises UsageError: If the base cannot be loaded, or does not answer H-TEST's questions.
    """

    metric = "accuracy"

    def __init__(
        self, spec: ModelSpec, rows: Sequence[tuple[str, str]], held_out: Sequence[tuple[str, str]], rank: int
    ) -> None:
        self._source, self._rank = hf.find_source(spec), rank
        model = hf.check(spec, CallOptions())()
        if not isinstance(model, HfCausalModel):
            raise UsageError(f"--model {spec.text}: not a causal language model; give a chat or base model")
        self._model, self._is_chat = model, "chat" in kinds_of(model)
        try:
            model.prepare()
            self.rows = [self._row(text, label) for text, label in rows]
            # Each held-out item with both of its labels, the right one first.
            self._held_out = [
                tuple(self._row(text, option) for option in (label, *(x for x in LABELS if x != label)))
                for text, label in held_out
            ]
        except BackendError as error:
            raise UsageError(f"--model {spec.text}: {error}") from None

    def _row(self, text: str, label: str) -> Row:
        if self._is_chat:
            tokens, start = self._model.example(Chat.user(train_prompt(text)), label)
            tokens = [*tokens, self._model.tokenizer.eos_token_id]
        else:
            tokens, start = self._model.example(Completion(continuation([], text)), f" {label}\n")
        return Row(tokens, [IGNORED] * start + tokens[start:])

    def network(self) -> Any:
        """Return the base with a new adapter."""
        peft: Any = importlib.import_module("peft")
        network, self._model.network, self._model.prefix_cache = self._model.network, None, None
        if network is None:
            network, _ = self._model.load()
        config = peft.LoraConfig(
            task_type="CAUSAL_LM", r=self._rank, lora_alpha=2 * self._rank, lora_dropout=_DROPOUT,
            target_modules="all-linear",
        )  # fmt: skip
        with warnings.catch_warnings():
            # peft 0.21 reads an attribute that transformers 5.24 calls deprecated.
            warnings.simplefilter("ignore", FutureWarning)
            adapted = peft.get_peft_model(network, config)
        config.base_model_name_or_path, config.revision = self._source.path, self._source.commit
        return adapted

    def collate(self, rows: Sequence[Row]) -> Mapping[str, Any]:
        """Return the tensors of some rows."""
        tokenizer = self._model.tokenizer
        return token_tensors(rows, pad=tokenizer.pad_token_id or tokenizer.eos_token_id or 0)

    def evaluate(self, network: Any) -> Mapping[str, float]:
        """Return the share of held-out items whose label is more likely than the other one, without examples."""
        torch: Any = importlib.import_module("torch")
        right = 0
        with torch.inference_mode():
            for start in range(0, len(self._held_out), _BATCH):
                part = self._held_out[start : start + _BATCH]
                inputs = self.collate([row for row, _ in part])
                logits = network(
                    input_ids=inputs["input_ids"].to(network.device),
                    attention_mask=inputs["attention_mask"].to(network.device),
                ).logits
                for values, (row, other) in zip(logits, part, strict=True):
                    place = common_prefix(list(row.ids), list(other.ids))
                    right += bool(values[place - 1, row.ids[place]] > values[place - 1, other.ids[place]])
        return {"accuracy": right / len(self._held_out)}

    def save(self, network: Any, folder: Path) -> None:
        """Write the adapter for ``hf:FOLDER``."""
        # The default looks for the configuration of the base on the hub.
        network.save_pretrained(folder, save_embedding_layers=False)


def train_task(options: FineTuning, task: str, settings: Settings, out: Path) -> None:
    """Train an adapter on one task into a folder, or continue there.

    :raises UsageError: If the base cannot be trained, or there are too few items.
    """
    require_packages("llmprops lab htest train", "peft")
    spec = base_of(options.model)
    rows = training_rows(task, n=options.items, seed=settings.seed, exclude=options.exclude)
    texts = [text for text, _ in rows]
    held_out = training_rows(task, n=HELD_OUT, seed=settings.seed, exclude=[*options.exclude, *texts])
    facts = CardFacts(
        benchmark="htest",
        language="en",
        title=f"{spec.name.rpartition('/')[2]}, fine-tuned on the H-TEST task {task}",
        base=spec.name,
        use=[f"pytest --pyargs pytest_llmprops.suites.test_htest --model hf:{out}"],
        files=[_file("training", task, rows), _file("held out", task, held_out)],
        lines=len(rows),
        assumed=[
            "an adapter (LoRA) instead of a training of all weights on OpenAI's platform",
            f"its rank ({options.rank}), its scale (twice the rank), its dropout ({_DROPOUT}), and all linear layers",
            "optimizer (AdamW), learning rate, batch, warm-up, weight decay, clipping of gradients: see Settings",
            "questions without examples in training; only the label and the end of the reply count in the loss",
            "generated items, none of which is measured",
        ],
        options={
            "task": task,
            "items": options.items,
            "rank": options.rank,
            "revision": spec.params.get("revision"),
        },
        library="peft",
    )
    trained = LabelTask(spec, rows, held_out, options.rank)
    run_training(trained, settings, out, facts, score=lambda folder: [])


def _file(role: str, task: str, rows: Sequence[tuple[str, str]]) -> DataFile:
    digest = hashlib.sha256("".join(f"{label}\t{text}\n" for text, label in rows).encode()).hexdigest()
    return DataFile(role, f"{task}, generated", digest, len(rows))


def run_experiment(options: FineTuning, settings: Settings, out: Path) -> list[Path]:
    """Measure the base, then train and measure a model for each task and seed, or go on after a stop.

    ``out`` gets ``models/`` and ``runs/``; the runs are returned.

    :raises UsageError: If an option cannot be used, or the folder has another experiment.
    """
    tasks = known_tasks(options.tasks)
    for name in ("seeds", "items", "rank"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name} must be at least 1, not {getattr(options, name)}")
    base = base_of(options.model)
    # Too many items must stop the experiment before its first measurement; generating them takes two seconds.
    for task in tasks:
        training_rows(task, n=options.items, seed=settings.seed, exclude=options.exclude)
    require_packages("llmprops lab htest train", "peft")
    chosen = {"model": spec_text(base), "tasks": list(tasks)}
    description: dict[str, JSON] = {**asdict(options), **chosen, **asdict(settings)}
    # Texts of items: too long for a record.
    del description["exclude"]
    begin(out, description)
    runs = [train_and_measure(out, ORIGINAL, "htest", options.arguments, spec=lambda _: spec_text(base))]
    for task in tasks:
        for seed in range(settings.seed, settings.seed + options.seeds):
            runs.append(
                train_and_measure(
                    out, f"{task}-seed{seed}", "htest", options.arguments,
                    train=partial(train_task, options, task, replace(settings, seed=seed)),
                    spec=lambda model: spec_text(base, str(model), "revision"),
                )
            )  # fmt: skip
    write_record(out, description, complete=True)
    return runs
