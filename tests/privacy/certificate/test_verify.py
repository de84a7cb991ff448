"""A certificate is believed in nothing: edits, forgeries and truncations, and what signing adds."""

import contextlib
import copy
import json
import subprocess
import time

import pytest

from discreet import plan
from discreet.cli.app import run
from discreet.errors import BadInput, InvalidCertificate, TooMuchWork
from discreet.noise import Seeded
from discreet.privacy.budget import Budget
from discreet.privacy.certificate import certify, verify, write_certificate
from discreet.privacy.certificate.signatures import make_keys, signed
from discreet.privacy.certificate.statement import digest_of, dump_certificate
from discreet.privacy.certificate.verification import verify_certificate, verify_ledger
from discreet.privacy.event_forms import to_json
from discreet.privacy.events import Laplace, PmfFamily, PoissonSampledGaussian, Pure, Repeated
from discreet.privacy.ledger import ChargeReason, FileSink, Ledger, Line, MemorySink, adaptive, committed, terms_of
from discreet.privacy.ledger.charges import sealed

pytestmark = pytest.mark.thorough

STEP = PoissonSampledGaussian(sampling_rate=0.05, noise_multiplier=3.0)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """A committed ledger of a small plan with some charges, its file and its certificate."""
    made = plan(epsilon=4, delta="1e-5", initial=1000, queries=[200], batch=100, epochs=3, selection_epsilon=1)
    place = tmp_path_factory.mktemp("campaign") / "a.ledger"
    with Ledger.create(FileSink(place), terms_of(made)) as ledger:
        for line in ledger.terms.lines[:3]:
            why = ChargeReason(phase=line.phase, purpose="run")
            ledger.charge(event=line.event, count=line.count, who=line.who, why=why)
        form = certify(ledger)
    return made, place, form


@pytest.fixture(scope="module")
def filtered():
    ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=3, delta="1e-5"), expect=STEP))
    ledger.charge(event=STEP, count=40, who="pool", why="train")
    ledger.charge(event=Laplace(epsilon="0.25"), who="pool", why="count")
    return ledger, certify(ledger)


def text_of(form):
    return dump_certificate(form).encode()


def failed(verdict):
    return [check.name for check in verdict.checks if not check.ok]


def test_a_certificate_holds_and_says_what_the_plan_said(campaign):
    made, place, form = campaign
    verdict = verify_certificate(text_of(form), lines=place.read_bytes().splitlines(keepends=True))
    assert failed(verdict) == []
    assert form["claim"]["epsilon"] == pytest.approx(made.claim, rel=2e-3)
    assert form["claim"]["epsilon"] <= made.claim
    for path, planned in zip(form["trajectories"], made.trajectories, strict=True):
        assert path["name"] == planned.name
        assert path["epsilon_rdp"] == pytest.approx(planned.epsilon_rdp, rel=1e-8)
        assert path["epsilon_pld"] <= planned.epsilon_pld + 1e-9
    assert form["budget"] == {"epsilon": 4, "delta": 1e-5, "unit": "record", "relation": "zero-out"}
    assert (form["mode"], form["accountant"], form["simulation"]) == ("committed", "pld", False)


def test_an_adaptive_certificate_claims_its_whole_budget_and_no_pld(filtered):
    ledger, form = filtered
    assert failed(verify_certificate(text_of(form))) == []
    assert form["claim"] == {"epsilon": 3, "delta": 1e-5, "trajectory": "every path"}
    (path,) = form["trajectories"]
    assert path["epsilon_pld"] is None
    assert path["epsilon_rdp"] == pytest.approx(float(ledger.total("everyone").epsilon))


def test_stopping_early_still_claims_the_whole_plan(campaign):
    _, place, form = campaign
    with Ledger.open(FileSink(place)) as ledger:
        assert any(rest for _, rest in ledger.lines_left())
        assert certify(ledger)["claim"] == form["claim"]


def test_pure_ledgers_have_delta_zero_and_the_plain_sum():
    ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=1, delta=0)))
    for _ in range(10):
        ledger.charge(event=Laplace(epsilon="0.1"), who="pool", why="count")
    form = certify(ledger)
    assert failed(verify_certificate(text_of(form))) == []
    assert (form["claim"]["delta"], form["trajectories"][0]["epsilon_rdp"]) == (0, 1.0)


def test_a_simulation_says_so_everywhere():
    ledger = Ledger.create(MemorySink(), adaptive(Budget(epsilon=1, delta=0)), source=Seeded(1))
    form = certify(ledger)
    assert form["simulation"] is True
    assert verify_certificate(text_of(form)).simulation


# -- edits


