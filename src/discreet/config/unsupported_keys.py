"""What other libraries offer and a private campaign cannot, refused by name, with what to write instead.

A scale, a class weight or a vocabulary that is fitted to private records leaves without being paid for. Such keys
are not simply unknown: whoever writes one should learn why it is missing, and what replaces it.
"""

from __future__ import annotations

from typing import Any

from discreet.toml_lines import Path

Refusal = tuple[str, str]
"""What is so, and what to do."""

_SCALING = (
    "scaling that is fitted to the records tells about them, and nothing paid for it",
    "Declare center and scale in [pool]: public numbers, such as scale = 255 for pixels",
)
_WEIGHTS = (
    "weights that are found by counting labels tell how many of a class there are, and nothing paid for it",
    "Declare class_weights in [trainer]: one public number a class, in the order of the classes",
)
_VOCABULARY = (
    "a vocabulary that is made from the records tells which words are in them",
    "Name a public tokenizer or encoder, such as options = { path = 'bert' } in [model]",
)
_RESAMPLED = (
    "sampling rates are fixed by the plan; changing them by labels would have to be paid for",
    "Declare class_weights in [trainer], or let the selector find the rare ones",
)
_STOPPING = (
    "stopping by what is read from private records would have to be paid for",
    "Declare [evaluation], and give the campaign a stopping rule that reads it",
)
_PLANNED = (
    "it is computed from the budget when the plan is made",
    "Remove it; state epsilon and delta in [budget], batch and epochs in [plan]",
)
_SPLIT = (
    "records for measuring quality are kept apart by their owner, not cut off here",
    "Put them in a file of their own, and name it in [evaluation] path",
)
_FILLED = (
    "filling gaps with statistics of the records tells about them; a record that cannot be read is a null",
    "Remove it, or fill gaps with a constant before the campaign",
)
_RELATION = ("a campaign guarantees zero-out, the relation its prices are proven for", "Remove it")
_OPTIMIZER = ("it is an option of the optimizer", "Write optimizer_options = { momentum = 0.9 } in [trainer]")


def _moved(where: str) -> Refusal:
    return "it is called otherwise here", f"Write {where}"


KEYS: dict[str, Refusal] = {
    **dict.fromkeys(("scaler", "scaling", "normalize", "normalise", "normalizer", "normalization"), _SCALING),
    **dict.fromkeys(("standardize", "standardise", "whiten", "preprocess", "preprocessing"), _SCALING),
    **dict.fromkeys(("class_weight", "class_weights", "sample_weight", "pos_weight"), _WEIGHTS),
    **dict.fromkeys(("vocabulary", "vocab", "vocab_size", "min_df", "max_features"), _VOCABULARY),
    **dict.fromkeys(("oversample", "undersample", "resample", "balance", "balanced", "smote"), _RESAMPLED),
    **dict.fromkeys(("early_stopping", "patience"), _STOPPING),
    **dict.fromkeys(("noise_multiplier", "sigma", "sampling_rate", "steps", "noise"), _PLANNED),
    **dict.fromkeys(("validation_split", "validation_fraction", "test_size"), _SPLIT),
    **dict.fromkeys(("impute", "imputer", "fillna"), _FILLED),
    **dict.fromkeys(("momentum", "weight_decay", "betas", "nesterov"), _OPTIMIZER),
    "relation": _RELATION,
    "batch_size": _moved("batch in [plan]"),
    "pool_size": _moved("size in [pool]"),
    "lr": _moved("learning_rate in [trainer]"),
    "num_epochs": _moved("epochs in [plan]"),
    "max_grad_norm": _moved("clip in [trainer]"),
    "warmup": _moved("schedule = 'warmup-cosine' in [trainer]"),
    "augmentation": _moved("augment in [trainer]"),
    "num_classes": _moved("classes in [task], by their names"),
    "n_classes": _moved("classes in [task], by their names"),
    "random_state": _moved("seed in [simulation], which makes the campaign a simulation"),
}
"""Keys that no table has, or only another one."""

TABLES: dict[str, Refusal] = {
    "features": ("this recipe has features of its own: hashed words and letters of texts", "Remove the table"),
}
"""Tables that only the files of other recipes have."""

_TARGETS = (
    "real numbers as targets are not supported: scores, votes and answers here are about classes",
    "Cut the target into classes at declared borders, and use kind = 'multiclass'",
)
_CLASSES = (
    "classes that are read off the labels tell which ones occur",
    "Declare them all, such as classes = ['no', 'yes']",
)
_BATCH = (
    "a batch that follows from the records at hand would change what was guaranteed",
    "Leave it out, or declare the expected number in a step, such as batch = 256",
)
_SIZE = ("the size of the pool is public and declared: plans are made before anything is read", "Write size = 20000")
_COLUMNS = (
    "columns are declared, so that a new one in the file is not used by accident",
    "Name them, such as columns = ['age', 'dose']",
)
_CHOICE = (
    "nothing paid for a choice that looked at the records, so no guarantee could be kept for those it left out",
    "Ask phase 0 anew, drawn uniformly at random (leave [initial] out), or import labels of records that were drawn "
    "so, or by a public rule",
)

VALUES: dict[Path, Refusal] = {
    ("task", "classes"): _CLASSES,
    ("plan", "batch"): _BATCH,
    ("pool", "size"): _SIZE,
    ("pool", "scale"): _SCALING,
    ("pool", "center"): _SCALING,
    ("pool", "columns"): _COLUMNS,
    ("trainer", "class_weights"): _WEIGHTS,
}
"""Keys for which a word instead of numbers or a list means: find out by looking."""

_WORDS: dict[Path, tuple[frozenset[str], Refusal]] = {
    ("task", "kind"): (frozenset({"regression", "regressor", "ranking"}), _TARGETS),
    ("initial", "chosen"): (
        frozenset({"by-content", "by-looking", "by-score", "by-hand", "actively", "unknown", "by-experts"}),
        _CHOICE,
    ),
}


def refused_value(path: Path, value: Any) -> Refusal | None:
    """Why this key cannot have this value, where that has a reason of its own."""
    if not isinstance(value, (str, bool)):
        return None
    words, refusal = _WORDS.get(path, (frozenset(), None))
    return refusal if refusal and value in words else VALUES.get(path)
