"""The folder of a training: its record, its checkpoints, and whether it can be continued."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.strict_json import JSON, parsed_json
from pytest_llmprops.data.whole_files import write_text

#: the file of the folder that says what is trained, and whether the training is complete
RECORD = "training.json"
_STATE = "trainer_state.json"


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


def begin(out: Path, description: Mapping[str, object]) -> bool:
    """Start a training in ``out``, or continue the one that is there; return whether that one is complete.

    :param description: everything that changes the result: settings, data, base.
    :raises UsageError: if ``out`` has other files, or a training with another description.
    """
    try:
        text = (out / RECORD).read_text(encoding="utf-8")
    except FileNotFoundError:
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
        recorded, complete = dict(_named(record["description"])), record["complete"] is True
    except (ValueError, TypeError, KeyError):
        raise UsageError(f"{out / RECORD} is damaged; delete {out} to train again") from None
    # Through JSON, because it turns tuples into lists.
    given = dict(_named(json.loads(json.dumps(dict(description)))))
    if changes := list(_changes(recorded, given)):
        raise UsageError(
            f"--out {out}: the folder was begun with other settings: {'; '.join(changes)}. Repeat the command with the"
            " recorded values to continue, or give a new folder"
        )
    return complete


def _named(value: JSON, name: str = "") -> Iterator[tuple[str, JSON]]:
    """Yield the values of a description by the names that a person knows: of a setting, or of a data file."""
    if isinstance(value, dict):
        for key, part in value.items():
            # The title follows from the data.
            yield from () if key == "title" else _named(part, key.replace("_", "-"))
    elif name == "data" and isinstance(value, list):
        for row in value:
            role, file, digest, *_ = row if isinstance(row, list) and len(row) > 2 else ("", str(row), "")
            yield f"{role} file {file}", f"sha256 {str(digest)[:12]}"
    else:
        yield name, value


def _changes(recorded: Mapping[str, JSON], given: Mapping[str, JSON]) -> Iterator[str]:
    for name in dict.fromkeys([*recorded, *given]):
        if recorded.get(name) != given.get(name):
            yield f"{name}: recorded {_shown(recorded.get(name))}, given {_shown(given.get(name))}"


def _shown(value: JSON) -> str:
    if value is None or value in ("", []):
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


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