def places(value, path=()):
    """Every number in a form."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))
    elif isinstance(value, (int, float, str)) and not isinstance(value, bool) and is_number(value):
        yield path


def is_number(value):
    try:
        float(value)
    except ValueError:
        return False
    return True


def scaled(form, path, factor):
    edited = copy.deepcopy(form)
    part = edited
    for key in path[:-1]:
        part = part[key]
    old = part[path[-1]]
    if isinstance(old, str):
        part[path[-1]] = str(float(old) * factor)
    elif isinstance(old, int):
        part[path[-1]] = old + (1 if factor > 1 else -1)
    else:
        part[path[-1]] = old * factor
    edited["digest"] = digest_of(edited)
    return edited


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_every_number_that_matters_is_computed_again(filtered, factor):
    """The digest is made right, as a forger would; each number alone is then inconsistent with the others."""
    _, form = filtered
    for path in places({key: form[key] for key in ("claim", "trajectories", "orders")}):
        verdict = verify_certificate(text_of(scaled(form, path, factor)))
        assert not verdict.ok, path


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_every_number_of_a_committed_certificate_is_computed_again(campaign, factor):
    _, _, form = campaign
    small = copy.deepcopy(form)
    tried = 0
    for path in places({key: small[key] for key in ("claim", "trajectories")}):
        if path[-1] == "version" or tried >= 14:
            continue
        tried += 1
        assert not verify_certificate(text_of(scaled(form, path, factor))).ok, path
    assert tried == 14


def edited(form, **parts):
    made = copy.deepcopy(form) | parts
    return made | {"digest": digest_of(made)}


def test_a_promise_cannot_be_made_smaller(campaign):
    _, _, form = campaign
    less = form["budget"] | {"epsilon": 3}
    assert failed(verify_certificate(text_of(edited(form, budget=less)))) == ["claim"]
    replaced = form["budget"] | {"relation": "replace-one"}
    assert not verify_certificate(text_of(edited(form, budget=replaced))).ok
    assert not verify_certificate(text_of(edited(form, trajectories=form["trajectories"][1:]))).ok
    assert not verify_certificate(text_of(edited(form, mode="adaptive"))).ok
    assert not verify_certificate(text_of(edited(form, accountant="rdp"))).ok
    assert not verify_certificate(text_of(edited(form, accountant="gdp"))).ok


def test_dropping_a_path_is_found_against_the_ledger(campaign):
    """An unsigned certificate rewritten consistently stands alone; beside its ledger it does not."""
    _, place, form = campaign
    kept = [path for path in form["trajectories"] if path["name"] != "never-asked"]
    made = edited(form, trajectories=kept)
    assert verify_certificate(text_of(made)).ok
    assert failed(verify_certificate(text_of(made), lines=place.read_bytes().splitlines(keepends=True))) == ["terms"]


def test_any_byte_changed_without_a_new_digest_is_found(filtered):
    _, form = filtered
    data = text_of(form)
    for place in range(0, len(data), 7):
        for change in (b"", b" ", b"1"):
            made = data[:place] + change + data[place + 1 :]
            if made == data:
                continue
            with contextlib.suppress(InvalidCertificate):
                assert not verify_certificate(made).ok


def test_a_truncated_or_other_ledger_is_found_against_the_head(campaign):
    _, place, form = campaign
    lines = place.read_bytes().splitlines(keepends=True)
    assert verify_ledger(b"".join(lines[:-1])).ok  # by itself a shorter ledger looks whole
    assert failed(verify_certificate(text_of(form), lines=lines[:-1])) == ["head"]
    with Ledger.open(MemorySink(list(lines))) as ledger:
        line = ledger.terms.lines[3]
        ledger.charge(event=line.event, who=line.who, why=ChargeReason(phase=line.phase, purpose="later"))
        grown = ledger._sink.read()
    assert verify_certificate(text_of(form), lines=grown).ok
    other = Ledger.create(MemorySink(), terms_of(campaign[0]))
    assert "ledger" in failed(verify_certificate(text_of(form), lines=other._sink.read()))
    swapped = [lines[0], lines[2], lines[1], *lines[3:]]
    assert failed(verify_certificate(text_of(form), lines=swapped)) == ["ledger"]


def test_a_rewritten_history_is_found_against_the_head(campaign):
    """The last entry is replaced by a cheaper one with right hashes: only the head tells."""
    _, place, form = campaign
    lines = place.read_bytes().splitlines(keepends=True)
    with Ledger.open(MemorySink(lines[:-1])) as ledger:
        line = ledger.terms.lines[2]
        ledger.charge(event=line.event, count=1, who=line.who, why=ChargeReason(phase=line.phase, purpose="run"))
        rewritten = ledger._sink.read()
    assert verify_ledger(b"".join(rewritten)).ok
    assert failed(verify_certificate(text_of(form), lines=rewritten)) == ["head"]


@pytest.mark.parametrize(
    "name", ["p\nok      signature: by the given key", "\x1b[2J", "\ud800", "", ["p"], None, "x" * 500]
)
def test_a_name_cannot_draw_lines_of_its_own(filtered, name):
    _, form = filtered
    made = copy.deepcopy(form)
    made["trajectories"][0]["name"] = name
    made["digest"] = digest_of(made)
    verdict = verify_certificate(text_of(made))
    assert failed(verdict) == ["form"]
    assert verdict.claim is None


@pytest.mark.parametrize(
    "parts",
    [{"ledger": None}, {"ledger": "x"}, {"versions": [[]]}, {"issued": {}}, {"plan": "\n"}, {"simulation": 0}],
)
def test_what_is_only_shown_is_checked_too(filtered, parts):
    assert failed(verify_certificate(text_of(edited(filtered[1], **parts)))) == ["form"]


def test_a_missing_signature_is_said_to_be_missing(filtered):
    verdict = verify_certificate(text_of(filtered[1]))
    assert verdict.ok
    assert not verdict.signed
    (line,) = [check.detail for check in verdict.checks if check.name == "signature"]
    assert "an edit on purpose cannot be found" in line


def test_a_mechanism_that_rdp_cannot_price_is_certified_by_pld():
    """Two outcomes, one impossible without the record: PLD has it at delta, RDP at infinity."""
    event = PmfFamily(present=((1 - 1e-6, 1e-6),), absent=((1.0, 0.0),))
    ledger = Ledger.create(MemorySink(), committed(Budget(epsilon=1, delta="1e-5"), [Line(who="pool", event=event)]))
    ledger.charge(event=event, who="pool", why="gate")
    form = certify(ledger)
    assert form["trajectories"][0]["epsilon_rdp"] is None
    assert failed(verify_certificate(text_of(form))) == []


# -- signatures


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    place = tmp_path_factory.mktemp("keys")
    make_keys(place / "ours.pem")
    make_keys(place / "theirs.pem")
    return place


def test_with_a_signature_any_edit_is_found(filtered, keys, tmp_path):
    _, form = filtered
    ours = signed(form, keys / "ours.pem")
    place = tmp_path / "certificate.json"
    write_certificate(ours, place)
    public = keys / "ours.pem.pub"
    assert verify(place, public_key=public).ok
    consistent = ours | {"issued": "2020-01-01"}
    for made in (
        consistent,
        consistent | {"digest": digest_of(consistent)},
        ours | {"signature": None},
        ours | {"signature": ours["signature"] | {"algorithm": "none"}},
        ours | {"signature": ours["signature"] | {"value": "00" * 64}},
        ours | {"signature": {"public_key": "00", "value": "00"}},
        ours | {"signature": ours["signature"] | {"public_key": ours["signature"]["public_key"] + "\n"}},
        ours | {"signature": "signed"},
        signed(form, keys / "theirs.pem"),
    ):
        write_certificate(made, place)
        assert "signature" in failed(verify(place, public_key=public)) or not verify(place, public_key=public).ok
    write_certificate(signed(form, keys / "theirs.pem"), place)
    verdict = verify(place)  # nobody said whose signature it should be
    assert verdict.ok
    assert "give --public-key" in next(check.detail for check in verdict.checks if check.name == "signature")


def test_keys_are_private_and_those_openssl_makes(keys, tmp_path, filtered):
    assert (keys / "ours.pem").stat().st_mode & 0o777 == 0o600
    with pytest.raises(BadInput, match="already"):
        make_keys(keys / "ours.pem")
    made = tmp_path / "openssl.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", made], check=True)
    public = subprocess.run(["openssl", "pkey", "-in", made, "-pubout"], check=True, capture_output=True).stdout
    (tmp_path / "openssl.pub").write_bytes(public)
    write_certificate(signed(filtered[1], made), tmp_path / "c.json")
    assert verify(tmp_path / "c.json", public_key=tmp_path / "openssl.pub").ok


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_what_is_no_key_is_refused_by_name(content, tmp_path, filtered):
    (tmp_path / "key.pem").write_bytes(content)
    with pytest.raises(InvalidCertificate, match="key.pem"):
        signed(filtered[1], tmp_path / "key.pem")
    write_certificate(filtered[1], tmp_path / "c.json")
    with pytest.raises(InvalidCertificate, match="key.pem"):
        verify(tmp_path / "c.json", public_key=tmp_path / "key.pem")


def test_a_public_key_demands_a_signature(filtered, keys, tmp_path):
    write_certificate(filtered[1], tmp_path / "c.json")
    assert failed(verify(tmp_path / "c.json", public_key=keys / "ours.pem.pub")) == ["signature"]


# -- files that are something else


@pytest.mark.parametrize("content", [b"", b"\n", b"{}", b"[]", b"null", b'{"format": 7}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_neither_is_said_to_be_neither(content, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(BadInput):
        verify(tmp_path / "file")


def test_a_certificate_that_would_cost_hours_to_price_is_refused_quickly(filtered):
    _, form = filtered
    for event in (Pure(epsilon=10**9), PoissonSampledGaussian(sampling_rate=0.5, noise_multiplier=1e-4)):
        made = copy.deepcopy(form) | {"mode": "committed", "accountant": "pld", "orders": []}
        from discreet.privacy.event_forms import to_json

        made["trajectories"][0]["training"][0] = {
            "kind": "repeated",
            "version": 1,
            "event": to_json(event),
            "count": 10**15,
        }
        made["digest"] = digest_of(made)
        assert not verify_certificate(text_of(made)).ok


def test_json_is_what_the_reader_sees(campaign):
    _, _, form = campaign
    assert json.loads(dump_certificate(form)) == form


def hostile(form, events, *, paths=1):
    """A certificate in its right form, with so many other events; computing them would take hours."""
    made = copy.deepcopy(form)
    path = made["trajectories"][0] | {"selection": [], "forward": 0, "backward": 0, "training": events}
    made["trajectories"] = [path | {"name": f"path {number}"} for number in range(paths)]
    made["digest"] = digest_of(made)
    return made


def different(count):
    return [PoissonSampledGaussian(sampling_rate=0.01 + number * 1e-5, noise_multiplier=3.0) for number in range(count)]


def steps(count):
    return [to_json(Repeated(event=event, count=10)) for event in different(count)]


@pytest.mark.parametrize(("events", "paths"), [(400, 1), (30, 400), (900, 3)])
def test_a_certificate_of_too_much_work_is_refused_before_it_is_computed(campaign, tmp_path, capsys, events, paths):
    data = text_of(hostile(campaign[2], steps(events), paths=paths))
    before = time.process_time()
    with pytest.raises(TooMuchWork, match="within the limit") as refused:
        verify_certificate(data)
    assert time.process_time() - before < 20
    assert "--max-seconds" in refused.value.remedy
    (tmp_path / "hostile.json").write_bytes(data)
    assert run(["verify", str(tmp_path / "hostile.json")]) == 2
    assert "cannot be checked within the limit" in capsys.readouterr().err


def test_a_ledger_of_too_much_work_is_refused_before_it_is_computed():
    lines = [
        Line(
            who="pool", event=PoissonSampledGaussian(sampling_rate=0.01 + number * 1e-5, noise_multiplier=0.6), count=9
        )
        for number in range(900)
    ]
    sink = MemorySink()
    terms = committed(Budget(epsilon=1000, delta="1e-5"), lines, accountant="rdp")
    Ledger.create(sink, terms).close()
    opening = json.loads(sink.read()[0])
    opening.pop("hash")
    opening["terms"]["accountant"] = "pld"
    line, _ = sealed(opening)
    with pytest.raises(TooMuchWork):
        verify_ledger(line, most_seconds=100)


def test_the_limit_is_an_option_and_the_estimate_is_deterministic(campaign, tmp_path, capsys):
    data = text_of(campaign[2])
    said = set()
    for _ in range(2):
        with pytest.raises(TooMuchWork) as refused:
            verify_certificate(data, most_seconds=0.01)
        said.add(str(refused.value))
    assert len(said) == 1
    (tmp_path / "hostile.json").write_bytes(text_of(hostile(campaign[2], steps(30))))
    assert run(["verify", str(tmp_path / "hostile.json"), "--max-seconds", "1"]) == 2
    assert run(["verify", str(tmp_path / "hostile.json"), "--max-seconds", "100"]) == 1
    assert "does not hold" in capsys.readouterr().out


def test_what_the_estimate_does_not_foresee_is_ended(campaign, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("discreet.privacy.certificate.verification.path_seconds", lambda *_, **__: 0.0)
    monkeypatch.setattr("discreet.cli.verify._PATIENCE", 1)
    (tmp_path / "hostile.json").write_bytes(text_of(hostile(campaign[2], steps(300))))
    assert run(["verify", str(tmp_path / "hostile.json"), "--max-seconds", "2"]) == 2
    assert "of the processor were not enough" in capsys.readouterr().err
