"""Small streams for tests: the example's file, changed, and lines for it."""

import json
import random

from discreet.config import example, stream_config_from

TEXT = example("stream").replace("low = 0.02", "low = 0.3")
SEEDED = TEXT.replace("# [simulation]", "[simulation]").replace("# seed = 0", "seed = 7")
EVERYTHING = SEEDED.replace('name = "one-sided"', 'name = "everything"').replace('asked = "1"', "")
EVERYTHING = EVERYTHING.replace("low = 0.3", "").replace("asked = 10 ", "asked = 4 ")


def config_in(place, text=SEEDED, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return stream_config_from(text, directory=place)


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
