"""Certificates: what a ledger proves, for people who have neither the ledger nor the data."""

from discreet.privacy.certificate.statement import bound, certify, read_certificate, write_certificate
from discreet.privacy.certificate.verification import Check, Verdict, verify

__all__ = ["Check", "Verdict", "bound", "certify", "read_certificate", "verify", "write_certificate"]
