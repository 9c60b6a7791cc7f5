"""Numbers of a long study, one unit of work after the other, in a file that it goes on from."""

import json

import numpy as np


class Results(dict):
    """Numbers by name, written to a file as they come, with the settings that made them.

    A unit is named by a method, a size and a replicate: ``"AIS 1000 0"``.
    """

    def __init__(self, store, settings):
        super().__init__(settings=settings, units={})
        self.store = store
        if store.exists():
            kept = json.loads(store.read_text())
            if kept["settings"] != settings:
                raise SystemExit(
                    f"{store} was made with {kept['settings']}, not with {settings}: move it away"
                )
            self.update(kept)

    def write(self):
        """Keep what there is."""
        self.store.parent.mkdir(exist_ok=True, parents=True)
        rest = {name: value for name, value in self.items() if name != "units"}
        lines = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(unit)}" for key, unit in self["units"].items()
        )
        # a unit a line, so that changes can be read
        self.store.write_text(f'{json.dumps(rest, indent=1)[:-2]},\n "units": {{\n{lines}\n}}}}\n')

    def keep(self, name, size, replicate, found):
        """Keep the outcome of a unit."""
        self["units"][f"{name} {size} {replicate}"] = found
        self.write()

    def has(self, name, size, replicate):
        """Whether a unit is done."""
        return f"{name} {size} {replicate}" in self["units"]

    def table(self, of="log_z"):
        """One of the numbers of all replicates, by method and size."""
        found = {}
        for key, unit in self["units"].items():
            name, size, _ = key.rsplit(" ", 2)
            found.setdefault((name, int(size)), []).append(unit[of])
        return found

    def seconds(self):
        """Median seconds of processor time of a unit, by method and size."""
        return {key: float(np.median(values)) for key, values in self.table("seconds").items()}
