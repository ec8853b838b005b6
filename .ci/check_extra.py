"""Check that one extra suffices for what it serves: ``python .ci/check_extra.py EXTRA``.

Run it in an environment that has this package with this extra and nothing more.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

LLMPROPS = ("-m", "pytest_llmprops.cli.main")
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--llm-cache", "off")
SUITE = "pytest_llmprops.suites.test_"
ECHO = ("--model", "fake:echo", "--llm-limit", "1", "--llm-run", "run")
ALIGN = """
from nltk.corpus.reader.wordnet import WordNetCorpusReader
from pytest_llmprops.benchmarks.dtails.tools.alignment import Encoder, align
encoder, model = Encoder.load("--aligner", "minilm")
assert len(list(align(encoder, [["the", "cat"]], [["the", "cat"]])))
"""
SEARCH = """
from hypothesis import given
from pytest_llmprops.fixtures.strategies import replacements
given(replacements(3))(lambda vectors: None)()
"""
POSTGRES = """
from pytest_llmprops.core.errors import StoreError
from pytest_llmprops.engine.store.location import open_store
try:
    open_store("postgresql:///llmprops?host=/nowhere")
except StoreError as error:
    assert "/nowhere" in str(error), error
else:
    raise AssertionError("no server is there")
"""
SEGMENTED = """
from transformers import BertConfig, BertModel, BertTokenizer
open('words.utf8', 'w', encoding='utf-8').write('今天  天气  好  。\\n' * 40)
tokens = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *'今天气好。']
BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}).save_pretrained('base')
sizes = {'hidden_size': 8, 'intermediate_size': 8, 'num_hidden_layers': 1, 'num_attention_heads': 1}
BertModel(BertConfig(vocab_size=len(tokens), **sizes)).save_pretrained('base')
from pathlib import Path
from pytest_llmprops.benchmarks.eras.tools.training import train_segmenter
from pytest_llmprops.training.task import Settings
Path('gold.utf8').write_text('天气  今天  好  。\\n', encoding='utf-8')
train_segmenter(Path('words.utf8'), Path('gold.utf8'), 'base', Settings(epochs=1), Path('trained'))
"""
VIEW = """
import subprocess, sys, urllib.request
command = [sys.executable, "-m", "pytest_llmprops.cli.main", "view", "--no-browser"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
    address = server.stdout.readline().split()[2]
    assert b"llmprops" in urllib.request.urlopen(address).read()
    server.terminate()
"""
#: extra -> arguments of Python, run one after the other in an empty folder. A name of a module is imported.
CHECKS: dict[str, list[tuple[str, ...]]] = {
    "local": [
        (
            *PYTEST, "--pyargs", f"{SUITE}htest", "--model", "smollm2", "--llm-limit", "1", "-k", "rhyme", "--llm-set",
            "htest.k=4",
        ),
    ],
    "hf": [
        ("-c", "import accelerate, sacremoses, sentencepiece"),
        ("-c", "from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline; import torch"),
    ],
    "litellm": [("-c", "from pytest_llmprops.models.api.litellm import load_litellm; load_litellm().acompletion")],
    "zh": [
        (*LLMPROPS, "lab", "homophones", "generate", "--lang", "zh", "--n", "2", "--out", "new"),
        (*PYTEST, "--pyargs", f"{SUITE}eras", "--model", "jieba", "--llm-limit", "1", "-k", "explicit"),
        ("-c", "import chinese_converter, spacy_pkuseg"),
    ],
    "oracle": [
        (*PYTEST, "--pyargs", f"{SUITE}oracle", *ECHO, "-k", "pair"),
        ("-c", "import spacy, stanza; spacy.blank('en')('Two words.')"),
        ("-c", SEARCH),
    ],
    "report": [
        (*PYTEST, "--pyargs", f"{SUITE}htest", *ECHO, "-k", "rhyme", "--alluredir", "results"),
        ("-c", "import os; assert os.listdir('results')"),
        (*LLMPROPS, "report", "run", "--out", "report"),
        (*LLMPROPS, "site", ".", "--out", "site"),
        (*LLMPROPS, "runs", "export", "run", "--parquet", "run.parquet"),
        ("-c", VIEW),
    ],
    "postgres": [("-c", POSTGRES)],
    "ray": [("-c", "import grpc, ray; ray.remote; ray.init")],
    "research": [
        (*LLMPROPS, "lab", "htest", "generate", "--task", "rhyme", "--n", "2", "--out", "new"),
        ("-c", ALIGN),
        ("-c", "import stanza, spacy; spacy.blank('en')('Two words.')"),
        ("-c", SEGMENTED),
        ("-c", "import peft"),
    ],
    "all": [("-c", "import hypothesis, jinja2, litellm, torch")],
}  # fmt: skip


def check(extra: str) -> None:
    """Run the commands of an extra in an empty folder.

    :raises SystemExit: if one fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        for arguments in CHECKS[extra]:
            command = [sys.executable, *arguments]
            # A wrong answer of a small model is a failed test.
            expected = (0, 1) if arguments[:2] == PYTEST[:2] else (0,)
            if subprocess.run(command, cwd=Path(folder), check=False).returncode not in expected:
                sys.exit(f"extra {extra}: this command fails: {' '.join(command)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extra", choices=sorted(CHECKS))
    check(parser.parse_args().extra)
