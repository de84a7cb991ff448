"""10^5 mutated files: a clear error or a failed check, never a traceback, never a wrong "ok".

The quick tests read the first fifth of them, `make long` all.
"""

import copy
import json
import random

import pytest

from discreet.errors import BadInput, DiscreetError
from discreet.noise import SecretKey
from discreet.noise.keys import read_secret
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import certify
from discreet.privacy.certificate.statement import digest_of, dump_certificate
from discreet.privacy.certificate.verification import verify_certificate, verify_ledger
from discreet.privacy.event_forms import from_json
from discreet.privacy.events import Laplace, PoissonSampledGaussian, Pure, ThresholdResponse
from discreet.privacy.ledger import ChargeReason, Ledger, Line, MemorySink, Path, PathSegment, adaptive, committed
from discreet.privacy.ledger.charges import sealed
from discreet.privacy.ledger.sinks import whole_lines

pytestmark = pytest.mark.thorough

STEP = PoissonSampledGaussian(sampling_rate=0.1, noise_multiplier=4.0)
SALT = [None, True, False, 0, -1, 1, 10**30, 1e308, -0.0, "", "x", "1e400", "NaN", "Infinity", "\ud800", [], {}, [[]]]
BYTES = [b"", b"\0", b"\n", b"\r", b'"', b"{", b"}", b"[", b"]", b",", b":", b"-", b"9", b"e", b"\\", b"\xff", b"NaN"]


@pytest.fixture(params=[5, pytest.param(1, marks=pytest.mark.long)], ids=["a fifth", "all"])
def part(request):
    return request.param


def mutated(data, chance):
    """``data`` with a few bytes flipped, dropped, doubled, swapped or cut."""
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if place < len(data):
                data[place] ^= 1 << chance.randrange(8)
            case 1:
                data[place:place] = chance.choice(BYTES)
            case 2:
                del data[place : place + chance.choice([1, 1, 2, 30])]
            case 3:
                other = chance.randrange(len(data) + 1)
                data[place:place] = data[other : other + chance.choice([1, 5, 60])]
            case 4:
                del data[place:]
            case _:
                data[place : place + 1] = chance.choice(BYTES)
        if not data:
            break
    return bytes(data)


def salted(form, chance):
    """``form`` with one value somewhere replaced, removed or doubled."""
    made = copy.deepcopy(form)
    part = made
    while True:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        if not keys:
            return made
        key = chance.choice(keys)
        if isinstance(part[key], (dict, list)) and part[key] and chance.random() < 0.8:
            part = part[key]
            continue
        match chance.randrange(4):
            case 0:
                del part[key]
            case 1 if isinstance(part, dict):
                part[chance.choice(["hash", "extra", "count"])] = chance.choice(SALT)
            case _:
                part[key] = chance.choice(SALT)
        return made


@pytest.fixture(scope="module")
def ledger_lines():
    paths = [
        Path(
            name="asked", stays=(PathSegment(who="pool", last=1, choice="asked"), PathSegment(who="phase-1", first=1))
        ),
        Path(name="missed", stays=(PathSegment(who="pool", choice="missed"),)),
    ]
    ask = ThresholdResponse(asked="0.5", missed="0.25")
    lines = [Line(who="pool", phase=1, event=ask), Line(who="phase-1", phase=1, event=Pure(epsilon="0.1"), count=5)]
    terms = committed(Budget(epsilon=1, delta=0), lines, paths=paths, accountant="rdp")
    sink = MemorySink()
    with Ledger.create(sink, terms) as ledger:
        for line in lines:
            ledger.charge(event=line.event, count=line.count, who=line.who, why=ChargeReason(phase=1, purpose="run"))
        certificate = dump_certificate(certify(ledger)).encode()
    return sink.read(), certificate


@pytest.fixture(scope="module")
def filtered_lines():
    sink = MemorySink()
    with Ledger.create(sink, adaptive(Budget(epsilon=3, delta="1e-5"), orders=[6.0])) as ledger:
        ledger.charge(event=STEP, count=5, who="pool", why="train")
        ledger.charge_together({"a": Laplace(epsilon="0.1"), "b": Laplace(epsilon="0.2")}, why="count")
        certificate = dump_certificate(certify(ledger)).encode()
    return sink.read(), certificate


