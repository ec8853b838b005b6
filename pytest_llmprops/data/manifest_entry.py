"""One row of the manifest of published data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One published file.

    :param file: path inside the folder of published data, with ``/``.
    :param repository: ``owner/name`` of the authors' repository.
    :param commit: the pinned commit, 40 hexadecimal digits.
    :param upstream_path: path inside the repository.
    :param bytes: size of the file.
    :param sha256: hash of the file's bytes, 64 hexadecimal digits.
    :param licence: the licence that the repository states.
    """

    file: str
    repository: str
    commit: str
    upstream_path: str
    bytes: int
    sha256: str
    licence: str

    @property
    def benchmark(self) -> str:
        """The benchmark's name, which is the first folder of ``file``."""
        return self.file.partition("/")[0]
