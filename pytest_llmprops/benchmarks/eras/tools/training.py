"""``llmprops lab eras train``: word segmenters (section 3.1), sentiment classifiers (section 4.1), and tables of them.

Importing this module imports torch and transformers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers.modeling_outputs import TokenClassifierOutput

from pytest_llmprops.benchmarks.eras.implicit import Score
from pytest_llmprops.benchmarks.eras.items import EXPLICIT, IMPLICIT
from pytest_llmprops.benchmarks.eras.tools.corpora import (
    Accuracy,
    Review,
    ReviewFile,
    Words,
    accuracy,
    read_segmented,
    review_files,
)
from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.requests import Reply, Segment, Sentiment
from pytest_llmprops.core.segmentation import score
from pytest_llmprops.core.texts import fold_width
from pytest_llmprops.data.whole_files import write_text
from pytest_llmprops.models.base import CallOptions, Model
from pytest_llmprops.models.hf.classifiers import HfSegmentModel, HfSentimentModel
from pytest_llmprops.models.hf.encoder import CharacterTokens
from pytest_llmprops.models.registry import find_backend, parse_spec
from pytest_llmprops.training.run import RECORD, begin, run_training, train_and_measure, write_record
from pytest_llmprops.training.task import IGNORED, CardFacts, DataFile, Row, Settings, token_tensors

T = TypeVar("T")

LABELS = ("B", "M", "E", "S")
_B, _M, _E, _S = range(4)
CLASSES = ("negative", "positive")
#: Sources of rows in joint training.
_SENTIMENT, _SEGMENTATION = 0, 1
#: Marks after which a long line is divided.
_MARKS = "。！？!?；;，、,：:）)》」』”"
#: Share and maximum number of held-out lines or reviews. With more, evaluations take longer than the training.
_HELD_OUT, _MOST_HELD_OUT = 0.05, 2000
#: Maximum number of tokens of a segmented line and of a review.
LINE_WINDOW, REVIEW_WINDOW = 256, 512
#: Texts per batch of an evaluation.
_BATCH = 64
_DROPOUT = 0.1
_USE = "pytest --pyargs pytest_llmprops.suites.test_eras --model hf:{out}"
_OPTIMIZER = "optimizer (AdamW), learning rate, batch, epochs, warm-up, weight decay, clipping: see Settings"


def sentence(words: Words) -> str:
    """Return the text of a line as lines are compared: without spaces, full-width digits and letters folded."""
    return fold_width("".join(words))


def character_labels(words: Words) -> list[int]:
    """Return the index in :data:`LABELS` of the label of each character."""
    labels: list[int] = []
    for word in words:
        labels += [_S] if len(word) == 1 else [_B, *[_M] * (len(word) - 2), _E]
    return labels


def fitting(text: str, characters: CharacterTokens, *, window: int) -> Iterator[str]:
    """Divide a text into parts of at most ``window`` tokens with the special ones, if possible after punctuation."""
    start = 0
    while start < len(text):
        # A character that alone is longer than a row is a part of its own.
        end, room = start + 1, window - characters.specials - len(characters.of_character(text[start]))
        while end < len(text) and (room := room - len(characters.of_character(text[end]))) >= 0:
            end += 1
        if end < len(text):
            end = max(text.rfind(mark, start, end) for mark in _MARKS) + 1 or end
        yield text[start:end]
        start = end


def labelled_rows(
    lines: Sequence[Words], characters: CharacterTokens, *, window: int, source: int = 0
) -> list[Row]:
    """Return the rows of segmented lines; the first token of each character has its label, other tokens have none.

    :param window: maximum number of tokens of a row, with special tokens. Longer lines are divided.
    """
    rows: list[Row] = []
    for words in lines:
        labels, start = character_labels(words), 0
        for part in fitting("".join(words), characters, window=window):
            ids, first = characters.row(part)
            aligned = [IGNORED] * len(ids)
            for place, label in zip(first, labels[start : start + len(part)], strict=True):
                aligned[place] = label
            start += len(part)
            rows.append(Row(ids, aligned, source))
    return rows


def held_out(rows: Sequence[T], seed: int) -> tuple[list[T], list[T]]:
    """Return the rows to train on, and those that choose the best checkpoint.

    :raises UsageError: if there are fewer than two rows.
    """
    if len(rows) < 2:
        raise UsageError(f"--data: {len(rows)} lines are left to train on; give more data")
    number = min(_MOST_HELD_OUT, max(1, round(_HELD_OUT * len(rows))))
    chosen = set(random.Random(f"held out {seed}").sample(range(len(rows)), number))
    return [row for i, row in enumerate(rows) if i not in chosen], [rows[i] for i in sorted(chosen)]


class Encoder:
    """The tokenizer and the weights of a pre-trained encoder of transformers.

    :param name: a folder or a repository of the hub.
    :param window: maximum number of tokens of a row; less if the encoder takes fewer.
    :param option: the option that names it, for messages.
    :raises UsageError: if it cannot be loaded.
    """

    def __init__(self, name: str, *, window: int, option: str = "--base ") -> None:
        self.name, self._option = name, option
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        config = self._loaded(transformers.AutoConfig)
        self.tokenizer = self._loaded(transformers.AutoTokenizer)
        positions = int(getattr(config, "max_position_embeddings", 0) or window)
        if "roberta" in str(config.model_type):
            # RoBERTa models count positions from the padding token's index + 1.
            positions -= int(config.pad_token_id or 0) + 1
        self.window = min(window, positions, int(self.tokenizer.model_max_length or window))

    @cached_property
    def characters(self) -> CharacterTokens:
        """The tokens of single characters, as segmenters read them."""
        return CharacterTokens(self.tokenizer, name=f"{self._option}{self.name}", fold=True)

    def _loaded(self, loader: Any, **changes: Any) -> Any:
        try:
            return loader.from_pretrained(self.name, **changes)
        except Exception as error:
            line = " ".join(str(error).split())[:200]
            raise UsageError(
                f"{self._option}{self.name}: cannot be loaded: {line}; give the folder of a downloaded model"
            ) from None

    def network(self, loader: Any, labels: Sequence[str]) -> Any:
        """Return the pre-trained network with a new last layer for these labels."""
        return self._loaded(
            loader, ignore_mismatched_sizes=True, classifier_dropout=_DROPOUT, num_labels=len(labels),
            id2label=dict(enumerate(labels)), label2id={label: i for i, label in enumerate(labels)},
        )  # fmt: skip

    def collate(self, rows: Sequence[Row]) -> Mapping[str, Any]:
        """Return the tensors of some rows."""
        return token_tensors(rows, pad=self.tokenizer.pad_token_id or 0)

    def cut(self, text: str) -> str:
        """Return a text without its end, if it has too many tokens."""
        while (more := len(self.tokenizer(text)["input_ids"]) - self.window) > 0:
            text = text[:-more]
        return text

    def save(self, network: Any, folder: Path) -> None:
        """Write a model for ``hf:FOLDER``."""
        network.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


class SegmenterTask:
    """Training of a word segmenter: labels of characters, from the encoder's last layer through a linear layer.

    :param lines: the lines to train on. :param chosen_by: the lines that choose the best checkpoint.
    """

    metric = "f1"

    def __init__(self, encoder: Encoder, lines: Sequence[Words], chosen_by: Sequence[Words]) -> None:
        self._encoder, self._chosen_by = encoder, chosen_by
        self.known = frozenset(word for line in lines for word in line)
        self.rows: Sequence[Row] = labelled_rows(lines, encoder.characters, window=encoder.window)
        self.collate, self.save = encoder.collate, encoder.save

    def network(self) -> Any:
        network = self._encoder.network(transformers.AutoModelForTokenClassification, LABELS)
        network.config.fold_width = True
        return network

    def evaluate(self, network: Any) -> Mapping[str, float]:
        """Return the scores on the held-out lines."""
        model = HfSegmentModel(
            lambda: (network, self._encoder.tokenizer), letters="".join(LABELS), name="the trained network",
            identity={}, pinned=False, batch=_BATCH,
        )  # fmt: skip
        return score_lines(model, self._chosen_by, known=self.known)


def segmented(model: HfSegmentModel, texts: Sequence[str]) -> list[list[str]]:
    """Return the words of each text. Texts that are too long for the model are divided.

    :raises BackendError: if the model fails on a text.
    """
    model.prepare()
    pieces = [list(fitting(text, model.characters, window=model.longest)) for text in texts]
    replies = _answered(model.segment([Segment(piece) for line in pieces for piece in line]))
    return [[word for _ in line for word in next(replies).value] for line in pieces]


def _answered(results: Iterable[Reply | BackendError]) -> Iterator[Reply]:
    """Yield the replies of a model.

    :raises BackendError: if the model fails on a text.
    """
    for result in results:
        if isinstance(result, BackendError):
            raise result
        yield result


def score_lines(model: HfSegmentModel, gold: Sequence[Words], *, known: Collection[str]) -> dict[str, float]:
    """Return a model's scores on segmented lines.

    :param known: the words of the training data, for the recall of all other words.
    """
    total = score(gold, segmented(model, ["".join(words) for words in gold]), known=known)
    names = ("f1", "precision", "recall", "oov_recall")
    return {name: value for name in names if (value := getattr(total, name)) is not None}


class JointNetwork(nn.Module):
    """A sentiment classifier whose encoder also has a head that labels tokens (section 4.1).

    The labels of a batch say which head it trains: one label per text, or one per token.

    :param classifier: a sequence classifier of transformers.
    """

    def __init__(self, classifier: Any) -> None:
        super().__init__()
        self.classifier, self.config = classifier, classifier.config
        self.dropout = nn.Dropout(_DROPOUT)
        self.segmentation = nn.Linear(classifier.config.hidden_size, len(LABELS))
        nn.init.normal_(self.segmentation.weight, std=float(getattr(self.config, "initializer_range", 0.02)))
        nn.init.zeros_(self.segmentation.bias)

    @property
    def device(self) -> torch.device:
        return self.segmentation.weight.device

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None, **loss_options: Any
    ) -> Any:
        """Return the output of the head that ``labels`` are for; without labels, that of the sentiment head."""
        if labels is None or labels.ndim == 1:
            return self.classifier(
                input_ids=input_ids, attention_mask=attention_mask, labels=labels, **loss_options
            )
        states = self.classifier.base_model(input_ids=input_ids, attention_mask=attention_mask)[0]
        logits = self.segmentation(self.dropout(states))
        # With accumulation, the mean is over the tokens of all parts of a batch.
        items = loss_options.get("num_items_in_batch")
        reduction = "mean" if items is None else "sum"
        loss = cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction=reduction
        )
        return TokenClassifierOutput(loss=loss / (1 if items is None else items), logits=logits)


class SentimentTask:
    """Training of a binary classifier on reviews. A review of more tokens than the window is cut at its end.

    With segmented lines, the encoder also learns to segment. A batch of lines follows each batch of reviews, and an
    epoch is one pass over the reviews.

    :param chosen_by: the reviews whose accuracy chooses the best checkpoint.
    :param lines: segmented lines; none for sentiment only.
    """

    metric = "accuracy"

    def __init__(
        self,
        encoder: Encoder,
        reviews: Sequence[Review],
        chosen_by: Sequence[Review],
        lines: Sequence[Words] = (),
    ) -> None:
        self._encoder, self._chosen_by = encoder, chosen_by
        self._is_joint = bool(lines)
        self.collate = encoder.collate
        self.rows: list[Row] = [
            Row(ids, [int(review.positive)], _SENTIMENT)
            for ids, review in zip(self._ids(reviews), reviews, strict=True)
        ]
        self.rows += labelled_rows(
            lines, encoder.characters, window=min(encoder.window, LINE_WINDOW), source=_SEGMENTATION
        )

    def _ids(self, reviews: Sequence[Review]) -> list[list[int]]:
        texts = [review.text for review in reviews]
        rows = self._encoder.tokenizer(texts, truncation=True, max_length=self._encoder.window)
        return list(rows["input_ids"])

    def network(self) -> Any:
        """Return the base with a new classifier, and with a second head for joint training."""
        classifier = self._encoder.network(transformers.AutoModelForSequenceClassification, CLASSES)
        return JointNetwork(classifier) if self._is_joint else classifier

    def evaluate(self, network: Any) -> Mapping[str, float]:
        """Return the accuracy on the held-out reviews."""
        classifier = network.classifier if self._is_joint else network
        model = HfSentimentModel(
            lambda: (classifier, self._encoder.tokenizer), positive=1, name="the trained network", identity={},
            pinned=False, batch=_BATCH,
        )  # fmt: skip
        return {"accuracy": self.accuracy(model, self._chosen_by).value}

    def accuracy(self, model: HfSentimentModel, reviews: Sequence[Review]) -> Accuracy:
        """Return a model's accuracy on reviews.

        :raises BackendError: if the model fails on a review.
        """
        replies = model.sentiment([Sentiment(self._encoder.cut(review.text)) for review in reviews])
        return accuracy(list(zip(reviews, map(Score.of, _answered(replies)), strict=True)))

    def save(self, network: Any, folder: Path) -> None:
        """Write the sentiment classifier for ``hf:FOLDER``; the head for segmentation is not written."""
        self._encoder.save(network.classifier if self._is_joint else network, folder)


def _trained(folder: Path, kind: str) -> Model:
    """Return the model of a folder as ``--model hf:FOLDER`` loads it."""
    spec = parse_spec(f"hf:{folder}?kind={kind}&batch={_BATCH}")
    return find_backend(spec.backend).factory(spec, CallOptions())


def train_segmenter(data: Path, test: Path, base: str, settings: Settings, out: Path) -> None:
    """Train a word segmenter into the folder ``out``, or continue there.

    :param data: a segmented file. :param base: a folder or repository of a pre-trained encoder.
    :param test: a segmented gold file to score. Its lines are left out of the training data.
    :raises DataError: if a file cannot be used. :raises UsageError: if an option cannot be used.
    """
    corpus, gold = read_segmented(data), read_segmented(test)
    encoder = Encoder(base, window=LINE_WINDOW)
    tested = set(map(sentence, gold.lines))
    kept = [line for line in corpus.lines if sentence(line) not in tested]
    training, chosen_by = held_out(kept, settings.seed)
    task = SegmenterTask(encoder, training, chosen_by)
    dropped = len(corpus.lines) - len(kept)

    def scored(folder: Path) -> Sequence[Mapping[str, object]]:
        model = _trained(folder, "segment")
        assert isinstance(model, HfSegmentModel)
        scores = score_lines(model, gold.lines, known=task.known)
        print(f"{gold.name}: F1 {scores['f1']:.4f}")
        return [{"file": gold.name, **scores}]

    facts = CardFacts(
        benchmark="eras",
        language="zh",
        title=f"Word segmenter trained on {corpus.name}",
        base=base,
        use=[_USE.format(out=out)],
        files=[corpus.as_file("training"), gold.as_file("test")],
        lines=len(training),
        assumed=[
            _OPTIMIZER,
            "labels B, M, E, S (the authors' code has three labels)",
            "full-width digits and letters are read as ASCII, in training and in use",
            f"lines of more than {encoder.window} tokens are divided after punctuation",
            "training lines that are also lines of the test file are left out",
            "each character gets its most probable label; no search over sequences of labels",
        ],
        notes=[
            f"{len(chosen_by):,} training lines are held out, chosen with the seed",
            f"{dropped:,} training lines are left out: they are lines of the test file",
        ],
        options={"window": encoder.window},
    )
    run_training(task, settings, out, facts, score=scored)


def train_sentiment(data: Path, cws: Path | None, base: str, settings: Settings, out: Path) -> None:
    """Train a sentiment classifier into the folder ``out``, or continue there.

    :param data: a folder with reviews (:func:`~pytest_llmprops.benchmarks.eras.tools.corpora.review_files`).
    :param cws: segmented file for joint training with word segmentation; None without.
    :param base: a folder or repository of a pre-trained encoder.
    :raises DataError: if a file cannot be used. :raises UsageError: if an option cannot be used.
    """
    parts = review_files(data)
    encoder = Encoder(base, window=REVIEW_WINDOW)
    corpora = [] if cws is None else [read_segmented(cws)]
    lines = [line for corpus in corpora for line in corpus.lines]
    training, chosen_by = _training_reviews(data, parts, settings.seed)
    task = SentimentTask(encoder, training, chosen_by, lines)

    def scored(folder: Path) -> Sequence[Mapping[str, object]]:
        model = _trained(folder, "sentiment")
        assert isinstance(model, HfSentimentModel)
        rows = []
        for test in parts["test"]:
            result = task.accuracy(model, test.reviews)
            limits = {"ci_low": result.low, "ci_high": result.high}
            rows.append({"file": test.name, "accuracy": result.value, **limits, "n": result.n})
            print(f"{test.name}: accuracy {result.value:.4f} [{result.low:.4f}, {result.high:.4f}]")
        return rows

    names = ", ".join(file.name for file in parts["training"])
    joint = [f"jointly with word segmentation on {corpus.name}" for corpus in corpora]
    files = [DataFile(part, f.name, f.sha256, len(f.reviews)) for part, some in parts.items() for f in some]
    facts = CardFacts(
        benchmark="eras",
        language="zh",
        title=", ".join((f"Sentiment classifier trained on {names}", *joint)),
        base=base,
        use=[_USE.format(out=out)],
        files=[*files, *(corpus.as_file("segmentation") for corpus in corpora)],
        lines=len(training) + len(lines),
        assumed=[
            "which reviews the paper's models are trained on: here, those of all training files together",
            _OPTIMIZER,
            f"a pooled first token, dropout of {_DROPOUT} and a linear layer with two outputs",
            f"reviews of more than {encoder.window} tokens are cut at their end",
            "ASAP: 4 and 5 stars are positive, 1 and 2 negative, 3 are left out",
            "training reviews that are also test reviews are left out",
            *(
                "joint training: a batch of reviews and one of segmented lines in turn; an epoch is one of the reviews;"
                " both losses count the same"
                for _ in joint
            ),
        ],
        notes=[f"{len(chosen_by):,} reviews are held out, chosen with the seed"],
        options={"window": encoder.window},
    )
    run_training(task, settings, out, facts, score=scored)


def _training_reviews(
    data: Path, parts: Mapping[str, Sequence[ReviewFile]], seed: int
) -> tuple[Sequence[Review], Sequence[Review]]:
    """Return the reviews to train on, and those that choose the best checkpoint; test reviews are in neither.

    :raises UsageError: if there are no training reviews of both labels.
    """
    tested = {review.text for file in parts["test"] for review in file.reviews}
    training, chosen_by = (
        [review for file in parts[part] for review in file.reviews if review.text not in tested]
        for part in ("training", "held out")
    )
    if chosen_by:
        texts = {review.text for review in chosen_by}
        training = [review for review in training if review.text not in texts]
        number = min(len(chosen_by), _MOST_HELD_OUT)
        chosen_by = random.Random(f"held out {seed}").sample(chosen_by, number)
    elif training:
        training, chosen_by = held_out(training, seed)
    if {review.positive for review in training} != {True, False}:
        raise UsageError(
            f"--data {data}: needs positive and negative reviews in files with train in their names (.csv, .tsv)"
        )
    return training, chosen_by


#: A training that takes the settings and the folder to write.
Training = Callable[[Settings, Path], None]
#: The models that the paper trains, by the table and their name in it, with the script of the measured sentences.
TABLES: Mapping[int, Mapping[str, str]] = {
    1: {
        "AS (hant)": "chinese-converter",
        "CityU (yue)": "chinese-converter",
        "PKU": "simplified",
        "MSR": "simplified",
    },
    2: dict.fromkeys(("Sentiment Only", "WWM", "CWS", "WWM+CWS"), "simplified"),
}


def slug(name: str) -> str:
    """Return a model's name in folder names and in ``--only``, such as ``wwm-cws``."""
    return name.partition(" (")[0].casefold().replace(" ", "-").replace("+", "-")


