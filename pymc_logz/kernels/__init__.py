"""Markov kernels: frozen settings that turn a point, a beta and noise into the next point.

`Hamiltonian` and `Langevin` follow gradients, `RandomWalk` and `Slice` need none; `KERNELS` has
short names of them. `Gibbs` and `IntegerWalk` move discrete variables, `Compose` gives each
variable a kernel of its own, and `OneOf` draws one of several at each step. Anything that follows
`Kernel` can take their place; the rest is for those who write one.
"""

from pymc_logz.wings import lazily

__getattr__, __dir__, __all__ = lazily(__name__)
