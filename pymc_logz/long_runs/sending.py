"""Jobs that go to other processes; what is large in them goes there once, under a name."""

import copy
import io
import pickle
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from pymc_logz.graphs.kept import Kept
from pymc_logz.models.cache import kept_for
from pymc_logz.models.flat import FlatModel
from pymc_logz.models.prior import PriorDraws
from pymc_logz.runners.moves_of_rows import MovesOfRows, Work


class Part:
    """What cloudpickle takes, sent to a process once; parts that it holds travel apart."""

    def __init__(self, thing: Any) -> None:
        self.thing, self.token = thing, uuid.uuid4().hex

    @cached_property
    def pickles(self) -> Mapping[str, bytes]:
        """The part, and those that it needs, which come first."""
        contents, held = pickled(self.thing)
        return {**{k: v for part in held for k, v in part.pickles.items()}, self.token: contents}


def pickled(thing: Any) -> tuple[bytes, list[Part]]:
    """A thing as bytes, and the parts that it holds, which are not in there."""
    import cloudpickle

    held: dict[str, Part] = {}

    class Pickler(cloudpickle.Pickler):
        def persistent_id(self, obj: Any) -> str | None:
            if isinstance(obj, PriorDraws) and obj is not thing:
                obj = _part_of_draws(obj)
            if not isinstance(obj, Part):
                return None
            held[obj.token] = obj
            return obj.token

        def reducer_override(self, obj: Any) -> Any:
            if obj is not thing:
                for kind, reduced in _REDUCED.items():
                    if isinstance(obj, kind):
                        return reduced(obj)
            return super().reducer_override(obj)

    file = io.BytesIO()
    Pickler(file).dump(thing)
    return file.getvalue(), list(held.values())


# -- what is large -------------------------------------------------------------------------------


def _part_of_draws(draws: PriorDraws) -> Part:
    """Draws of a prior, which are compiled anew where they arrive."""
    columns = None if draws.columns is None else tuple(draws.columns.tolist())
    return kept_for(draws.model).get((Part, columns), lambda: Part(copy.copy(draws)))


def _reduced_moves(moves: MovesOfRows) -> tuple[Any, ...]:
    """Moves on a path with values of its own, and draws of the reference where they are needed."""
    path = moves.given_path
    key = (Part, type(moves), *moves.settings, moves.n_rows, moves.most_rows)
    part = path.made_once(key, lambda: Part(_bare(moves)))
    draws = path.sample_reference if moves.draws_reference else no_draws
    return _along, (part, _changed(path.values, part.thing.given_path.values), draws)


def _bare(moves: MovesOfRows) -> MovesOfRows:
    """Moves without what is compiled, and without draws of the reference."""
    bare = copy.copy(moves)
    for compiled in ("compiled", "path"):
        bare.__dict__.pop(compiled, None)
    bare.given_path, bare.work = replace(moves.given_path, sample_reference=no_draws), Work()
    return bare


def _along(
    moves: MovesOfRows, changed: Mapping[int, np.ndarray], draws: Callable[..., np.ndarray]
) -> MovesOfRows:
    values = [changed.get(i, value) for i, value in enumerate(moves.given_path.values)]
    return moves.along(values, sample_reference=draws)


def no_draws(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draws of a reference where there are none to be made."""
    raise NotImplementedError("draws of the reference are made where the run was started")


def _changed(values: Sequence[Any], base: Sequence[Any]) -> dict[int, np.ndarray]:
    """Values of parameters that are not those of another path with the same parameters."""
    pairs = enumerate(zip(values, base, strict=True))
    return {i: new for i, (new, old) in pairs if not _same(new, old)}


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    if one is two:
        return True
    return one.shape == two.shape and one.dtype == two.dtype and one.tobytes() == two.tobytes()


def _reduced_model(flat: FlatModel) -> tuple[Any, ...]:
    """The densities of a model and the values of its data."""
    bare = partial(replace, flat, model=None, observed=None, values=(), summed=None, kept=Kept())
    return _with_values, (flat.kept.get(Part, lambda: Part(bare())), flat.values)


def _with_values(flat: FlatModel, values: tuple[np.ndarray, ...]) -> FlatModel:
    return replace(flat, values=values)


_REDUCED: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    MovesOfRows: _reduced_moves,
    FlatModel: _reduced_model,
}


# -- what arrives --------------------------------------------------------------------------------


class Store:
    """Parts that have arrived in a process; of more than ``most``, the longest unused go."""

    def __init__(self, most: int = 16) -> None:
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self._most, self._lock = most, threading.RLock()

    def take_in(self, pickles: Mapping[str, bytes]) -> None:
        """Unpack what is not there yet."""
        with self._lock:
            for token, contents in pickles.items():
                if token not in self._kept:
                    self._kept[token] = self._unpacked(contents)
            while len(self._kept) > max(self._most, len(pickles)):
                self._kept.popitem(last=False)

    def get(self, token: str) -> Any:
        """A part; None if it is not there."""
        with self._lock:
            if token in self._kept:
                self._kept.move_to_end(token)
            return self._kept.get(token)

    def _unpacked(self, contents: bytes) -> Any:
        store = self

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, token: str) -> Any:
                return store.get(token)

        return Unpickler(io.BytesIO(contents)).load()


HERE = Store()
"""What has arrived in this process."""


# -- tasks -------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What came of a task."""

    job: Any
    part: Any


class CourseMissing(NamedTuple):
    """Answer of a process that has not been sent the course."""

    token: str


class Task:
    """A job to be carried on with for so many seconds (None: to its end), here or elsewhere.

    Only if it is to it takes the course along; a process without it answers `CourseMissing`.
    """

    def __init__(self, course: Part, job: Any, seconds: float | None, takes_course: bool) -> None:
        self.course, self.job, self.seconds, self.takes_course = course, job, seconds, takes_course

    def __call__(self) -> Answer | CourseMissing:
        """Do it in the process that it was made in."""
        return carried_on(self.course.thing, self.job, self.seconds)

    def __reduce__(self) -> tuple[Any, ...]:
        pickles = dict(self.course.pickles) if self.takes_course else {}
        return partial, (carried_on_there, self.course.token, pickles, self.job, self.seconds)


def carried_on_there(
    token: str, pickles: Mapping[str, bytes], job: Any, seconds: float | None, store: Store = HERE
) -> Answer | CourseMissing:
    """A job carried on with in another process, if the course is there."""
    store.take_in(pickles)
    course = store.get(token)
    return CourseMissing(token) if course is None else carried_on(course, job, seconds)


def carried_on(course: Any, job: Any, seconds: float | None) -> Answer:
    """A job after so many seconds of work at least, or at its end; compiling does not count."""
    course.compile()
    work, deadline = Work(), None if seconds is None else time.monotonic() + seconds
    enough = None if deadline is None else lambda: time.monotonic() >= deadline
    job, part = job.advance(course.counted(work), enough)
    return Answer(replace(job, n_evaluations=job.n_evaluations + work.done), part)
