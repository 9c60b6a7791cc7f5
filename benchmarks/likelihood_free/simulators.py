"""Lotka-Volterra simulators of Graham & Storkey (2017), section 7.1, in NumPy and in PyMC.

Predators and prey interact or not; all populations are observed exactly, or some of the prey only.
The noise is additive and normal, so either has a likelihood that can be written down: what is exact
here is known without the methods that are compared.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

import pymc_logz as lz

START = np.array([100.0, 100.0])


def next_state(state, rates, noise):
    """Populations one step on (Euler-Maruyama with a step of 1); all three hold rows or numbers."""
    prey, predators = state[0], state[1]
    met = prey * predators
    return (
        prey + rates[0] * prey - rates[1] * met + noise[0],
        predators - rates[2] * predators + rates[3] * met + noise[1],
    )


@dataclass(frozen=True)
class Setting:
    """The data, and the priors of the rates.

    Parameters
    ----------
    truth
        Rates that made the data, with interaction.
    prior_mean
        Means of the log rates, of standard deviation 1.
    n_steps
        Steps simulated.
    every
        Steps from one observation of the prey to the next, where only prey are observed.
    """

    truth: tuple[float, ...]
    prior_mean: tuple[float, ...]
    n_steps: int
    every: int

    @cached_property
    def noise(self):
        """Noise of the data, the paper's; shape (n_steps, 2)."""
        return np.random.RandomState(1234).normal(size=(self.n_steps, 2))

    @cached_property
    def states(self):
        """Populations that were simulated, shape (n_steps, 2)."""
        return states_of(np.array(self.truth)[:, None], self.noise[None])[0]


# the paper's; and data that leave some doubt, under priors from which a simulation seldom explodes
PAPER = Setting((0.4, 0.005, 0.05, 0.001), (-2.0, -2.0, -2.0, -2.0), 50, 5)
DOUBT = Setting((0.15, 0.0012, 0.1, 0.0005), (-2.0, -6.0, -2.0, -7.0), 10, 1)


@dataclass(frozen=True)
class Simulator:
    """One of the simulators, and what is observed of it.

    Its inputs are standard normal: ``u``, of which the log rates are ``u`` plus their prior means,
    and ``noise``.
    """

    setting: Setting = PAPER
    interaction: bool = True
    prey_only: bool = False

    @property
    def free(self):
        """Which rates are not zero."""
        return [0, 1, 2, 3] if self.interaction else [0, 2]

    @cached_property
    def prior_mean(self):
        """Means of the log rates that are free."""
        return np.array(self.setting.prior_mean)[self.free]

    @property
    def n_noise(self):
        """Noise inputs."""
        return 2 * self.setting.n_steps

    @cached_property
    def observed(self):
        """The data, shape (m,)."""
        return self.seen(self.setting.states[None])[0]

    def seen(self, states):
        """Outputs in rows, shape (n, m), of states (n, n_steps, 2)."""
        if self.prey_only:
            return states[:, self.setting.every - 1 :: self.setting.every, 0]
        return states.reshape(len(states), -1)

    def output(self, u, noise):
        """Outputs in rows, shape (n, m), of inputs u (n, k) and noise (n, n_noise)."""
        rates = np.zeros((4, len(u)))
        rates[self.free] = np.exp(u + self.prior_mean).T
        return self.seen(states_of(rates, noise.reshape(len(u), -1, 2)))

    def true_inputs(self, n):
        """The inputs that made the data, n times over: a kind start for a chain."""
        u = (np.log(self.setting.truth) - self.setting.prior_mean)[self.free]
        return np.tile(u, (n, 1)), np.tile(self.setting.noise.ravel(), (n, 1))

    def rates(self):
        """The four rates of a PyMC model."""
        z = pm.LogNormal("z", self.prior_mean, 1.0)
        return z if self.interaction else pt.stack([z[0], 0.0, z[1], 0.0])

    def model(self):
        """PyMC model whose output is observed exactly."""
        with pm.Model() as model:
            rates, noise = self.rates(), pm.Normal("noise", shape=(self.setting.n_steps, 2))
            states = pytensor.scan(
                lambda noise, state, rates: pt.stack(next_state(state, rates, noise)),
                sequences=[noise],
                outputs_info=[pt.constant(START)],
                non_sequences=[rates],
                return_updates=False,
            )
            if self.prey_only:
                every = self.setting.every
                lz.ExactObservation("y", states[every - 1 :: every, 0], self.observed)
            else:
                lz.ExactObservation("y", states, self.setting.states)
        return model

    def with_likelihood(self):
        """The same in closed form, where populations that were not observed are parameters."""
        with pm.Model() as model:
            rates = self.rates()
            if not self.prey_only:
                states = pt.as_tensor(self.setting.states)
                pm.Normal("y", mean_states(states, rates), 1.0, observed=self.setting.states)
            elif self.interaction:
                self._hidden_states(rates)
            else:
                growth, powers = 1 + rates[0], np.arange(self.setting.every)
                sd = pt.sqrt(pt.sum(growth ** (2 * powers)))
                before = np.r_[START[0], self.observed[:-1]]
                mean = growth**self.setting.every * before
                pm.Normal("y", mean, sd, observed=self.observed)
        return model

    def _hidden_states(self, rates):
        hidden = np.ones((self.setting.n_steps, 2), dtype=bool)
        hidden[self.setting.every - 1 :: self.setting.every, 0] = False
        # the law of all states given the rates takes the place of a prior that is there for form
        free = pm.Normal("hidden", self.setting.states[hidden], 10.0)
        own = pm.logp(pm.Normal.dist(self.setting.states[hidden], 10.0), free)
        pm.Potential("no prior", -own.sum())
        states = pt.as_tensor(self.setting.states)[hidden.nonzero()].set(free)
        law = pm.Normal.dist(mean_states(states, rates), 1.0)
        pm.Potential("transitions", pm.logp(law, states))


def mean_states(states, rates):
    """Mean of each state given the one before, symbolic, shape (n_steps, 2)."""
    before = pt.concatenate([START[None], states[:-1]])
    return pt.stack(next_state(before.T, rates, np.zeros(2)), axis=-1)


def states_of(rates, noise):
    """Populations at each step, shape (n, n_steps, 2); not finite beyond floating point."""
    noise = np.ascontiguousarray(noise.transpose(1, 2, 0))
    states, state = np.empty_like(noise), np.broadcast_to(START[:, None], noise.shape[1:])
    with np.errstate(all="ignore"):
        for t, now in enumerate(noise):
            states[t] = state = np.array(next_state(state, rates, now))
    return states.transpose(2, 0, 1)
