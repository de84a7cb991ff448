"""One pool in every kind of file, with some records broken where the kind can hold such."""

import csv
import json

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import feather, parquet

COUNT, SHAPE = 40, (4, 3)
IDS = [f"scan {place:03d}.png" for place in range(COUNT)]
PERSONS = [f"patient-{place // 3}" for place in range(COUNT)]
TEXTS = [f'said "{place}",\nand more' for place in range(COUNT)]
PIXELS = np.random.default_rng(7).integers(1, 256, (COUNT, *SHAPE), dtype=np.uint8)
COLUMNS = [f"c{place}" for place in range(12)]


def table(values=PIXELS, *, ids=IDS, texts=TEXTS, persons=PERSONS):
    flat = values.reshape(len(values), -1)
    columns = {name: flat[:, place] for place, name in enumerate(COLUMNS)}
    lists = pa.array(flat.tolist(), pa.list_(pa.from_numpy_dtype(values.dtype)))
    return pa.table({"name": ids, "who": persons, "note": texts, "list": lists, **columns})


def write_parquet(path, content=None, **options):
    parquet.write_table(table() if content is None else content, path, **{"row_group_size": 7, **options})
    return path


def write_arrow(path, content=None, **options):
    feather.write_feather(table() if content is None else content, path, **{"chunksize": 7, **options})
    return path


def write_parts(path, write, name):
    """A folder of three parts, written in another order than that of their names."""
    path.mkdir()
    for part in (2, 0, 1):
        chosen = slice(part * 17, min(part * 17 + 17, COUNT))
        write(path / name.format(part), chosen)
    (path / "_SUCCESS").write_bytes(b"")
    (path / f".{name.format(0)}.crc").write_bytes(b"crc")
    return path


def csv_part(path, chosen):
    return write_csv(path, PIXELS[chosen], ids=IDS[chosen], texts=TEXTS[chosen], persons=PERSONS[chosen])


def parquet_part(path, chosen):
    return write_parquet(path, table(PIXELS[chosen], ids=IDS[chosen], texts=TEXTS[chosen], persons=PERSONS[chosen]))


def write_compressed(path):
    """A CSV file, compressed as its name says."""
    plain = write_csv(path.with_name("plain.csv"))
    with pa.output_stream(str(path), compression="detect") as stream:
        stream.write(plain.read_bytes())
    plain.unlink()
    return path


def write_dataset(path):
    """What `Dataset.save_to_disk` of Hugging Face writes: Arrow streams, and their names in a file."""
    path.mkdir()
    names = []
    for part in range(2):
        names.append({"filename": f"data-{part:05d}-of-00002.arrow"})
        rows = table().slice(part * 20, 20)
        with pa.ipc.new_stream(path / names[-1]["filename"], rows.schema) as stream:
            stream.write_table(rows, max_chunksize=7)
    (path / "state.json").write_text(json.dumps({"_data_files": names, "_format_type": None}))
    return path


def write_csv(path, values=PIXELS, *, ids=IDS, texts=TEXTS, persons=PERSONS):
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["name", "who", "note", *COLUMNS])
        for name, who, note, row in zip(ids, persons, texts, values.reshape(len(values), -1).tolist(), strict=True):
            lines.writerow([name, who, note, *row])
    return path


def write_npz(path, values=PIXELS, *, packed=False, **more):
    (np.savez_compressed if packed else np.savez)(path, x=values, name=np.array(IDS), who=np.array(PERSONS), **more)
    return path


def write_npy(path, values=PIXELS):
    np.save(path, values)
    return path


def write_images(path, values=PIXELS):
    path.mkdir()
    for name, picture in zip(IDS, values, strict=True):
        Image.fromarray(picture).save(path / name)
    return path


NAMED = {"id": "name", "person": "who"}
FILES = {
    "images": (write_images, "scans", {"shape": SHAPE}),
    "npy": (write_npy, "a.npy", {"id": "position"}),
    "npz": (write_npz, "a.npz", {**NAMED, "array": "x"}),
    "npz packed": (lambda path: write_npz(path, packed=True), "a.npz", {**NAMED, "array": "x"}),
    "parquet": (write_parquet, "a.parquet", {**NAMED, "columns": COLUMNS, "shape": SHAPE, "text": "note"}),
    "parquet lists": (write_parquet, "a.parquet", {**NAMED, "columns": ["list"], "shape": SHAPE}),
    "arrow": (write_arrow, "a.arrow", {**NAMED, "columns": COLUMNS, "shape": SHAPE, "text": "note"}),
    "arrow lists": (write_arrow, "a.feather", {**NAMED, "columns": ["list"], "shape": SHAPE}),
    "csv": (write_csv, "a.csv", {**NAMED, "columns": COLUMNS, "shape": SHAPE, "text": "note"}),
    "csv.gz": (write_compressed, "a.csv.gz", {**NAMED, "columns": COLUMNS, "shape": SHAPE, "text": "note"}),
    "csv.zst": (write_compressed, "a.csv.zst", {**NAMED, "columns": COLUMNS, "shape": SHAPE, "text": "note"}),
}
FOLDERS = {
    "csv parts": (
        lambda path: write_parts(path, csv_part, "part-{}.csv"),
        "a",
        {**NAMED, "columns": COLUMNS, "shape": SHAPE, "text": "note", "kind": "csv"},
    ),
    "parquet parts": (
        lambda path: write_parts(path, parquet_part, "part-{}.snappy.parquet"),
        "a",
        {**NAMED, "columns": COLUMNS, "shape": SHAPE, "text": "note", "kind": "parquet"},
    ),
    "huggingface": (
        write_dataset,
        "a",
        {**NAMED, "columns": COLUMNS, "shape": SHAPE, "text": "note", "kind": "huggingface"},
    ),
}
