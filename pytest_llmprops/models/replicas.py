"""``?replicas=N&gpus=G&cpus=C``: how many actors of a Ray cluster serve a model, and what each of them reserves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.models.local import whole_number
from pytest_llmprops.models.spec import ModelSpec

PARAMETERS = ("replicas", "gpus", "cpus")


@dataclass(frozen=True, slots=True)
class Replicas:
    """What a specification says about replicas; None: chosen by the cluster.

    :param count: number of replicas. :param gpus: GPUs of each. :param cpus: CPU cores of each.
    """

    count: int | None = None
    gpus: float | None = None
    cpus: float | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Replicas:
        """Return the value from its :func:`dataclasses.asdict` form."""
        return cls(**data)


def split_replicas(spec: ModelSpec) -> tuple[ModelSpec, Replicas | None]:
    """Return the specification without the parameters of replicas, and these; None if there are none.

    The parameters say where a model runs. They change no reply, so they belong neither to its label
    nor to its identity.

    :raises UsageError: if a value is not a number that makes sense.
    """
    if not any(name in spec.params for name in PARAMETERS):
        return spec, None
    gpus = _amount(spec, "gpus", is_zero_allowed=True)
    cpus = _amount(spec, "cpus", is_zero_allowed=False)
    count = whole_number(spec, "replicas", 1, minimum=1) if "replicas" in spec.params else None
    name, _, query = spec.text.partition("?")
    rest = [part for part in query.split("&") if part.partition("=")[0] not in PARAMETERS]
    params = {key: value for key, value in spec.params.items() if key not in PARAMETERS}
    bare = replace(spec, text="?".join([name, "&".join(rest)] if rest else [name]), params=params)
    return bare, Replicas(count, gpus, cpus)


def _amount(spec: ModelSpec, key: str, *, is_zero_allowed: bool) -> float | None:
    value = spec.number(key)
    if value is None:
        return None
    # Ray divides devices, but does not give an actor one and a half of them.
    if value < 0 or (value > 1 and not value.is_integer()) or (value == 0 and not is_zero_allowed):
        least = "0, " if is_zero_allowed else ""
        raise UsageError(
            f"--model {spec.text}: {key} must be {least}a whole number or a part of 1, not {spec.params[key]}"
        )
    return value
