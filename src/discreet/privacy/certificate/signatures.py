"""Signatures of certificates: Ed25519 (the `sign` extra brings `cryptography`).

A signature covers everything in the certificate but itself. It shows that the holder of the private key issued these
very bytes. Whose key it is, is known only to someone who has the public key from elsewhere. Keys are PEM files (PKCS 8
and SubjectPublicKeyInfo), as `openssl genpkey -algorithm ed25519` makes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.errors import BadInput, InvalidCertificate, MissingExtra
from discreet.privacy.ledger.charges import canonical

Form = dict[str, Any]
ALGORITHM = "ed25519"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was checked."""

    name: str
    ok: bool
    detail: str


def signed(form: Form, private_key: Path) -> Form:
    """``form`` with a signature by the key in ``private_key``."""
    key = _read_private(private_key)
    value = key.sign(signed_bytes(form))
    return form | {
        "signature": {"algorithm": ALGORITHM, "public_key": _raw(key.public_key()).hex(), "value": value.hex()}
    }


def signed_bytes(form: Form) -> bytes:
    """What a signature covers."""
    return canonical({name: value for name, value in form.items() if name != "signature"})


def signature_holds(form: Form) -> bool:
    """Whether the signature in ``form`` was made by the key it names."""
    ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature

    part = form["signature"]
    if set(part) != {"algorithm", "public_key", "value"} or part["algorithm"] != ALGORITHM:
        return False
    if not all(re.fullmatch(r"([0-9a-f]{2})+", str(part[name]), re.ASCII) for name in ("public_key", "value")):
        return False
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(part["public_key"]))
        key.verify(bytes.fromhex(part["value"]), signed_bytes(form))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def read_public(path: Path) -> str:
    """The public key in a PEM file, as the hex digits a certificate names it by."""
    ed25519 = _cryptography()
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise InvalidCertificate(f"reading {path.name}", "it is not an Ed25519 public key", "Give a PEM file")
    return _raw(key).hex()


def make_keys(path: Path) -> Path:
    """A new private key in ``path`` (mode 0600) and its public key beside it; returns where the public one is."""
    ed25519 = _cryptography()
    from cryptography.hazmat.primitives import serialization as form

    if not path.name or path.is_dir() or not path.absolute().parent.is_dir():
        raise BadInput("writing a key", "its place is a directory, or in one that does not exist", "Name a file")
    public = path.with_name(path.name + ".pub")
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    if public.exists():
        raise BadInput(f"writing {public.name}", "there is a key already", "Choose another name")
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadInput(f"writing {path.name}", "there is a key already", "Choose another name") from None
    with os.fdopen(handle, "wb") as file:
        file.write(secret)
    public.write_bytes(key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    return public


def _read_private(path: Path) -> Any:
    ed25519 = _cryptography()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise InvalidCertificate(
            f"reading {path.name}", "it is not an unencrypted Ed25519 private key", "Make one: discreet ledger keygen"
        )
    return key


def _raw(public_key: Any) -> bytes:
    return bytes(public_key.public_bytes_raw())


def _cryptography() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtra(
            "an Ed25519 signature", "the `cryptography` package is not installed", "pip install 'discreet[sign]'"
        ) from None
    return ed25519


def signature_checks(form: Form, public_key: str | None) -> Iterator[Check]:
    """Of any form that was signed: its own signature, and whether it is by a key that is known from elsewhere."""
    part = form.get("signature")
    if part is None:
        detail = "none: an edit on purpose cannot be found" if public_key is None else "none, though a key was given"
        yield Check(name="signature", ok=public_key is None, detail=detail)
        return
    if not isinstance(part, dict) or not signature_holds(form):
        yield Check(name="signature", ok=False, detail="it was not made by the key it names, or something was edited")
        return
    named = str(part["public_key"])
    if public_key is not None:
        ok = named == public_key
        yield Check(name="signature", ok=ok, detail="by the given key" if ok else "by another key than the given one")
    else:
        yield Check(
            name="signature", ok=True, detail=f"by key {named[:16]}...; give --public-key to check whose that is"
        )