@dataclass(frozen=True, slots=True)
class TableOptions:
    """A table of the paper to measure again with models that are trained here.

    :param table: 1 (word segmentation) or 2 (sentiment).
    :param data: a folder with the files of SIGHAN 2005, and for table 2 of ASAP and ChnSentiCorp, at any depth.
    :param wwm_base: base of the models with whole-word masking. :param seeds: number of trainings of each model.
    :param only: names of models (:func:`slug`); empty for all.
    :param source: ``published`` or ``builtin`` ERAS items. :param limit: pairs per paradigm; None for all.
    """

    table: int
    data: Path
    base: str
    wwm_base: str
    seeds: int = 3
    only: Sequence[str] = ()
    source: str = "published"
    limit: int | None = None

    def trainings(self) -> dict[str, Training]:
        """Return the training of each chosen model, by its name.

        :raises UsageError: if ``only`` has an unknown name, or a file is missing.
        """
        known = {slug(name): name for name in TABLES[self.table]}
        if unknown := [name for name in self.only if name not in known]:
            raise UsageError(f"--only {unknown[0]}: unknown; give some of {', '.join(known)}")
        return {
            known[name]: self._training(known[name], name) for name in known if name in (self.only or known)
        }

    def _training(self, name: str, short: str) -> Training:
        if self.table == 1:
            # The AS file is named as_testing_gold.utf8.
            gold = self._file(f"{short}_test_gold.utf8", f"{short}_testing_gold.utf8")
            return partial(train_segmenter, self._file(f"{short}_training.utf8"), gold, self.base)
        cws = self._file("msr_training.utf8") if "CWS" in name else None
        return partial(train_sentiment, self.data, cws, self.wwm_base if "WWM" in name else self.base)

    def _file(self, *names: str) -> Path:
        files = [file for name in names for file in sorted(self.data.rglob(name))]
        if not files:
            raise UsageError(
                f"--data {self.data}: no {' or '.join(names)} in this folder or below it; add it, or use --only"
            )
        return files[0]

    def arguments(self, name: str) -> list[str]:
        """Return the arguments of pytest that measure a model."""
        words = ["-k", EXPLICIT if self.table == 1 else IMPLICIT, "--llm-protocol", "paper"]
        words += ["--llm-set", f"eras.script={TABLES[self.table][name]}", "-o", f"llm_source={self.source}"]
        return words if self.limit is None else [*words, "--llm-limit", str(self.limit)]


