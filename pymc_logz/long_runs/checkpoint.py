"""Checkpoints: what a run has come to, in a folder that is never half written.

Each record is a file in it, of a JSON tree and of arrays. A record is written beside the others and
then renamed, which file systems do at once or not at all, and takes the place of the one before.
Nothing in it is code, or ever unpickled.
"""

import json
import os
import re
import shutil
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from pymc_logz.errors import CheckpointError, warn
from pymc_logz.long_runs.records import SUFFIX, WRITING, read_record, write_record
from pymc_logz.runners.moves_of_rows import Work

FORMAT = {"format": "pymc_logz checkpoint", "layout": 2}
HEADER, LOCK = "checkpoint.json", ".lock"
"""Names of what is no record."""


def check_path(path: Any, name: str = "checkpoint") -> Path:
    """Where a checkpoint is, or is to be, by the argument of this name."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise TypeError(f"{name}={path!r} must be a path, such as 'run.ckpt'")
    return Path(path)


class Keeper:
    """Keeps what a run has come to in a checkpoint, the folder ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._n_named: Counter[str] = Counter()
        # of each chain, the parts of its draws that were written, and those that could not be yet
        self._n_parts: Counter[str] = Counter()
        self._waiting: defaultdict[str, list[Any]] = defaultdict(list)
        self._failed = False
        self.is_complete = True
        """Whether all chains have come to their ends so far."""

    @classmethod
    @contextmanager
    def opened(
        cls, path: Path, identity: Mapping[str, Any], begun: Mapping[str, Any] | None = None
    ) -> Iterator["Keeper"]:
        """The checkpoint of this run, made now if there is none; an error if it is of another run.

        ``identity`` is all that the bits of the run depend on; records of what it is begun with are
        there as soon as it is.
        """
        keeper = cls(path)
        identity = json.loads(json.dumps(identity))
        try:
            if not path.exists():
                keeper._create(identity, begun or {})
            found = header_of(path)
            lock = locked(path)
        except OSError as error:  # which comes before any work: nothing is lost by an end here
            raise CheckpointError(
                f"checkpoint={str(path)!r} cannot be written to ({error}): give a path where there "
                "is room, and that may be written to"
            ) from error
        with lock:
            if differs := list(differences(found["identity"], identity)):
                raise refusal(path, differs)
            for left in path.glob(f"{WRITING}*"):
                left.unlink()
            for folder in path.parent.glob(f"{path.name}{WRITING}*"):
                shutil.rmtree(folder, ignore_errors=True)
            yield keeper

    def _create(self, identity: Mapping[str, Any], begun: Mapping[str, Any]) -> None:
        new = self.path.with_name(f"{self.path.name}{WRITING}{uuid.uuid4().hex}")
        try:
            new.mkdir(parents=True)
            (new / HEADER).write_text(json.dumps({**FORMAT, "identity": identity}))
            for name, record in begun.items():
                write_record(new, name, record)
            os.rename(new, self.path)
        except BaseException as error:
            shutil.rmtree(new, ignore_errors=True)
            if not (isinstance(error, OSError) and self.path.exists()):  # someone else was first
                raise

    def numbered(self, name: str) -> str:
        """The name with a number behind it: how often it has come up in this call."""
        self._n_named[name] += 1
        return f"{name}-{self._n_named[name]}"

    def remember(
        self,
        name: str,
        make: Callable[[], Any],
        rng: np.random.Generator,
        *,
        work: Work,
        prior: Any = None,
    ) -> Any:
        """The record that was made under this name, made now if it was not.

        The generator is put where it was after it; ``work`` counts its evaluations, and ``prior``
        its draws, as if it were made now.
        """
        if (kept := self.read(name)) is not None:
            rng.bit_generator.state = kept["generator"]
            work.recall(kept["work"])
            for count in kept["draws"]:
                setattr(prior, count, kept["draws"][count])
            return kept["made"]
        before, made = work.done, make()
        counts = () if prior is None else ("n_drawn", "n_outside", "n_rounded")
        draws = {count: getattr(prior, count) for count in counts}
        own = {"work": work.done - before, "draws": draws}
        self.write(name, {"made": made, "generator": dict(rng.bit_generator.state), **own})
        return made

    def store_chain(self, name: str, job: Any, part: Any) -> None:
        """Keep where a chain is, and a further part of its draws."""
        waiting = self._waiting[name]
        if part is not None:
            waiting.append(part)
        while waiting:
            if not self.write(f"{name}.part-{self._n_parts[name]:06d}", waiting[0]):
                return
            del waiting[0]
            self._n_parts[name] += 1
        self.write(name, {"job": job, "n_parts": self._n_parts[name]})

    def chain(self, name: str) -> tuple[Any, list[Any]] | None:
        """Where a chain is, and the parts of its draws; None if they cannot be read."""
        self._n_parts[name], self._waiting[name] = 0, []
        if (state := self.read(name)) is None:
            return None
        parts = [self.read(f"{name}.part-{i:06d}") for i in range(state["n_parts"])]
        if any(part is None for part in parts):
            return None
        self._n_parts[name] = len(parts)
        return state["job"], parts

    def write(self, name: str, record: Any) -> bool:
        """Write a record; whether that could be done. If not, the run goes on, and says so."""
        try:
            write_record(self.path, name, record)
        except OSError as error:
            if not self._failed:
                warn(
                    f"checkpoint={str(self.path)!r} cannot be written to ({error}). The run "
                    "continues and tries again; if it is killed before that, it resumes from the "
                    "last record that was written"
                )
            self._failed = True
            return False
        self._failed = False
        return True

    def read(self, name: str) -> Any:
        """A record; None if there is none, or it is damaged."""
        try:
            return read_record(self.path / (name + SUFFIX))
        except FileNotFoundError:
            return None
        except CheckpointError:
            raise
        except Exception as error:  # whatever NumPy makes of damaged files
            warn(
                f"{name!r} in checkpoint={str(self.path)!r} is damaged ({type(error).__name__}: "
                f"{str(error)[:200]}) and is computed again"
            )
            return None


