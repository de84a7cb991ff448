"""Small streams for tests: the example's file, changed, and lines for it."""

import json
import random

from discreet.config import StreamConfig, example

TEXT = example("stream").replace("low = 0.02", "low = 0.3")
SEEDED = TEXT.replace("# [simulation]", "[simulation]").replace("# seed = 0", "seed = 7")
EVERYTHING = SEEDED.replace('name = "one-sided"', 'name = "everything"').replace('asked = "1"', "")
EVERYTHING = EVERYTHING.replace("low = 0.3", "").replace("asked = 10 ", "asked = 4 ")


def config_in(place, text=SEEDED, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return StreamConfig.from_text(text, directory=place)


def record(number, **more):
    chance = random.Random(number)
    fraud = chance.random() < 0.4
    fields = {
        "id": f"p{number}",
        "amount": round(chance.gauss(150 if fraud else 10, 40), 2),
        "hour": 3,
        "country": "fr",
    }
    return fields | more


def label(number):
    chance = random.Random(number)
    return {"id": f"p{number}", "label": "fraud" if chance.random() < 0.4 else "ok"}


def written(lines):
    return "".join(json.dumps(line) + "\n" for line in lines)


def lines_of(service, forms):
    return [service.form.read(json.dumps(form).encode()) for form in forms]


def taken(service, forms, *, batch=None):
    """All decisions for these lines, in batches of ``batch``."""
    lines = lines_of(service, forms)
    size = batch or max(1, len(lines))
    return [one for start in range(0, len(lines), size) for one in service.take(lines[start : start + size]).answers]


def mixed(count):
    """Records, with labels before, with, after and long after them."""
    forms = []
    for number in range(count):
        if number % 7 == 3:
            forms.append(label(number))
        forms.append(record(number, **({"label": label(number)["label"]} if number % 7 == 5 else {})))
        if number % 7 == 1:
            forms.append(label(number))
        if number >= 20 and number % 3 == 0:
            forms.append(label(number - 20))
    return forms


def state_of(service):
    body, arrays = service.packed_state()
    body["table"]["learner"]["table"].pop("ledger")
    return json.dumps(body, sort_keys=True), arrays, service.store.open_questions()
