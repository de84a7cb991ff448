"""What does a privacy budget buy? Three answers for one hospital, before any data is touched.

100,000 scans, money for 5,000 labels, epsilon 8. Run: python examples/plan_a_campaign.py
"""

from discreet import plan

HOSPITAL = {
    "epsilon": 8,
    "delta": "1e-6",  # 1/(10 x 100,000 scans)
    "pool_size": 100_000,
    "initial": 2_000,
    "queries": [1_000, 1_000, 1_000],
    "batch": 512,
    "epochs": 20,
    "accountant": "rdp",  # leave this out for the claim by PLD; it takes seconds instead of milliseconds
}

CAMPAIGNS = {
    "ask at random": plan(**HOSPITAL),
    "ask by score, paper: 2/3 a query": plan(**HOSPITAL, selection="paper", selection_epsilon=2),
    "ask by score, one-sided: 2 a query": plan(**HOSPITAL, selection_epsilon=2, threshold_epsilon="0.05"),
    "the same, individual rates": plan(
        **HOSPITAL, selection_epsilon=2, threshold_epsilon="0.05", individual_rates=True
    ),
}

print(f"{'':36} {'sigma':>6} {'steps':>6} {'steps the newest record joins':>30}")
for name, made in CAMPAIGNS.items():
    steps = sum(phase.steps for phase in made.phases)
    newest = made.participations(len(made.cohorts) - 1)
    print(f"{name:36} {made.noise_multiplier:6.2f} {steps:6d} {newest:30.1f}")
    assert made.claim <= 8
