"""A feature map by a transformer of scikit-learn that was fitted on public rows.

It is stored by skops, without pickle. Of what is in the file, only types of the list below are built, all of them of
numpy and scikit-learn: each transforms a row by itself. Rows are transformed one by one, so that a row's features are
the same to the bit alone and among others, and with one thread of BLAS.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from discreet.checks import text, truth
from discreet.errors import BadInput, require
from discreet.features.feature_map import (
    ROUNDING,
    UNIT_LENGTH,
    ArrayMap,
    FeatureRequest,
    Features,
    at_length_one,
    checked,
    checked_shape,
)
from discreet.parts import Option, Part
from discreet.pools.rows import Mask

# they transform each row by itself; estimators that look at a whole batch (NMF, LatentDirichletAllocation), that call
# functions of the user's (FunctionTransformer), and that keep the rows they were fitted on as trees are not here
TRUSTED = {
    "builtins": "dict list slice str tuple",
    "numpy": "bool bool_ dtype float32 float64 int32 int64 ndarray",
    "scipy.interpolate._bsplines": "BSpline",
    "sklearn.cluster": "KMeans",
    "sklearn.compose": "ColumnTransformer",
    "sklearn.decomposition": "FactorAnalysis FastICA IncrementalPCA PCA TruncatedSVD",
    "sklearn.feature_selection": "SelectKBest VarianceThreshold",
    "sklearn.kernel_approximation": "AdditiveChi2Sampler Nystroem RBFSampler SkewedChi2Sampler",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    "sklearn.preprocessing": "Binarizer KBinsDiscretizer MaxAbsScaler MinMaxScaler Normalizer OneHotEncoder "
    "OrdinalEncoder PolynomialFeatures PowerTransformer QuantileTransformer RobustScaler SplineTransformer "
    "StandardScaler",
    "sklearn.random_projection": "GaussianRandomProjection SparseRandomProjection",
}
_TYPES = {(module, name) for module, names in TRUSTED.items() for name in names.split()}
# what numbers and settings are stored by: no code is called
_PLAIN_LOADERS = frozenset({"DictNode", "JsonNode", "ListNode", "NdArrayNode", "SliceNode", "TupleNode", "TypeNode"})
_OTHER_PARTS = {
    ("numpy", "dtype", "DTypeNode"),
    ("scipy._lib.array_api_compat.numpy._aliases", "asarray", "FunctionNode"),  # of a BSpline, and never called
    ("scipy.sparse._csr", "csr_array", "SparseMatrixNode"),
    ("scipy.sparse._csr", "csr_matrix", "SparseMatrixNode"),
}
_OBJECT = re.compile(r'("__id__": |"file": ")(\d+)')
_MOST_BYTES = 2**25
ASKED = "scikit-learn features"


@dataclass(frozen=True, kw_only=True)
class ScikitLearn(ArrayMap):
    """Of rows of numbers: of a table as its schema encodes them (`Schema.encode`), or of arrays of one axis.

    stored      the fitted transformer, as `skops.io.dumps` writes it
    unit_length whether features have length 1
    """

    name = "scikit-learn"
    block = 1
    input_shape: tuple[int, ...]
    stored: bytes = field(repr=False)
    unit_length: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_shape", checked_shape(self.input_shape, ASKED))
        checked(ASKED, {"unit_length": (truth, self.unit_length)})
        if len(self.input_shape) != 1:
            raise BadInput(ASKED, f"records have {len(self.input_shape)} axes", "Declare rows of numbers")
        _refuse_types(self.stored)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """One axis."""
        return (self._width,)

    @property
    def norm_bound(self) -> float | None:
        """1, where rows are normalised."""
        return ROUNDING if self.unit_length else None

    @property
    def packages(self) -> tuple[str, ...]:
        """Of scikit-learn."""
        return ("numpy", "scipy", "scikit-learn")

    def options(self) -> dict[str, Any]:
        """The shape of a row, and the file."""
        stored = base64.b64encode(self.stored).decode("ascii")
        return {"shape": list(self.input_shape), "stored": stored, "unit_length": self.unit_length}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> ScikitLearn:
        """The inverse of `options`."""
        others = {name: value for name, value in options.items() if name not in ("shape", "stored")}
        try:
            stored = base64.b64decode(options["stored"], validate=True)
        except (binascii.Error, TypeError):
            raise BadInput("a stored feature map", "it is not in base64", "Give what identity returned") from None
        return cls(input_shape=options["shape"], stored=stored, **others)

    def readable(self, batch: Any) -> tuple[Features, Mask]:
        """The features of rows, nulls as zeros, and which records are none. Audience: owner."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            return super().readable(batch)

    def features(self, records: Features) -> Features:
        """Of one row. One that the transformer refuses, such as an unknown category, is a null."""
        transformer, width = self._transformer, self._width
        try:
            row = self._transformed(transformer, records)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - it would say how the record differs from the public rows
            row = np.full((1, width), np.nan, dtype=np.float32)
        return at_length_one(row) if self.unit_length else row

    def _transformed(self, transformer: Any, records: Features) -> Features:
        from sklearn import config_context

        with config_context(assume_finite=True, skip_parameter_validation=True, transform_output="default"):
            row = transformer.transform(records)
        return np.asarray(row.toarray() if hasattr(row, "toarray") else row, dtype=np.float32)

    @cached_property
    def _transformer(self) -> Any:
        require("skops", extra="skops", asked=ASKED)
        from skops.io import loads

        try:
            return loads(self.stored, trusted=_refuse_types(self.stored))
        except Exception as problem:  # noqa: BLE001 - whatever skops says of the file
            fact = f"skops could not read the transformer ({type(problem).__name__})"
            raise BadInput(ASKED, fact, "Store it anew, with the scikit-learn that is installed") from None

    @cached_property
    def _width(self) -> int:
        asked, transformer = f"{ASKED} of {self.input_shape[0]} numbers", self._transformer
        try:
            takes, width = int(transformer.n_features_in_), len(transformer.get_feature_names_out())
        except (AttributeError, TypeError, ValueError):  # sklearn's NotFittedError is both of the last
            raise BadInput(asked, "the transformer is not fitted", "Fit it on public rows") from None
        if takes != self.input_shape[0]:
            fact = f"the transformer was fitted on rows of {takes} numbers"
            raise BadInput(asked, fact, "Fit it on rows as the records are: schema.encode(public)[0]")
        return width


