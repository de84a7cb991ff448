"""A classifier of texts that needs nothing but scikit-learn: hashed words and letters, and logistic regression.

For texts that were released, and labels that are public or of released texts: it adds no noise, and guarantees nothing.
Features are a public hash: there is no vocabulary that was read off anybody's texts.

Training goes over the texts in the order of Algorithm 1 of Feyisetan et al. (2019): *least confident first*, by the
model before; each further pass by the model as it then is. Weights are averaged over the steps (Polyak), so that single
wrong labels of a crowd do not move them far. The same texts, labels and settings make the same model.

Draws of its posterior (`sample_proba`) are dropout of features (Gal and Ghahramani 2016): each is left out with
probability ``dropout``, the others are scaled up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BadInput, InvalidCheckpoint
from discreet.pools.array_files import array_bytes, arrays_in

Order = Literal["least-confident", "shuffled"]
FORMAT = "discreet.text-classifier/1"
_PIECE = 4096


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """Public choices.

    features         of words (one and two of them) and, as many again, of letters (three and four, within a word)
    epochs           passes over the texts
    regularization   lambda: half of it times the squared weights
    dropout          of features, in draws of `sample_proba`
    order            of the texts in a pass
    """

    features: int = 2**17
    epochs: int = 10
    regularization: float = 1e-4
    dropout: float = 0.3
    order: Order = "least-confident"
    seed: int = 0

    def __post_init__(self) -> None:
        numbers = {"features": (self.features, 2, 2**24), "epochs": (self.epochs, 1, 10_000)}
        for name, (value, least, largest) in numbers.items():
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= largest:
                raise BadInput(f"{name}={value}", f"it is no whole number from {least} to {largest}", "Correct it")
        if not 0 < self.regularization < 1 or not 0 <= self.dropout < 1:
            raise BadInput("a text classifier", "regularization or dropout is not below 1", "Give less")
        if self.order not in ("least-confident", "shuffled"):
            raise BadInput(f"order={self.order}", "there is no such order", "Use least-confident or shuffled")


def features_of(texts: Sequence[str], settings: TextSettings) -> Any:
    """A sparse row a text: words and letters, each of length 1."""
    from scipy import sparse
    from sklearn.feature_extraction.text import HashingVectorizer

    if not len(texts):
        return sparse.csr_matrix((0, 2 * settings.features))
    parts = [
        HashingVectorizer(analyzer=kind, ngram_range=span, n_features=settings.features, alternate_sign=False)
        for kind, span in (("word", (1, 2)), ("char_wb", (3, 4)))
    ]
    return sparse.hstack([part.transform(texts) for part in parts], format="csr")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TextClassifier:
    """A trained one: a `Predictor` of texts, or of rows that `features_of` made of them.

    ``weights``: sparse, a row a class; of two classes one row, for the second.
    """

    classes: tuple[str, ...]
    settings: TextSettings
    weights: Any
    offsets: NDArray[np.float64]

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """(n, C)."""
        return self._pieces(x, self._probabilities)

    def sample_proba(self, x: Any, draws: int, *, seed: int | None = None) -> NDArray[np.float64]:
        """(J, n, C): by dropout, from a public seed."""
        start, rows = self.settings.seed if seed is None else seed, self._rows(x)
        return np.stack([self._drawn(rows, np.random.default_rng([start, draw])) for draw in range(draws)])

    def embed(self, x: Any) -> NDArray[np.float64]:
        """(n, d): what each class's weights say; of two classes one number."""
        return self._pieces(x, self._said)

    def _drawn(self, x: Any, chance: np.random.Generator) -> NDArray[np.float64]:
        keep = 1 - self.settings.dropout

        def dropped(rows: Any) -> NDArray[np.float64]:
            thinned = rows.copy()
            thinned.data = thinned.data * (chance.random(thinned.data.size) < keep) / keep
            return self._probabilities(thinned)

        return self._pieces(x, dropped)

    def _pieces(self, x: Any, function: Callable[[Any], NDArray[np.float64]]) -> NDArray[np.float64]:
        rows = self._rows(x)
        return np.concatenate([function(rows[at : at + _PIECE]) for at in range(0, max(rows.shape[0], 1), _PIECE)])

    def _rows(self, x: Any) -> Any:
        return x if hasattr(x, "tocsr") else features_of([str(text) for text in x], self.settings)

    def _said(self, rows: Any) -> NDArray[np.float64]:
        return np.asarray((rows @ self.weights.T).todense()) + self.offsets

    def _probabilities(self, rows: Any) -> NDArray[np.float64]:
        scores = np.clip(self._said(rows), -500, 500)
        each = 1 / (1 + np.exp(-scores))
        if len(self.classes) == 2:
            return np.hstack([1 - each, each])
        return np.asarray(each / np.maximum(each.sum(axis=1, keepdims=True), 1e-300))

    def to_bytes(self) -> bytes:
        """A stored form without code in it: arrays, and settings as JSON."""
        held = self.weights.tocsr()
        about = {"format": FORMAT, "classes": list(self.classes), "settings": asdict(self.settings)}
        return array_bytes(
            np.savez_compressed,
            about=np.array(json.dumps(about, sort_keys=True)),
            values=held.data,
            places=held.indices,
            ends=held.indptr,
            offsets=self.offsets,
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> TextClassifier:
        """The inverse of `to_bytes`."""
        from scipy import sparse

        try:
            with arrays_in(content) as held:
                about = json.loads(str(held["about"]))
                if about["format"] != FORMAT:
                    raise ValueError(FORMAT)
                settings = TextSettings(**about["settings"])
                shape = (len(held["offsets"]), 2 * settings.features)
                weights = sparse.csr_matrix((held["values"], held["places"], held["ends"]), shape=shape)
                return cls(classes=tuple(about["classes"]), settings=settings, weights=weights, offsets=held["offsets"])
        except Exception:  # noqa: BLE001 - whatever is wrong, it is not such a model
            raise InvalidCheckpoint("loading a model of texts", "it is not in its form", "Restore its file") from None

    def __repr__(self) -> str:
        """Sizes alone."""
        return f"TextClassifier(classes={len(self.classes)})"


def train_texts(
    texts: Any,
    labels: Sequence[str],
    *,
    classes: Sequence[str],
    settings: TextSettings | None = None,
    start: TextClassifier | None = None,
    weights: Any | None = None,
) -> TextClassifier:
    """A model of labelled texts (or of their rows). ``start``: whose confidence orders the first pass.

    ``weights``: how far each label is trusted, in [0, 1]; a known one 1.
    """
    from scipy import sparse
    from sklearn.linear_model import SGDClassifier

    chosen, names = settings or TextSettings(), tuple(classes)
    rows = texts if hasattr(texts, "tocsr") else features_of(list(texts), chosen)
    if rows.shape[0] != len(labels) or not len(labels) or not set(labels) <= set(names):
        raise BadInput("training on texts", "there is not a declared class for each, or none at all", "Label them")
    numbers = np.array([names.index(label) for label in labels])
    regression = SGDClassifier(
        loss="log_loss", alpha=chosen.regularization, average=True, shuffle=False, random_state=chosen.seed
    )
    trusted = None if weights is None else np.asarray(weights, dtype=np.float64)
    model = start
    for epoch in range(chosen.epochs):
        order = _order(model, rows, chosen, epoch)
        regression.partial_fit(
            rows[order],
            numbers[order],
            classes=np.arange(len(names)),
            sample_weight=None if trusted is None else trusted[order],
        )
        model = TextClassifier(
            classes=names,
            settings=chosen,
            weights=sparse.csr_matrix(regression.coef_.astype(np.float32)),
            offsets=np.asarray(regression.intercept_, dtype=np.float64),
        )
    assert model is not None
    return model


def _order(model: TextClassifier | None, rows: Any, settings: TextSettings, epoch: int) -> NDArray[np.intp]:
    """Least confident first; texts that are alike in that, by a public chance."""
    shuffled = np.random.default_rng([settings.seed, epoch]).permutation(rows.shape[0])
    if model is None or settings.order == "shuffled":
        return shuffled
    sure = model.predict_proba(rows).max(axis=1)[shuffled]
    return shuffled[np.argsort(sure, kind="stable")]
