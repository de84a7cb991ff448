"""Published models: whole, hashed, versioned; and what is refused."""

import json
from itertools import pairwise

import pytest
from small_streams import EVERYTHING, TEXT, config_in, label, record

from discreet.errors import InvalidCheckpoint
from discreet.stream.publishing import load_published
from discreet.stream.service import StreamService
from discreet.stream.stream_directory import verify_stream


def run(place, *changes, count=60, text=EVERYTHING):
    told = []
    config = config_in(place, text, *changes)
    with StreamService(config, on_publish=lambda version, digest: told.append((version, digest))) as service:
        for start in range(0, count, 5):
            numbers = range(start, start + 5)
            forms = [record(number, label=label(number)["label"]) for number in numbers]
            service.take([service.form.read(json.dumps(form).encode()) for form in forms])
        return config, told, service.learner.model()


@pytest.mark.parametrize("kind", ["json", "safetensors"])
def test_models_are_versioned_hashed_and_complete(tmp_path, kind):
    config, told, model = run(tmp_path, ("every = 1 ", f'file = "{kind}"\nevery = 1 '))
    paths = sorted(config.models.glob("model-*.json"))
    assert [version for version, _ in told] == [int(path.stem[6:]) for path in paths]
    assert (config.models / "latest.json").read_bytes() == paths[-1].read_bytes()
    form = json.loads(paths[-1].read_text())
    assert (form["format"], form["audience"], form["simulation"]) == ("discreet.published-model/1", "public", True)
    assert form["sha256"] == told[-1][1]
    found = load_published(config.models / "latest.json")
    assert (found.name, found.model.version) == ("payments", model.version)
    assert found.model.to_json() == model.to_json()
    assert found.model.claim.epsilon == 2
    assert set(found.predict([record(number) for number in range(20)])) <= {"ok", "fraud"}
    assert verify_stream(config).ok


def test_a_changed_file_is_found(tmp_path):
    config, _, _ = run(tmp_path, ("every = 1 ", 'file = "safetensors"\nevery = 1 '))
    path = sorted(config.models.glob("model-*.json"))[1]
    text = path.read_text()
    path.write_text(text.replace('"fraud"', '"frauds"'))
    with pytest.raises(InvalidCheckpoint, match="not what its hash says"):
        load_published(path)
    assert [one.name for one in verify_stream(config).checks if not one.ok] == ["models"]
    path.write_text(text)
    weights = path.with_suffix(".safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    with pytest.raises(InvalidCheckpoint, match="not the ones it names"):
        load_published(path)
    path.write_text("[]")
    with pytest.raises(InvalidCheckpoint, match="not a published model"):
        load_published(path)


def test_every_so_many_and_the_newest_are_kept(tmp_path):
    config, told, _ = run(tmp_path, ("every = 1 ", "keep = 2\nevery = 3 "), count=100)
    versions = [version for version, _ in told]
    assert versions[0] == 0
    assert all(later - earlier >= 3 for earlier, later in pairwise(versions))
    assert sorted(path.name for path in config.models.iterdir()) == [
        "latest.json",
        *(f"model-{version:08d}.json" for version in versions[-2:]),
    ]


def test_what_a_killed_process_left_is_mended(tmp_path):
    config, _, _ = run(tmp_path)
    latest = config.models / "latest.json"
    newest = latest.read_bytes()
    latest.write_bytes((config.models / "model-00000000.json").read_bytes())
    (config.models / ".model-00000099.json.1.part").write_text("half")
    StreamService(config).close()
    assert latest.read_bytes() == newest
    assert not list(config.models.glob(".*"))


def test_a_file_that_declares_something_else_does_not_verify(tmp_path):
    config, _, _ = run(tmp_path, text=TEXT)
    assert verify_stream(config).ok
    other = config_in(tmp_path, TEXT, ("low = 0.3", "low = 0.2"))
    assert [one.name for one in verify_stream(other).checks if not one.ok] == ["charge"]
    other = config_in(tmp_path, TEXT, ('epsilon = "2"', 'epsilon = "3"'))
    assert {one.name for one in verify_stream(other).checks if not one.ok} == {"charge", "budget"}
