"""Accountants: PLD makes the claim, RDP plans, cross-checks and filters."""
