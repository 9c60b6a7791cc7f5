"""Three samplers of blackjax on the unit cube's image of a target, all in JAX."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from rivals.targets import Target

N_PARTICLES, N_MOVES, TARGET_ESS = 1000, 20, 0.9
PERSISTENT_ESS, MOST_STAGES = 3, 200
"""Effective particles of all stages, as a multiple of those of one (blackjax's own default)."""
N_DELETE, PRECISION = 100, -3.0
"""Points replaced at once, and log of the evidence left at which nested sampling stops."""


@lru_cache(maxsize=1)
def densities(model: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any], list[Any]]:
    """Log prior and log likelihood of a flat point of the unconstrained space, and its shapes."""
    import jax
    import jax.numpy as jnp
    from pymc.sampling.jax import get_jaxified_graph

    jax.config.update("jax_enable_x64", True)
    values = model.value_vars
    prior = sum(term.sum() for term in model.logp(model.free_RVs, sum=False))
    terms = model.logp([*model.observed_RVs, *model.potentials], sum=False)
    likelihood = sum(term.sum() for term in terms)
    point = model.initial_point()
    shapes = [np.shape(point[value.name]) for value in values]
    cuts = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    def on_flat(graph: Any) -> Callable[[Any], Any]:
        function = get_jaxified_graph(inputs=values, outputs=[graph])

        def evaluate(x: Any) -> Any:
            parts = jnp.split(x, cuts)
            shaped = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
            value = function(*shaped)[0]
            return jnp.where(jnp.isnan(value), -jnp.inf, value)

        return evaluate

    return on_flat(prior), on_flat(likelihood), shapes


def prior_draws(target: Target, seed: int, n: int) -> np.ndarray:
    """Flat points of the unconstrained space, drawn from the prior."""
    rng, model = np.random.default_rng(seed), target.model
    natural = np.array([target.from_cube(rng.random(target.n_dims)) for _ in range(n)])
    names = [value.name for value in target.plain.value_vars]
    sizes = [int(np.prod(shape, dtype=int)) for shape in target.shapes]
    parts = dict(zip(names, np.split(natural, np.cumsum(sizes)[:-1], axis=1), strict=True))
    columns = []
    for rv in model.free_RVs:
        part, transform = parts[rv.name], model.rvs_to_transforms[rv]
        if transform is not None:
            part = np.asarray(transform.forward(part, *rv.owner.inputs).eval())
        columns.append(part)
    return np.concatenate(columns, axis=1)


def walks() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A random-walk step with the root of its covariance, and that root by particles."""
    import jax
    import jax.numpy as jnp
    from blackjax.mcmc.random_walk import build_additive_step
    from blackjax.smc import extend_params

    step = build_additive_step()

    def shaped(particles: Any) -> dict[str, Any]:
        covariance = jnp.atleast_2d(jnp.cov(particles.T)) + 1e-12 * jnp.eye(particles.shape[1])
        scale = 2.38 / jnp.sqrt(particles.shape[1])
        return extend_params({"root": scale * jnp.linalg.cholesky(covariance)})

    def move(key: Any, state: Any, log_density: Any, root: Any) -> Any:
        def jump(key: Any, position: Any) -> Any:
            return root @ jax.random.normal(key, position.shape)

        return step(key, state, log_density, jump)

    return move, shaped


@lru_cache(maxsize=1)
def compiled_smc(target: Target) -> tuple[Any, Callable[..., Any]]:
    """Tempered SMC of a target, and its compiled step."""
    import jax
    import jax.numpy as jnp
    from blackjax import adaptive_tempered_smc as smc
    from blackjax import additive_step_random_walk, inner_kernel_tuning
    from blackjax.smc import resampling

    log_prior, log_likelihood, _ = densities(target.model)
    move, shaped = walks()
    algorithm = inner_kernel_tuning(
        smc_algorithm=smc,
        logprior_fn=log_prior,
        loglikelihood_fn=log_likelihood,
        mcmc_step_fn=move,
        mcmc_init_fn=additive_step_random_walk.init,
        resampling_fn=resampling.systematic,
        mcmc_parameter_update_fn=lambda key, state, info: shaped(state.particles),
        initial_parameter_value=shaped(jnp.asarray(prior_draws(target, 0, N_PARTICLES))),
        num_mcmc_steps=N_MOVES,
        target_ess=TARGET_ESS,
    )
    return algorithm, jax.jit(algorithm.step)


def tempered_smc(target: Target, seed: int, n: int = N_PARTICLES) -> tuple[float, float, str, int]:
    """log Z by adaptive tempered SMC; random walks with the particles' own covariance."""
    import jax
    import jax.numpy as jnp

    algorithm, advance = compiled_smc(target)
    key, log_z, n_stages = jax.random.key(seed), 0.0, 0
    state = algorithm.init(jnp.asarray(prior_draws(target, seed, n)))
    while float(state.sampler_state.tempering_param) < 1:
        key, one = jax.random.split(key)
        state, info = advance(one, state)
        log_z += float(info.log_likelihood_increment)
        n_stages += 1
    return log_z, float("nan"), "", n * N_MOVES * n_stages


