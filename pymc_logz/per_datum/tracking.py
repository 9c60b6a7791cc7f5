"""log Z of a model whose data or parameters change slowly: walkers and settings are carried on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_logz.arguments import check_integer, numbers_of, settings_among
from pymc_logz.errors import warn
from pymc_logz.estimators.draws import TemperedDraws
from pymc_logz.estimators.result import MIN_INDEPENDENT, LogZCurve, LogZEstimate
from pymc_logz.estimators.tempering import rao_blackwell_log_weight, rts, rts_log_z
from pymc_logz.kernels.base import Kernel, KernelState
from pymc_logz.loop.calls import begun
from pymc_logz.models.context import ForeignModel, model_from, written_as
from pymc_logz.paths.geometric import Evaluation
from pymc_logz.per_datum import followed
from pymc_logz.per_datum.followed import Moment, evaluator, follow, moment_datasets
from pymc_logz.runners.moves import kernel_for
from pymc_logz.runners.temper import TemperBlock, Walk, Walkers, walk
from pymc_logz.tempered.results import tempered_draws_dataset
from pymc_logz.tempered.run import warm_up
from pymc_logz.tempered.settings import TemperedSettings
from pymc_logz.tempered.warm_up import climb, level_probabilities, moves_by_level, with_tuned_steps
from pymc_logz.trees.doubts import (
    MAX_DISAGREEMENT,
    Doubt,
    disagreements,
    doubted,
    noted,
    warn_of_doubts,
)
from pymc_logz.trees.kinds import TRACKED, TRACKED_MOMENT
from pymc_logz.trees.layout import evidence_dataset, make_tree

if TYPE_CHECKING:
    import pymc as pm

    from pymc_logz.bits.energies import BernoulliRBM

LEAST_CARRIED = 0.2


class LogZTracker:
    """Carries log Z along while the data or parameters of a model change slowly.

    While an unnormalised model is being learned, log Z changes a little in each step. Walkers of a
    tempered run, its step sizes and log Z at each level are a good start for the next model, so
    that a few iterations per change are enough. For each change, `update`:

    1. evaluates the walkers in the new model, for a first guess of log Z there, by which levels are
       drawn;
    2. lets the walkers walk, and estimates log Z from these draws alone (method ``"rts"``);
    3. moves the value so far by the mean ratio of the two densities over the walkers, and takes a
       part ``alpha`` of the way, in log Z, from there to that estimate (method ``"tracked"``).

    Parameters
    ----------
    model
        PyMC model; None takes the one on the context stack. What changes is in ``pm.Data``
        containers, which enter the likelihood or potentials, not the priors. Their shapes must not
        change. Or a machine of bits, `pymc_logz.energies.bernoulli_rbm`, whose ``weights``,
        ``visible_bias`` and ``hidden_bias`` change.
    data
        Names of what changes; None means all containers of the model, or all three.
    draws
        Iterations of each walker per update, at least 2.
    walkers
        Number of walkers, at least 2: errors are those between walkers, so that they hold however
        slowly each of them travels.
    alpha
        Weight of each new estimate, in (0, 1]. Errors of about ``2 / alpha`` updates are averaged.
    betas, level_prior, kernel, tune, target_accept
        As in `sample_tempered`. ``level_prior="exp"`` spends more time near beta = 1, where the
        gradient of a learning step comes from. The levels do not change during training, so give as
        many as the trained machine will need, say ``betas=100``.
    thin
        `update` returns every ``thin``-th draw.
    random_seed, progressbar, compile_kwargs
        As in `sample_hais`; the progress bar shows the construction of the tracker.

    Raises
    ------
    ModelError
        If log Z of the model is undefined or out of reach, or data enter a prior.
    PilotError
        If the pilot cannot get from the prior to the target.
    TypeError
        If it is neither a model nor a restricted Boltzmann machine of bits.
    ValueError
        If an argument is outside its range.

    Warns
    -----
    EvidenceWarning
        If a change is too large to be carried over, or the two estimates do not agree.

    Notes
    -----
    The error of the tracked value is to first order a sum over walkers, of what each has added in
    all updates so far, with weights that decay by ``1 - alpha``. The sum of their squares is
    ``mcse**2``, whatever the autocorrelation within and between updates. It does not account for
    the time that walkers need to adapt to a new model, so change the model slowly. After a change
    that left few of them effective, the status is not ``"ok"`` until that has faded, nor while the
    two estimates disagree.

    Step sizes are corrected between updates; levels and length scales stay.

    A machine of bits moves by `pymc_logz.kernels.BlockGibbs`, one sweep per iteration; persistent
    contrastive divergence makes these sweeps anyway. The draws of `update`, with their weights, are
    the negative phase of its gradient.

    References
    ----------
    Carlson, Stinson, Pakman & Paninski (2016), section 4.4, arXiv 1603.01912, for steps 2 and 3;
    Zwanzig (1954), doi 10.1063/1.1740409, for the ratio, without which log Z lags behind.

    Examples
    --------
    .. code-block:: python

        import numpy as np
        import pymc as pm, pymc_logz as lz
        with pm.Model() as model:
            w = pm.Data("w", np.zeros(6))
            v = pm.Normal("v", 0, 1, shape=6)
            pm.Potential("energy", (w * v).sum())  # log Z = sum(w**2) / 2
        tracker = lz.LogZTracker(model, random_seed=1)
        for step in range(10):
            now = tracker.update({"w": np.full(6, 0.02 * step)})  # walkers for the next step
        tracker.tree["evidence"]["log_z"]  # dims estimator, time

        rbm = lz.energies.bernoulli_rbm(np.zeros((6, 3)), np.zeros(6), np.zeros(3))
        tracker = lz.LogZTracker(rbm, betas=20, random_seed=1)
        for step in range(10):
            now = tracker.update({"weights": np.full((6, 3), 0.05 * step)})
        tracker.log_z, tracker.mcse, now["tempered_posterior"]["visible"]
    """

    @written_as("LogZTracker(model)")
    def __init__(
        self,
        model: "pm.Model | BernoulliRBM | None" = None,
        data: Sequence[str] | None = None,
        *,
        draws: int = 32,
        walkers: int = 256,
        alpha: float = 0.2,
        betas: str | int | np.ndarray = "adaptive",
        level_prior: str | np.ndarray = "uniform",
        kernel: Kernel | str | None = None,
        tune: int = 64,
        target_accept: float | None = None,
        thin: int = 8,
        random_seed: Any = None,
        progressbar: bool = True,
        compile_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if np.ndim(alpha) or not 0 < numbers_of(alpha) <= 1:
            raise ValueError(f"alpha={alpha!r} must lie in (0, 1]: the weight of a new estimate")
        check_integer(2, walkers=walkers)
        if isinstance(model, ForeignModel):
            kernel, _ = model.runs.checked(model, kernel, None, None)
        else:
            model = model_from(model, "LogZTracker(model)")
            kernel = kernel_for(kernel, model)
        given = settings_among(locals(), TemperedSettings)
        self.settings = TemperedSettings.from_arguments(**given, chains=1, reference="prior")
        self.alpha = alpha
        with begun(self.settings, random_seed, progressbar, compile_kwargs) as call:
            self._followed = follow(model, data, call.rngs)
            self.shapes = {name: np.shape(value) for name, value in self.data.items()}
            self._block, rounds = warm_up(self._followed.placed(call), call)
        self.ladder = rounds.ladder
        self._evaluate = evaluator(self._block, compile_kwargs)
        self._attrs = {"backend": self._block.compiled.backend, "n_levels": self.ladder.n_levels}
        self._pilot_work = self._block.work.done
        self._begin(call.rngs.run)

    def _begin(self, rng: np.random.Generator) -> None:
        """Fresh walkers, and the first estimate, from as many draws as later ones average."""
        self._rng, settings = rng, self.settings
        start = self._block.path.sample_reference(self._rng, settings.walkers)
        self._walkers, _ = climb(self._block, self.ladder, start, settings.tune, self._rng)
        self._influence = np.zeros((settings.walkers, self.ladder.n_levels))
        self._lost = 0.0
        self.moments: list[Moment] = []
        part = self._walk(round(settings.draws / self.alpha))
        self._record(part, self.ladder.log_z_hat, 1.0, 1.0)

    @property
    def model(self) -> Any:
        """The model, or the machine as it is now."""
        return self._followed.model

    @property
    def data(self) -> dict[str, np.ndarray]:
        """What may change, as it is now, by name."""
        return self._followed.data

    @property
    def log_z(self) -> float:
        """Tracked log Z of the present model; NaN if there is none to report."""
        return self.moments[-1].tracked.log_z

    @property
    def mcse(self) -> float:
        """Its standard error."""
        return self.moments[-1].tracked.mcse

    def update(self, data: Mapping[str, Any] | None = None) -> xr.DataTree:
        """Estimates for the model as it is now, and draws from it.

        Parameters
        ----------
        data
            New values of what changes, by name. Those of a PyMC model are set by ``pm.set_data``;
            None means that this has been done.

        Returns
        -------
        xarray.DataTree
            Groups ``evidence`` (estimators ``"tracked"`` and ``"rts"``) and ``tempered_posterior``
            (draws of all levels; ``log_weight`` makes them stand for beta = 1).

        Raises
        ------
        ValueError
            If a name is unknown, or a value has another shape than before or is not finite.
        """
        if data:
            self._check(data)
            self._followed = self._followed.changed(data)
        self._check(self.data)
        before, old = self.ladder.log_z_hat, self._block
        share = self._carry()
        part = self._walk(self.settings.draws)
        # by walkers of the new model: those of the old one, which told where to go, fit the model
        # they led to better than others do
        step_back, contributions, share_back = self._change(
            self._walkers.state.evaluation, self._evaluated(old)
        )
        self._influence -= contributions
        return self._record(part, before - step_back, self.alpha, min(share, share_back))

    def _check(self, data: Mapping[str, Any]) -> None:
        for name, value in data.items():
            if name not in self.shapes:
                raise ValueError(f"data[{name!r}] is not among what changes: {list(self.shapes)}")
            if np.shape(value) != self.shapes[name]:
                raise ValueError(
                    f"data[{name!r}] has shape {np.shape(value)}, but had {self.shapes[name]} when "
                    "the model was compiled; make another tracker for another shape"
                )
            if not np.all(np.isfinite(np.asarray(value, dtype=float))):
                raise ValueError(f"data[{name!r}] has entries that are not finite")

    def _carry(self) -> float:
        """Move walkers and log Z of levels to the present data; effective share left over."""
        ladder, (old, level) = self.ladder, self._walkers
        self._block = self._followed.moved(self._block)
        new = self._evaluated(self._block)
        step, _, share = self._change(old.evaluation, new)
        self.ladder = replace(ladder, log_z_hat=ladder.log_z_hat + step)
        self._walkers = Walkers(KernelState(old.position, old.momentum, new), level)
        if share < LEAST_CARRIED:
            warn(
                f"a change of the data left {share:.0%} of the effective number of walkers, so log "
                "Z before it says little about log Z after it: change the data in smaller steps"
            )
        return share

    def _change(
        self, before: Evaluation, after: Evaluation
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """`change_of_log_z` for the walkers, where NaN counts as a likelihood of zero."""
        ratios = (np.asarray(one.log_ratio)[:, None] for one in (before, after))
        now, then = (np.where(np.isnan(ratio), -np.inf, ratio) for ratio in ratios)
        ladder = self.ladder
        draws = TemperedDraws(
            np.zeros(now.shape, dtype=int), now, ladder.betas, ladder.log_prior, ladder.log_z_hat
        )
        return followed.change_of_log_z(draws, then)

    def _evaluated(self, block: TemperBlock) -> Evaluation:
        """What the path of a block, with its data, is worth where the walkers are."""
        block.work.add(block.n_walkers)
        position = np.asarray(self._walkers.state.position)
        outputs = self._evaluate.call(position, *block.row_data, *block.path.values)
        return Evaluation(*(np.asarray(out) for out in outputs))

    def _walk(self, n_iterations: int) -> Walk:
        """Walk on in the present model."""
        tables = self.ladder.tables(self._block.kernel)
        every = min(self.settings.thin, n_iterations)
        self._walkers, part = walk(
            self._block, self._walkers, tables, n_iterations, self._rng, every=every
        )
        return part

    def _record(self, part: Walk, log_z: np.ndarray, gain: float, share: float) -> xr.DataTree:
        """Bring log Z forward by a share ``gain`` of what a walk says, and keep the moment."""
        draws = self.ladder.draws(part)
        curve = rts(draws)
        target = curve.log_z if curve.usable else rts_log_z(draws)
        self._lost = (1 - gain) * self._at_stake(abs(target - log_z)[-1], curve, share)
        log_z = log_z + gain * (target - log_z)
        self._influence *= 1 - gain
        if curve.usable:
            self._influence += gain * curve.contributions.sum(axis=1)
        n = self.settings.walkers
        mcse = np.sqrt(n / (n - 1) * (self._influence**2).sum(axis=0))
        tracked, doubts = self._tracked(curve, log_z[-1], mcse[-1])
        alone = curve.estimate
        alone = replace(alone, status=self._after_jump(alone.status, curve))
        of_levels = {
            "log_z": log_z,
            "mcse": mcse,
            "occupancy": level_probabilities(draws),
            "step_size": self.ladder.step_size,
        }
        of_all = {"acceptance_rate": part.acceptance_rate.mean(), "carried_share": share}
        levels = xr.Dataset(
            {**{name: ("stage", values) for name, values in of_levels.items()}, **of_all},
            coords={"stage": np.arange(draws.n_levels), "beta": ("stage", draws.betas)},
        )
        self.moments.append(Moment(tracked, alone, levels))
        self._attrs |= self._block.work.record(self._block.kernel, self._pilot_work)
        moves, aim = moves_by_level(part, self.ladder.n_levels), self.settings.target_accept
        tuned = with_tuned_steps(self.ladder, self._block.kernel, *moves, aim)
        self.ladder = replace(tuned, log_z_hat=log_z)
        groups = {
            "evidence": evidence_dataset([tracked, alone], self._attrs | noted(doubts)),
            "tempered_posterior": self._draws(part, draws),
        }
        return make_tree(groups, self._settings(), TRACKED_MOMENT)

    def _at_stake(self, apart: float, curve: LogZCurve, share: float) -> float:
        """Nats that a jump has put wrong: what is seen of them, and what cannot be."""
        error = float(curve.mcse[-1]) if curve.usable else 0.0
        unseen = MAX_DISAGREEMENT[0] * error
        if share < LEAST_CARRIED:
            return max(apart, unseen)
        return max(self._lost, apart - unseen) if self._lost > error else 0.0

    def _after_jump(self, status: str, curve: LogZCurve) -> str:
        """A status, unless a jump has left walkers behind, which misleads both estimates."""
        return "low_weight_ess" if status == "ok" and self._lost > curve.mcse[-1] else status

    def _tracked(
        self, curve: LogZCurve, log_z: float, mcse: float
    ) -> tuple[LogZEstimate, list[Doubt]]:
        """The tracked estimate, and whether that of this update alone speaks against it."""
        status = self._after_jump("ok" if curve.usable else curve.status, curve)
        if status == "ok" and self.settings.walkers < MIN_INDEPENDENT:
            status = "short_run"
        tracked = LogZEstimate("tracked", log_z, mcse, curve.weight_ess, np.nan, status)
        if not tracked.usable:
            return replace(tracked, log_z=np.nan, mcse=np.nan), []
        doubts = disagreements(tracked, [curve.estimate])
        before = self.moments[-1].tracked.status if self.moments else "ok"
        if before != "disagrees":  # once is enough
            warn_of_doubts(doubts)
        return doubted([tracked], doubts)[0], doubts

    def _draws(self, part: Walk, draws: TemperedDraws) -> xr.Dataset:
        """Group ``tempered_posterior``, as of `sample_tempered` with one chain."""
        rows = part.position.swapaxes(0, 1)
        values = self._followed.named(rows.reshape(-1, rows.shape[-1]))
        named = {name: v.reshape(1, *rows.shape[:-1], *v.shape[1:]) for name, v in values.items()}
        kept = np.arange(1, rows.shape[1] + 1) * (len(part.level) // rows.shape[1]) - 1
        log_weight = rao_blackwell_log_weight(draws)[None][..., kept]
        return tempered_draws_dataset(named, log_weight, kept, self._followed.labels)

    def _settings(self) -> dict[str, Any]:
        return {**self.settings.record(), "method": "tracking", "alpha": self.alpha, **self._attrs}

    @property
    def tree(self) -> xr.DataTree:
        """All moments so far.

        Groups ``evidence`` (dimensions ``estimator`` and ``time``: ``log_z``, ``mcse``,
        ``weight_ess``, ``status``) and ``tracking`` (``time`` and ``stage``: tracked log Z at each
        beta with its error, ``occupancy``, step sizes; acceptance, and the share of the effective
        number of walkers that each change left). Time 0 is the model that the tracker was made for.
        """
        return make_tree(moment_datasets(self.moments, self._attrs), self._settings(), TRACKED)
