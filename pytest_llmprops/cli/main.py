"""``llmprops``: its commands, and how they fail: one line on standard error, status 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_llmprops.core.errors import LLMPropsError

Command = Callable[[argparse.Namespace], int]


def parser() -> argparse.ArgumentParser:
    """The command line of ``llmprops``."""
    top = argparse.ArgumentParser(
        prog="llmprops",
        description="Data and records of pytest-llmprops. Models are measured by pytest --model.",
    )
    groups = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _data(groups)
    _generate(groups)
    _htest(groups)
    _runs(groups)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    options = parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command(options)
    except (LLMPropsError, ValueError) as error:
        print(f"llmprops: {error}", file=sys.stderr)
    except OSError as error:
        print(f"llmprops: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("llmprops: interrupted", file=sys.stderr)
        return 130
    return 2


def _data(groups: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands = _group(groups, "data", "published data")
    pull = commands.add_parser("pull", help="download the authors' files, checked against the manifest")
    pull.add_argument(
        "files", nargs="*", metavar="FILE", help="file, folder or pattern of the manifest (default: all)"
    )
    pull.add_argument("--dest", type=Path, required=True, metavar="DIR", help="folder to download into")
    pull.add_argument(
        "--base-url", metavar="URL", help="template with {repository}, {commit} and {path}, for a mirror"
    )
    pull.set_defaults(command=_pull)


def _pull(options: argparse.Namespace) -> int:
    from pytest_llmprops.data.pull import BASE_URL, pull

    return pull(options.dest, files=options.files or None, base_url=options.base_url or BASE_URL)


def _generate(groups: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands = _group(groups, "generate", "fresh items, loadable with --llm-source published --llm-data DIR")
    htest = commands.add_parser("htest", help="H-TEST items nobody has trained on")
    _seed_and_number(htest, number=200)
    htest.add_argument("--task", action="append", metavar="TASK", help="only this task; repeatable")
    htest.set_defaults(command=_generate_htest)
    homophones = commands.add_parser("homophones", help="homophone items from sentences")
    _seed_and_number(homophones, number=100)
    homophones.add_argument("--lang", required=True, choices=("en", "es", "zh"))
    homophones.add_argument(
        "--sentences",
        type=Path,
        metavar="FILE",
        help="your own sentences, one a line (default: the built-in ones)",
    )
    homophones.set_defaults(command=_generate_homophones)


def _generate_htest(options: argparse.Namespace) -> int:
    from pytest_llmprops.data.generate_htest import generate_set

    return _wrote(generate_set(options.out, seed=options.seed, n=options.n, tasks=options.task))


def _generate_homophones(options: argparse.Namespace) -> int:
    from pytest_llmprops.data.generate_homophones import write_homophones

    path = write_homophones(
        options.out, options.lang, n=options.n, seed=options.seed, sentences=options.sentences
    )
    return _wrote([path])


def _htest(groups: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands = _group(groups, "htest", "H-TEST")
    train = commands.add_parser(
        "export-train", help="chat fine-tuning files per task, disjoint from the test items"
    )
    _seed_and_number(train, number=1000)
    train.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="also leave out the items of this folder (published or generated)",
    )
    train.set_defaults(command=_export_train)


def _export_train(options: argparse.Namespace) -> int:
    from pytest_llmprops.data.files import DataFolder
    from pytest_llmprops.data.generate_htest import export_train

    exclude: set[str] = set()
    if options.data is not None:
        folder = DataFolder(options.data, "published")
        for path in sorted(Path(options.data, "htest").glob("*.jsonl")):
            rows = folder.jsonl(f"htest/{path.name}", required=("centerpiece",))
            exclude |= {row["centerpiece"] for row in rows}
        if not exclude:
            raise LLMPropsError(f"{options.data}: holds no htest/*.jsonl to leave out")
    return _wrote(export_train(options.out, n=options.n, seed=options.seed, exclude=exclude))


def _runs(groups: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands = _group(groups, "runs", "recorded runs")
    imported = commands.add_parser(
        "import-homophones", help="the Y/N verdicts in the published homophone files, as one run a model"
    )
    imported.add_argument(
        "--data", type=Path, metavar="DIR", help="folder of published data (default: $LLMPROPS_DATA)"
    )
    imported.add_argument(
        "--out",
        type=Path,
        default=Path("reports") / "runs",
        metavar="DIR",
        help="where the runs go (default: reports/runs)",
    )
    imported.set_defaults(command=_import_homophones)


def _import_homophones(options: argparse.Namespace) -> int:
    import os

    from pytest_llmprops.runs.import_homophones import import_homophones

    data = options.data or os.environ.get("LLMPROPS_DATA")
    if not data:
        raise LLMPropsError("give the published data's folder with --data DIR or LLMPROPS_DATA")
    for folder, row in import_homophones(Path(data), options.out):
        print(f"{folder}: {row}")
    return 0


def _group(
    groups: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    return groups.add_parser(name, help=about, description=about).add_subparsers(
        required=True, metavar="COMMAND"
    )


def _seed_and_number(command: argparse.ArgumentParser, *, number: int) -> None:
    command.add_argument("--n", type=int, default=number, metavar="N", help=f"how many (default: {number})")
    command.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of every random choice (default: 0)"
    )
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write into")


def _wrote(paths: Sequence[Path]) -> int:
    for path in paths:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