def refusal(path: Path, differs: Sequence[str]) -> CheckpointError:
    """The error of a checkpoint of another run, by what is not the same."""
    return CheckpointError(
        f"checkpoint={str(path)!r} belongs to another run: {'; '.join(differs)}. Use the original "
        "arguments, or another path; to start again, delete it"
    )


def locked(path: Path) -> AbstractContextManager[Any]:
    """A file of a checkpoint that only one run may hold open."""
    try:
        import fcntl
    except ImportError:  # Windows has none
        return nullcontext()
    file = open(path / LOCK, "w")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise CheckpointError(
            f"checkpoint={str(path)!r} is in use by another run: wait until that has ended, or "
            "give another path"
        ) from None
    return file


def begun_with(path: Path, name: str) -> Any:
    """A record of what the run of a checkpoint was begun with."""
    header_of(path)
    record = Keeper(path).read(name)
    if record is None:
        raise CheckpointError(f"checkpoint={str(path)!r} has no undamaged record {name!r}")
    return record


def header_of(path: Path) -> dict[str, Any]:
    """Attributes of a checkpoint; a CheckpointError if there is none at this path."""
    if not path.exists():
        raise CheckpointError(f"there is no checkpoint at {str(path)!r}")
    try:
        found = json.loads((path / HEADER).read_text())
        if found == {**found, **FORMAT}:
            return dict(found)
        what = f"it has format {found['format']!r} and layout {found['layout']!r}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{type(error).__name__}: {error}"
    raise CheckpointError(
        f"{str(path)!r} is not a checkpoint of pymc_logz, or is damaged ({what}). It was not "
        "changed; give another path, or move it away"
    )


def differences(found: Any, wanted: Any, name: str = "") -> Iterator[str]:
    """What is not the same in two nested dicts, in words."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted({*found, *wanted}):
            inner = f"{name} {key!r}" if name else str(key)
            yield from differences(found.get(key), wanted.get(key), inner)
    elif found != wanted:
        if all(re.fullmatch("[0-9a-f]{16}", str(one)) for one in (found, wanted)):  # digests
            yield f"{name} is not the same"
            return
        there, here = ("nothing" if one is None else f"{one!r:.80}" for one in (found, wanted))
        yield f"{name}: {there} there, {here} here"
