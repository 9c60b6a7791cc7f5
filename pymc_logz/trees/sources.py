"""Papers that runs rest on, as far as BibTeX asks for them."""

from typing import NamedTuple


class Source(NamedTuple):
    """One reference, as far as BibTeX asks for it."""

    kind: str
    authors: str
    year: int
    title: str
    where: str
    """Journal or book."""
    link: str
    """``doi:...`` or ``arXiv:...``, or none."""


SOURCES = {
    "neal2001": Source(
        "article",
        "Neal, Radford M.",
        2001,
        "Annealed importance sampling",
        "Statistics and Computing",
        "doi:10.1023/A:1008923215028",
    ),
    "sohldickstein2012": Source(
        "article",
        "Sohl-Dickstein, Jascha and Culpepper, Benjamin J.",
        2012,
        "Hamiltonian annealed importance sampling for partition function estimation",
        "arXiv preprint",
        "arXiv:1205.1925",
    ),
    "zhou2016": Source(
        "article",
        "Zhou, Yan and Johansen, Adam M. and Aston, John A. D.",
        2016,
        "Toward automatic model comparison: an adaptive sequential {Monte Carlo} approach",
        "Journal of Computational and Graphical Statistics",
        "doi:10.1080/10618600.2015.1060885",
    ),
    "grosse2015": Source(
        "article",
        "Grosse, Roger B. and Ghahramani, Zoubin and Adams, Ryan P.",
        2015,
        "Sandwiching the marginal likelihood using bidirectional {Monte Carlo}",
        "arXiv preprint",
        "arXiv:1511.02543",
    ),
    "bennett1976": Source(
        "article",
        "Bennett, Charles H.",
        1976,
        "Efficient estimation of free energy differences from {Monte Carlo} data",
        "Journal of Computational Physics",
        "doi:10.1016/0021-9991(76)90078-4",
    ),
    "carlson2016": Source(
        "inproceedings",
        "Carlson, David and Stinson, Patrick and Pakman, Ari and Paninski, Liam",
        2016,
        "Partition functions from {Rao-Blackwellized} tempered sampling",
        "Proceedings of the 33rd International Conference on Machine Learning",
        "arXiv:1603.01912",
    ),
    "marinari1992": Source(
        "article",
        "Marinari, Enzo and Parisi, Giorgio",
        1992,
        "Simulated tempering: a new {Monte Carlo} scheme",
        "Europhysics Letters",
        "doi:10.1209/0295-5075/19/6/002",
    ),
    "syed2022": Source(
        "article",
        "Syed, Saifuddin and Bouchard-C{\\^o}t{\\'e}, Alexandre and Deligiannidis, George and "
        "Doucet, Arnaud",
        2022,
        "Non-reversible parallel tempering: a scalable highly parallel {MCMC} scheme",
        "Journal of the Royal Statistical Society Series B",
        "arXiv:1905.02939",
    ),
    "shirts2008": Source(
        "article",
        "Shirts, Michael R. and Chodera, John D.",
        2008,
        "Statistically optimal analysis of samples from multiple equilibrium states",
        "Journal of Chemical Physics",
        "doi:10.1063/1.2978177",
    ),
    "xie2011": Source(
        "article",
        "Xie, Wangang and Lewis, Paul O. and Fan, Yu and Kuo, Lynn and Chen, Ming-Hui",
        2011,
        "Improving marginal likelihood estimation for {Bayesian} phylogenetic model selection",
        "Systematic Biology",
        "doi:10.1093/sysbio/syq085",
    ),
    "gelman1998": Source(
        "article",
        "Gelman, Andrew and Meng, Xiao-Li",
        1998,
        "Simulating normalizing constants: from importance sampling to bridge sampling to path "
        "sampling",
        "Statistical Science",
        "doi:10.1214/ss/1028905934",
    ),
    "friel2014": Source(
        "article",
        "Friel, Nial and Hurn, Merrilee and Wyse, Jason",
        2014,
        "Improving power posterior estimation of statistical evidence",
        "Statistics and Computing",
        "doi:10.1007/s11222-013-9397-1",
    ),
    "meng1996": Source(
        "article",
        "Meng, Xiao-Li and Wong, Wing Hung",
        1996,
        "Simulating ratios of normalizing constants via a simple identity: a theoretical "
        "exploration",
        "Statistica Sinica",
        "",
    ),
    "meng2002": Source(
        "article",
        "Meng, Xiao-Li and Schilling, Stephen",
        2002,
        "Warp bridge sampling",
        "Journal of Computational and Graphical Statistics",
        "doi:10.1198/106186002457",
    ),
    "gronau2017": Source(
        "article",
        "Gronau, Quentin F. and Sarafoglou, Alexandra and Matzke, Dora and Ly, Alexander and "
        "Boehm, Udo and Marsman, Maarten and Leslie, David S. and Forster, Jonathan J. and "
        "Wagenmakers, Eric-Jan and Steingroever, Helen",
        2017,
        "A tutorial on bridge sampling",
        "Journal of Mathematical Psychology",
        "arXiv:1703.05984",
    ),
    "kloek1978": Source(
        "article",
        "Kloek, Teun and van Dijk, Herman K.",
        1978,
        "Bayesian estimates of equation system parameters: an application of integration by "
        "{Monte} {Carlo}",
        "Econometrica",
        "doi:10.2307/1913641",
    ),
    "vehtari2024": Source(
        "article",
        "Vehtari, Aki and Simpson, Daniel and Gelman, Andrew and Yao, Yuling and Gabry, Jonah",
        2024,
        "Pareto smoothed importance sampling",
        "Journal of Machine Learning Research",
        "arXiv:1507.02646",
    ),
    "graham2017": Source(
        "article",
        "Graham, Matthew M. and Storkey, Amos J.",
        2017,
        "Asymptotically exact inference in differentiable generative models",
        "Electronic Journal of Statistics",
        "arXiv:1605.07826",
    ),
    "duane1987": Source(
        "article",
        "Duane, Simon and Kennedy, A. D. and Pendleton, Brian J. and Roweth, Duncan",
        1987,
        "Hybrid {Monte Carlo}",
        "Physics Letters B",
        "doi:10.1016/0370-2693(87)91197-X",
    ),
    "margossian2024": Source(
        "article",
        "Margossian, Charles C. and Hoffman, Matthew D. and Sountsov, Pavel and "
        "Riou-Durand, Lionel and Vehtari, Aki and Gelman, Andrew",
        2024,
        "Nested {R-hat}: assessing the convergence of {Markov} chain {Monte Carlo} when running "
        "many short chains",
        "Bayesian Analysis",
        "doi:10.1214/24-BA1453",
    ),
    "andrieu2010": Source(
        "article",
        "Andrieu, Christophe and Doucet, Arnaud and Holenstein, Roman",
        2010,
        "Particle {Markov} chain {Monte Carlo} methods",
        "Journal of the Royal Statistical Society Series B",
        "doi:10.1111/j.1467-9868.2009.00736.x",
    ),
    "burda2015": Source(
        "article",
        "Burda, Yuri and Grosse, Roger B. and Salakhutdinov, Ruslan",
        2015,
        "Accurate and conservative estimates of {MRF} log-likelihood using reverse annealing",
        "arXiv preprint",
        "arXiv:1412.8566",
    ),
    "grosse2013": Source(
        "inproceedings",
        "Grosse, Roger B. and Maddison, Chris J. and Salakhutdinov, Ruslan",
        2013,
        "Annealing between distributions by averaging moments",
        "Advances in Neural Information Processing Systems 26",
        "",
    ),
    "zhang1996": Source(
        "article",
        "Zhang, Nevin L. and Poole, David",
        1996,
        "Exploiting causal independence in {Bayesian} network inference",
        "Journal of Artificial Intelligence Research",
        "doi:10.1613/jair.305",
    ),
    "peel2000": Source(
        "article",
        "Peel, David and McLachlan, Geoffrey J.",
        2000,
        "Robust mixture modelling using the t distribution",
        "Statistics and Computing",
        "doi:10.1023/A:1008981510081",
    ),
    "rue2009": Source(
        "article",
        "Rue, H{\\aa}vard and Martino, Sara and Chopin, Nicolas",
        2009,
        "Approximate {Bayesian} inference for latent {Gaussian} models by using integrated "
        "nested {Laplace} approximations",
        "Journal of the Royal Statistical Society Series B",
        "doi:10.1111/j.1467-9868.2008.00700.x",
    ),
    "papaspiliopoulos2007": Source(
        "article",
        'Papaspiliopoulos, Omiros and Roberts, Gareth O. and Sk{\\"o}ld, Martin',
        2007,
        "A general framework for the parametrization of hierarchical models",
        "Statistical Science",
        "doi:10.1214/088342307000000014",
    ),
    "zwanzig1954": Source(
        "article",
        "Zwanzig, Robert W.",
        1954,
        "High-temperature equation of state by a perturbation method. {I}. {Nonpolar} gases",
        "Journal of Chemical Physics",
        "doi:10.1063/1.1740409",
    ),
    "geyer1995": Source(
        "article",
        "Geyer, Charles J. and Thompson, Elizabeth A.",
        1995,
        "Annealing {Markov} chain {Monte Carlo} with applications to ancestral inference",
        "Journal of the American Statistical Association",
        "doi:10.1080/01621459.1995.10476590",
    ),
    "gronau2019": Source(
        "article",
        "Gronau, Quentin F. and Wagenmakers, Eric-Jan and Heck, Daniel W. and Matzke, Dora",
        2019,
        "A simple method for comparing complex models: {Bayesian} model comparison for "
        "hierarchical multinomial processing tree models using {Warp-III} bridge sampling",
        "Psychometrika",
        "doi:10.1007/s11336-018-9648-3",
    ),
    "zappa2018": Source(
        "article",
        "Zappa, Emilio and Holmes-Cerfon, Miranda and Goodman, Jonathan",
        2018,
        "{Monte Carlo} on manifolds: sampling densities and integrating functions",
        "Communications on Pure and Applied Mathematics",
        "doi:10.1002/cpa.21783",
    ),
    "pritchard1999": Source(
        "article",
        "Pritchard, Jonathan K. and Seielstad, Mark T. and Perez-Lezaun, Anna and Feldman, "
        "Marcus W.",
        1999,
        "Population growth of human {Y} chromosomes: a study of {Y} chromosome microsatellites",
        "Molecular Biology and Evolution",
        "",
    ),
    "marjoram2003": Source(
        "article",
        "Marjoram, Paul and Molitor, John and Plagnol, Vincent and Tavar{\\'e}, Simon",
        2003,
        "{Markov} chain {Monte Carlo} without likelihoods",
        "Proceedings of the National Academy of Sciences",
        "doi:10.1073/pnas.0306899100",
    ),
    "murray2010": Source(
        "inproceedings",
        "Murray, Iain and Adams, Ryan Prescott and MacKay, David J. C.",
        2010,
        "Elliptical slice sampling",
        "Proceedings of the 13th International Conference on Artificial Intelligence and "
        "Statistics",
        "arXiv:1001.0175",
    ),
    "murray2016": Source(
        "inproceedings",
        "Murray, Iain and Graham, Matthew M.",
        2016,
        "Pseudo-marginal slice sampling",
        "Proceedings of the 19th International Conference on Artificial Intelligence and "
        "Statistics",
        "arXiv:1510.02958",
    ),
    "metropolis1953": Source(
        "article",
        "Metropolis, Nicholas and Rosenbluth, Arianna W. and Rosenbluth, Marshall N. and "
        "Teller, Augusta H. and Teller, Edward",
        1953,
        "Equation of state calculations by fast computing machines",
        "Journal of Chemical Physics",
        "doi:10.1063/1.1699114",
    ),
    "roberts1996": Source(
        "article",
        "Roberts, Gareth O. and Tweedie, Richard L.",
        1996,
        "Exponential convergence of {Langevin} distributions and their discrete approximations",
        "Bernoulli",
        "doi:10.2307/3318418",
    ),
    "neal2003": Source(
        "article",
        "Neal, Radford M.",
        2003,
        "Slice sampling",
        "Annals of Statistics",
        "doi:10.1214/aos/1056562461",
    ),
    "geman1984": Source(
        "article",
        "Geman, Stuart and Geman, Donald",
        1984,
        "Stochastic relaxation, {Gibbs} distributions, and the {Bayesian} restoration of images",
        "IEEE Transactions on Pattern Analysis and Machine Intelligence",
        "doi:10.1109/TPAMI.1984.4767596",
    ),
    "salakhutdinov2008": Source(
        "inproceedings",
        "Salakhutdinov, Ruslan and Murray, Iain",
        2008,
        "On the quantitative analysis of deep belief networks",
        "Proceedings of the 25th International Conference on Machine Learning",
        "doi:10.1145/1390156.1390266",
    ),
}
"""What is cited, by its key."""
