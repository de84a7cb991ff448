"""Reproductions of published results, attack and power studies, and injected faults. Not part of the discreet wheel."""