@pytest.mark.parametrize("which", ["ledger_lines", "filtered_lines"])
def test_mutated_ledgers(which, request, part):
    """25,000 files each. Only a file whose whole lines begin the true ones may pass: a shorter ledger is a ledger."""
    lines, _ = request.getfixturevalue(which)
    data, chance = b"".join(lines), random.Random(which)
    passed = 0
    for _ in range(25_000 // part):
        made = mutated(data, chance)
        found = verify_ledger(made)
        if found.ok:
            passed += 1
            kept = whole_lines(made)
            assert kept == lines[: len(kept)]
    assert 0 < passed < 5000 // part


@pytest.mark.parametrize("which", ["ledger_lines", "filtered_lines"])
def test_mutated_certificates(which, request, part):
    """15,000 files each. Only the very same bytes may pass."""
    _, data = request.getfixturevalue(which)
    chance = random.Random(which)
    assert verify_certificate(data).ok
    for _ in range(15_000 // part):
        made = mutated(data, chance)
        try:
            found = verify_certificate(made)
        except BadInput as error:
            assert error.fact
            continue
        assert not found.ok or made == data


@pytest.mark.parametrize("which", ["ledger_lines", "filtered_lines"])
def test_salted_ledgers_with_right_hashes(which, request, part):
    """3,000 each, every hash made right again: it is read or refused, and what is read keeps its own terms."""
    lines, _ = request.getfixturevalue(which)
    forms, chance = [json.loads(line) for line in lines], random.Random(which)
    for _ in range(3000 // part):
        place, made, previous = chance.randrange(len(forms)), [], ""
        for number, form in enumerate(forms):
            one = salted(form, chance) if number == place else dict(form)
            one.pop("hash", None)
            if number and number != place:
                one["previous"] = previous
            try:
                line, previous = sealed(one)
            except (ValueError, TypeError):
                break  # not even JSON can hold it
            made.append(line)
        verify_ledger(b"".join(made))


@pytest.mark.parametrize("which", ["ledger_lines", "filtered_lines"])
def test_salted_certificates_with_right_digests(which, request, part):
    """3,000 each, the digest made right again: an "ok" then has the true claim, or one no smaller."""
    _, data = request.getfixturevalue(which)
    form, chance = json.loads(data), random.Random(which)
    for _ in range(3000 // part):
        made = salted(form, chance)
        try:
            made["digest"] = digest_of(made)
            text = dump_certificate(made).encode()
        except (ValueError, TypeError):
            continue
        try:
            found = verify_certificate(text)
        except BadInput:
            continue
        if found.ok and made["trajectories"] == form["trajectories"]:
            assert float(found.claim["epsilon"]) >= float(form["claim"]["epsilon"])


def test_mutated_keys(tmp_path):
    """4,000 key files: read as a key or refused, and never echoed."""
    place, chance = tmp_path / "master.key", random.Random(4)
    SecretKey(bytes(range(32))).write(place)
    data = place.read_bytes()
    for _ in range(4000):
        place.write_bytes(mutated(data, chance))
        try:
            assert len(read_secret(place, "master")["key"]) == 32
        except BadInput as error:
            assert "0001020304" not in str(error)


def test_salted_events():
    """4,000 stored events."""
    form = json.loads(json.dumps(PMF))
    chance = random.Random(5)
    for _ in range(4000):
        try:
            from_json(salted(form, chance))
        except DiscreetError as error:
            assert error.fact


PMF = {
    "kind": "composed",
    "version": 1,
    "events": [
        {"kind": "pmf-family", "version": 1, "present": [[0.5, 0.5]], "absent": [[0.25, 0.75]]},
        {"kind": "repeated", "version": 1, "count": 3, "event": {"kind": "laplace", "version": 1, "epsilon": "0.5"}},
        {"kind": "discrete-laplace", "version": 1, "epsilon": "0.5", "sensitivity": 2},
    ],
}
