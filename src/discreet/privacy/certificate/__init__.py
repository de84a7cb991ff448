"""Certificates: what a ledger proves, for people who have neither the ledger nor the data."""

from discreet.privacy.certificate.signatures import Check
from discreet.privacy.certificate.statement import bound, certify, read_certificate, with_parts, write_certificate
from discreet.privacy.certificate.verification import Verdict, verify

__all__ = ["Check", "Verdict", "bound", "certify", "read_certificate", "verify", "with_parts", "write_certificate"]
