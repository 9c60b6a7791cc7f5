"""What forward and reverse log weights of one plan have to satisfy, and a plan to try it on."""

import numpy as np
from scipy.special import expit

from pymc_logz.paths.schedules import linear_betas
from pymc_logz.runners.anneal import Plan
from support.checks import check_means
from support.paths_with_exact_draws import Target


def uneven_plan(target: Target, n_temperatures: int) -> Plan:
    """Betas, step sizes and scales that differ from move to move, and from end to end."""
    share = linear_betas(n_temperatures)
    scale = np.array(target.scale) * (1.3 - 0.6 * share[:, None])
    return Plan(share**1.7, 0.3 + 0.9 * share**2, scale)


def check_crooks(forward: np.ndarray, backward: np.ndarray) -> None:
    """Means of both sides of Crooks' relation for some bounded f, and of Bennett's f."""
    differences = {
        # f(w) = 1 / (1 + exp(w)): the acceptance ratio method
        "bennett": expit(forward) - expit(backward),
    }
    for cut in np.quantile(-backward, [0.2, 0.5, 0.8]):
        # weights below the cut are bounded, so their standard error can be trusted
        differences[f"w < {cut:.2f}"] = np.exp(forward) * (forward < cut) - (-backward < cut)
    check_means(differences)
