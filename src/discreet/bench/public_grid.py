"""What is tried of the Public paper: its Figures 1, 3, 4a and 5, on MNIST, at equal total epsilon."""

from __future__ import annotations

from dataclasses import replace

from discreet.bench.public_problems import PrivateRun, PublicMethod, PublicProblem, Tuning

FREE = (
    PublicMethod(name="random", choice="random"),
    PublicMethod(name="entropy", choice="entropy"),
    PublicMethod(name="logit difference", choice="logit-difference"),
    PublicMethod(name="k-means", choice="k-means"),
    PublicMethod(name="k-centre", choice="greedy-k-centre"),
    PublicMethod(name="DiversePublic", choice="diverse-public"),
)
NEAR = PublicMethod(name="NearPrivate", choice="near-private", start="fits")
METHODS = (*FREE, NEAR)

MNIST = PublicProblem(name="mnist 40k/20k")
POLLUTED = PublicProblem(name="mnist 40k/20k, 30% fashion", polluted_by="fashion-mnist", pollution=8_571)
PAPERS = PublicProblem(
    name="mnist 22.5k/30k, 7.5k fashion",  # the paper's 30k/40k/10k at three quarters: MNIST has no more
    private=22_500,
    public=30_000,
    polluted_by="fashion-mnist",
    pollution=7_500,
)
LABELS = (((MNIST,), METHODS),)
POLLUTION = (((POLLUTED, PAPERS), METHODS),)

CLUSTERS, EACH = (100, 200, 300, 400, 500), (5, 10, 20)
FIG_4A = (
    (
        (MNIST,),
        tuple(
            PublicMethod(
                name=f"{each} of each cluster",
                choice="diverse-public",
                each=each,
                labels=tuple(each * count for count in CLUSTERS),
            )
            for each in EACH
        ),
    ),
)

STARTS = (5, 10, 15, 20, 25, 30)
EPSILON_5 = replace(MNIST, name="mnist 40k/20k, total 5", run=PrivateRun(epsilon=5.0))
FIG_5 = (
    (
        (MNIST,),
        tuple(
            PublicMethod(
                name=f"fixed price, from epoch {start}",
                choice="near-private",
                start=start,
                noise=11.0,  # 0.5 at delta 1e-5, as the paper's; so are the counts
                labels=(1000, 4000, 10_000),
            )
            for start in STARTS
        ),
    ),
    (
        (EPSILON_5,),
        tuple(
            PublicMethod(
                name=f"fixed total, from epoch {start}",
                choice="near-private",
                start=start,
                support="fill",
                noise=18.0,  # 0.3 at delta 1e-5
                labels=(1000, 4000, 10_000),
            )
            for start in STARTS[:-1]
        ),
    ),
)
"""5a, 5b: a fixed extra price, from every checkpoint. 5c: a fixed total, which an early checkpoint spends on counts."""

TRY_OUT = (
    (
        (
            PublicProblem(
                name="mnist, a tenth",
                private=4_000,
                public=2_000,
                polluted_by="fashion-mnist",
                pollution=857,
                labels=(100, 400),
                run=PrivateRun(epsilon=8.0, batch=200, epochs=4),
                tuning=Tuning(epochs=5),
                test=2_000,
            ),
        ),
        METHODS,
    ),
)