@lru_cache(maxsize=1)
def compiled_persistent(target: Target) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """First state of persistent sampling, and its compiled step."""
    import jax
    from blackjax import additive_step_random_walk
    from blackjax.smc import adaptive_persistent_sampling as persistent
    from blackjax.smc import resampling

    log_prior, log_likelihood, _ = densities(target.model)
    move, shaped = walks()
    kernel = persistent.build_kernel(
        log_prior,
        log_likelihood,
        move,
        additive_step_random_walk.init,
        resampling.systematic,
        target_ess=PERSISTENT_ESS,
    )

    def advance(key: Any, state: Any) -> Any:
        return kernel(key, state, N_MOVES, shaped(state.particles))

    def first(particles: Any) -> Any:
        return persistent.init(particles, log_likelihood, MOST_STAGES)

    return first, jax.jit(advance)


def persistent_sampling(target: Target, seed: int) -> tuple[float, float, str, int]:
    """log Z by persistent sampling, which weighs the particles of all stages."""
    import jax
    import jax.numpy as jnp

    first, advance = compiled_persistent(target)
    key, state = jax.random.key(seed), first(jnp.asarray(prior_draws(target, seed, N_PARTICLES)))
    n_stages = 0
    while float(state.tempering_param) < 1 and n_stages < MOST_STAGES:
        key, one = jax.random.split(key)
        state, _ = advance(one, state)
        n_stages += 1
    log_z = float(state.log_Z) if float(state.tempering_param) == 1 else float("nan")
    return log_z, float("nan"), "", N_PARTICLES * N_MOVES * n_stages


@lru_cache(maxsize=1)
def compiled_slices(target: Target) -> tuple[Any, Callable[..., Any]]:
    """Nested slice sampling of a target, and its compiled step."""
    import blackjax
    import jax

    log_prior, log_likelihood, _ = densities(target.model)
    algorithm = blackjax.nss(
        logprior_fn=log_prior,
        loglikelihood_fn=log_likelihood,
        num_delete=N_DELETE,
        num_inner_steps=5 * target.n_dims,
    )
    return algorithm, jax.jit(algorithm.step)


def nested_slices(target: Target, seed: int) -> tuple[float, float, str, int]:
    """log Z by nested slice sampling, five slices for each dimension."""
    import jax
    import jax.numpy as jnp
    from blackjax.ns.utils import finalise, log_weights

    algorithm, advance = compiled_slices(target)
    live = algorithm.init(jnp.asarray(prior_draws(target, seed, N_PARTICLES)))
    key, dead = jax.random.key(seed), []
    while float(live.integrator.logZ_live - live.integrator.logZ) > PRECISION:
        key, one = jax.random.split(key)
        live, info = advance(one, live)
        dead.append(info)
    key, one = jax.random.split(key)
    values = jax.scipy.special.logsumexp(log_weights(one, finalise(live, dead), shape=100), axis=0)
    n_moves = len(dead) * N_DELETE * 5 * target.n_dims
    return float(values.mean()), float(values.std()), "", n_moves
