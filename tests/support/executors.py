"""Executors that stand in for those of other machines."""

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

import cloudpickle


class Sends(Executor):
    """Pickles what it is given, as for another process; some workers are lost on the way.

    Parameters
    ----------
    lost
        Numbers of submissions whose worker dies.
    """

    def __init__(self, lost: tuple[int, ...] = ()) -> None:
        self._max_workers, self.lost, self.n = 2, lost, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        self.n += 1
        try:
            if self.n in self.lost:
                raise BrokenExecutor("a worker died")
            answer = cloudpickle.loads(cloudpickle.dumps(fn))()
            future.set_result(cloudpickle.loads(cloudpickle.dumps(answer)))
        except Exception as error:
            future.set_exception(error)
        return future