def stored_transformer(transformer: Any) -> bytes:
    """A fitted transformer as `ScikitLearn` and files for ``transformer`` in [features] have it: the same bytes for
    the same transformer. It must be fitted on public rows.
    """
    require("skops", extra="skops", asked=ASKED)
    from skops.io import dumps

    content, plain = dumps(transformer), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as written, zipfile.ZipFile(plain, "w") as rewritten:
        places: dict[str, int] = {}

        def renamed(words: str) -> str:
            """With objects numbered in their order, not by their places in memory."""
            return _OBJECT.sub(lambda hit: hit[1] + str(places.setdefault(hit[2], len(places))), words)

        entries = sorted(written.infolist(), key=lambda entry: entry.filename != "schema.json")
        for entry in entries:  # without the time of writing
            schema = entry.filename == "schema.json"
            data = renamed(written.read(entry.filename).decode()).encode() if schema else written.read(entry.filename)
            name = entry.filename if schema else renamed(f'"file": "{entry.filename}')[len('"file": "') :]
            rewritten.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    _refuse_types(plain.getvalue())
    return plain.getvalue()


def _refuse_types(stored: Any) -> list[str]:
    """The types in a file, once they are all on the list: before anything of it is built."""
    try:
        with zipfile.ZipFile(io.BytesIO(stored)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
            schema = json.loads(archive.read("schema.json")) if size <= _MOST_BYTES else {}
        types = sorted(set(_types_in(schema)))
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, RecursionError):
        raise BadInput(
            ASKED, "the file is not one of skops", "Store the transformer: stored_transformer(...)"
        ) from None
    if size > _MOST_BYTES:
        raise BadInput(ASKED, "the transformer is larger than 32 MB", "Fit a smaller one")
    strange = [f"{module}.{name}" for module, name, loader in types if not _is_trusted(module, name, loader)]
    if strange:
        raise BadInput(
            ASKED,
            f"the transformer has parts that are not on the list of trusted ones: {', '.join(strange[:3])}",
            "Use transformers that look at one row at a time; docs/reference/features.md has the list",
        )
    return [f"{module}.{name}" for module, name, _ in types]


def _types_in(node: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(node, dict):
        if "__loader__" in node or "__class__" in node:
            yield str(node["__module__"]), str(node["__class__"]), str(node["__loader__"])
        for value in node.values():
            yield from _types_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from _types_in(value)


def _is_trusted(module: str, name: str, loader: str) -> bool:
    if loader not in _PLAIN_LOADERS and loader != "ObjectNode":
        return (module, name, loader) in _OTHER_PARTS
    public = module.rpartition("._")[0] if module.startswith("sklearn.") and "._" in module else module
    return (module, name) in _TYPES or (public, name) in _TYPES


_NO_TRANSFORMER = ("no transformer is named", "Write transformer = 'FILE.skops', fitted on public rows")


def _built(request: FeatureRequest) -> ScikitLearn:
    options = dict(request.options)
    transformer = options.pop("transformer", None)
    if transformer is None:
        raise BadInput(ASKED, *_NO_TRANSFORMER)
    shape = request.record_shape(ASKED) if request.schema is None else (request.schema.width,)
    if not isinstance(transformer, str | Path):
        return ScikitLearn(input_shape=shape, stored=stored_transformer(transformer), **options)
    path = request.directory / transformer
    if not path.is_file():
        raise BadInput(f"{ASKED} by {path.name}", "there is no such file", "Write it by stored_transformer(...)")
    return ScikitLearn(input_shape=shape, stored=path.read_bytes(), **options)


def _transformer_or_path(value: Any) -> Any:
    """A file, or in Python a fitted transformer."""
    return value if hasattr(value, "transform") or isinstance(value, Path) else text(what="a path")(value)


PARTS = (
    Part(
        kind="feature",
        name="scikit-learn",
        summary="tables and numbers: a transformer of scikit-learn, fitted on public rows",
        build=_built,
        options=(
            Option(
                name="transformer",
                check=_transformer_or_path,
                type="path; in Python also a fitted transformer",
                default="",
                meaning="a file of skops",
            ),
            UNIT_LENGTH,
        ),
        required={"transformer": _NO_TRANSFORMER},
        reads=(),
        makes=(ScikitLearn,),
    ),
)
