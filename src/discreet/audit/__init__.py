"""Does the claim hold when it is attacked: canaries by fair coins, one run, guesses, and a bound that can fail."""

from discreet.audit.audited import Audit, Audited, Audits
from discreet.audit.auditing import PLANTS_OF, RECIPES, audit
from discreet.audit.bound import chance_of_so_many, guesses_needed, highest_provable, proved_epsilon
from discreet.audit.guesses import Guesses, guess
from discreet.audit.planted import PLANTS
from discreet.audit.pool_audit import audit_pool
from discreet.audit.verdict import LEVEL, Finding

__all__ = [
    "LEVEL",
    "PLANTS",
    "PLANTS_OF",
    "RECIPES",
    "Audit",
    "Audited",
    "Audits",
    "Finding",
    "Guesses",
    "audit",
    "audit_pool",
    "chance_of_so_many",
    "guess",
    "guesses_needed",
    "highest_provable",
    "proved_epsilon",
]
