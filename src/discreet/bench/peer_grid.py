"""The grid of `peers`: two problems, strategies without privacy played twice, campaigns trained twice."""

from __future__ import annotations

from discreet.bench.methods import Method
from discreet.bench.peer_cases import Loop, PeerMethod
from discreet.bench.peer_loops import STRATEGIES, UNCERTAINTY
from discreet.bench.problems import Problem

SCORE = "margin"
DIGITS = Problem(
    name="digits, eps 8",
    data="digits",
    rare=5,
    initial=100,
    queries=(50, 50, 50),
    epsilon="8",
    batch=100,
    epochs=15,
    score=SCORE,
    features=200,
    travel=2000.0,
    accountant="rdp",
)
MNIST = Problem(
    name="mnist, 2,000 records, eps 8",
    data="mnist",
    rare=20,
    pool=2000,
    initial=300,
    queries=(150, 150, 150),
    epsilon="8",
    batch=300,
    epochs=15,
    score=SCORE,
    pictures="pixels",
    features=200,
    travel=3000.0,
    accountant="rdp",
)
CAMPAIGNS = (
    Method(name="random", mechanism="random"),
    Method(name="exact", mechanism="exact"),
    Method(
        name="threshold response, 3",
        mechanism="threshold-response",
        selection_epsilon="3",
        threshold_epsilon="0.05",
        individual_rates=True,
        above=0.1,
    ),
    Method(name="hidden threshold", mechanism="hidden-threshold", threshold_epsilon="0.2"),
)
BY_OPACUS = ("random", "exact", "hidden threshold")


def _alone(loop: Loop, strategies: tuple[str, ...]) -> tuple[PeerMethod, ...]:
    return tuple(PeerMethod(name=f"{loop}, {one}", loop=loop, strategy=one) for one in strategies)


def _trained(loop: Loop, methods: tuple[Method, ...]) -> tuple[PeerMethod, ...]:
    return tuple(PeerMethod(name=f"{one.name}, {loop}", loop=loop, campaign=one) for one in methods)


METHODS = (
    *_alone("scikit-activeml", STRATEGIES),
    *_alone("discreet", ("random", *UNCERTAINTY)),
    *_trained("DP-SGD", CAMPAIGNS),
    *_trained("Opacus", tuple(one for one in CAMPAIGNS if one.name in BY_OPACUS)),
)
SLOW = ("core-set", "badge")
"""Strategies that compare records with one another: with thousands they take longer than all others together."""
PEERS = (((DIGITS,), METHODS), ((MNIST,), tuple(one for one in METHODS if one.strategy not in SLOW)))
SEEDS = 5
