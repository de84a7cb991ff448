"""Pictures are made of a record's pixels: as PNG that others can read, and nothing of a file in them."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from discreet.pools import ArrayPool, open_pool
from discreet.pools.images import png
from discreet.web.queue import picture_of, view_of


def read(content):
    return np.asarray(Image.open(io.BytesIO(content), formats=["PNG"]))


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (1, 4, 6), (3, 3, 7), (3, 64, 48)])
def test_png_is_read_back_as_it_was(shape):
    pixels = np.random.default_rng(0).integers(0, 256, size=shape).astype(np.uint8)
    expected = np.moveaxis(pixels, 0, -1) if shape[0] == 3 else pixels.reshape(shape[-2:])
    assert (read(png(pixels)) == expected).all()
    doubled = read(png(pixels, least=2 * max(shape[-2:])))
    assert (doubled == expected.repeat(2, axis=0).repeat(2, axis=1)).all()


def test_bytes_are_shown_as_they_are_and_other_numbers_stretched():
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 100, size=(2, 6, 4)).astype(np.uint8)
    assert (read(picture_of(ArrayPool(ids=["a", "b"], x=grey), "b")) == grey[1]).all()
    unit = rng.random((1, 1, 4, 4)).astype(np.float32) / 2
    assert (read(picture_of(ArrayPool(ids=["a"], x=unit), "a")) == np.rint(unit[0, 0].astype(float) * 255)).all()
    wide = np.array([[[-3.0, 1.0], [5.0, 1.0]]], dtype=np.float32)
    assert read(picture_of(ArrayPool(ids=["a"], x=wide), "a")).tolist() == [[0, 128], [255, 128]]


def test_a_folder_is_shown_without_what_its_files_carry(tmp_path):
    from PIL.PngImagePlugin import PngInfo

    secret = PngInfo()
    secret.add_text("Comment", "patient Mustermann")
    pixels = np.random.default_rng(0).integers(0, 256, size=(5, 4, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "one.png", pnginfo=secret)
    pool = open_pool(tmp_path, shape=[3, 5, 4], center=[1, 2, 3], scale=[255, 100, 3])
    made = picture_of(pool, "one.png")
    assert (read(made) == pixels).all(), "center and scale are undone"
    assert b"Mustermann" not in made
    assert made.count(b"tEXt") == 0


def test_what_is_broken_or_no_picture_is_not_one(tmp_path):
    (tmp_path / "bad.png").write_bytes(b"<svg onload='alert(1)'/>")
    (tmp_path / "bad.svg").write_bytes(b"<svg onload='alert(1)'/>")
    pool = open_pool(tmp_path, shape=[8, 8])
    assert pool.ids == ["bad.png"]
    assert view_of(pool, "bad.png").kind == "broken"
    assert view_of(ArrayPool(ids=["a"], x=np.ones((1, 4))), "a").rows == (
        ("1", "1"),
        ("2", "1"),
        ("3", "1"),
        ("4", "1"),
    )


def test_small_pictures_are_in_the_page_and_large_ones_are_fetched():
    pixels = np.random.default_rng(0).integers(0, 256, size=(1, 8, 6)).astype(np.uint8)
    small = view_of(ArrayPool(ids=["a"], x=pixels), "a")
    kind, _, content = small.address.partition(",")
    assert kind == "data:image/png;base64"
    assert (read(base64.b64decode(content)) == pixels[0]).all()
    assert view_of(ArrayPool(ids=["a"], x=np.zeros((1, 161, 4), dtype=np.uint8)), "a").address == ""
