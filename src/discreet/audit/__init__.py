"""Attacks on a privacy claim: canaries by fair coins, one run, guesses, and a lower bound on epsilon that can fail."""

from discreet.audit.auditing import RECIPES, audit, injected_faults, targets_of
from discreet.audit.findings import LEVEL, Finding, Guesses, chance_of_so_many, guess, highest_provable, proved_epsilon
from discreet.audit.results import Audit, Audits, AuditTarget, Fault, TargetResult

__all__ = [
    "LEVEL",
    "RECIPES",
    "Audit",
    "AuditTarget",
    "Audits",
    "Fault",
    "Finding",
    "Guesses",
    "TargetResult",
    "audit",
    "chance_of_so_many",
    "guess",
    "highest_provable",
    "injected_faults",
    "proved_epsilon",
    "targets_of",
]
