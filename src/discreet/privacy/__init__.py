"""What things cost: budgets, events, accountants, trajectories, and the plan as a value."""