class Measured(NamedTuple):
    """A model that was trained and measured: its name, the seed, and the folders of the model and of its run."""

    name: str
    seed: int
    model: Path
    run: Path

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """The scores on each test file, as the training recorded them."""
        rows = json.loads((self.model / RECORD).read_text(encoding="utf-8"))["scores"]
        return {row.pop("file"): row for row in rows if row["file"] != "held-out part"}


def run_table(options: TableOptions, settings: Settings, out: Path) -> list[Measured]:
    """Train and measure the models of a table, or go on where an earlier command was stopped.

    ``out`` gets ``models/`` and ``runs/``. A run of table 2 also gets the accuracies on the test files, for the report.

    :raises UsageError: if an option cannot be used, or the folder has another experiment.
    """
    if options.seeds < 1:
        raise UsageError(f"--seeds must be at least 1, not {options.seeds}")
    trainings = options.trainings()
    chosen = {**asdict(options), "data": str(options.data), "only": list(options.only)}
    description = {**chosen, "settings": asdict(settings)}
    begin(out, description)
    measured: list[Measured] = []
    for name, train in trainings.items():
        for seed in range(settings.seed, settings.seed + options.seeds):
            place = f"{slug(name)}-seed{seed}"
            run = train_and_measure(
                out, place, "eras", options.arguments(name), train=partial(train, replace(settings, seed=seed)),
                spec="hf:{}".format,
            )  # fmt: skip
            measured.append(Measured(name, seed, out / "models" / place, run))
            _write_accuracies(measured[-1])
    write_record(out, description, complete=True)
    return measured


def _write_accuracies(measured: Measured) -> None:
    """Write the accuracies on reviews as ``llmprops lab eras sentiment-accuracy`` does."""
    label = parse_spec(f"hf:{measured.model.resolve()}").label
    rows = [{"model": label, "file": file, **row} for file, row in measured.scores.items() if "n" in row]
    if rows:
        text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
        write_text(measured.run / "sentiment_accuracy.json", text)
