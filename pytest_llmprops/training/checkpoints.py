"""The folder of a training: its record, its checkpoints, and whether it can be continued."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.data.whole_files import write_text

#: the file of the folder that says what is trained, and whether the training is complete
RECORD = "training.json"
_STATE = "trainer_state.json"
#: longer values of a setting are left out of messages
_SHORT = 40


def checkpoint_folder(out: Path) -> Path:
    """Return the folder of the checkpoints of a training in ``out``."""
    return out / "checkpoints"


def last_checkpoint(out: Path) -> Path | None:
    """Return the newest complete checkpoint of a training, and remove incomplete ones; None if there is none.

    A process that was killed may leave an incomplete checkpoint. Its last file is written last.
    """
    complete: dict[int, Path] = {}
    for folder in checkpoint_folder(out).glob("checkpoint-*"):
        try:
            parsed_json((folder / _STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            shutil.rmtree(folder)
            continue
        step = re.search(r"\d+$", folder.name)
        complete[int(step[0]) if step else 0] = folder
    return complete[max(complete)] if complete else None


def begin(out: Path, description: Mapping[str, object], *, is_main: bool = True) -> bool:
    """Start a training in ``out``, or continue the one that is there; return whether that one is complete.

    :param description: everything that changes the result: settings, data, base.
    :param is_main: whether this process writes files; of several processes on several GPUs, only the first one does.
    :raises UsageError: if ``out`` has other files, or a training with another description.
    """
    try:
        text = (out / RECORD).read_text(encoding="utf-8")
    except FileNotFoundError:
        if not is_main:
            return False
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(
                f"--out {out}: there are other files; give a new folder, or that of an unfinished training"
            ) from None
        out.mkdir(parents=True, exist_ok=True)
        write_record(out, description, complete=False)
        return False
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror or error}; give a new folder") from None
    try:
        record = parsed_json(text)
        earlier, complete = record["description"], record["complete"] is True
    except (ValueError, TypeError, KeyError):
        raise UsageError(f"{out / RECORD} is damaged; delete {out} to train again") from None
    # Through JSON, because it turns tuples into lists.
    stated = json.loads(json.dumps(dict(description)))
    changed = [key for key in stated if earlier.get(key) != stated[key]]
    changed += sorted(set(earlier) - set(stated))
    if changed:
        names = "; ".join(_difference(name, earlier.get(name), stated.get(name)) for name in changed)
        raise UsageError(
            f"--out {out}: it has a training with other options ({names}); give a new folder,"
            " or the earlier options to continue it"
        )
    return complete


def _difference(name: str, earlier: object, stated: object) -> str:
    """Return the name of a setting, with both values if they are short."""
    values = (earlier, stated)
    if all(isinstance(value, int | float | str) and len(str(value)) <= _SHORT for value in values):
        return f"{name} {earlier}, not {stated}"
    return name


def write_record(
    out: Path,
    description: Mapping[str, object],
    *,
    complete: bool,
    results: Mapping[str, object] | None = None,
) -> None:
    """Write the record of a training."""
    record = {"complete": complete, "description": dict(description), **(results or {})}
    write_text(out / RECORD, json.dumps(record, ensure_ascii=False, indent=1) + "\n")
