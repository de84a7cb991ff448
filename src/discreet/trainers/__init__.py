"""Who learns. `dp_sgd` trains any torch module by the plan's cohorts; `evaluation` says how well, for a price."""
