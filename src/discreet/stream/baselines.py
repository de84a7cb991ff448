"""What a stream is compared with: label everything, one private batch at the end, and a batch that is not private.

    label_everything        every record is asked, and teaches by private SGD (the stream paper's Algorithm 2)
    ObjectivePerturbation   every record is asked; one private model when all have come (Algorithm 1)
    batch_svm               the same without privacy: **not private**, and every artefact of it says so

The first two pay nothing for asking: everybody is asked, whatever they are.
"""

from __future__ import annotations

from typing import Any

from discreet.privacy.ledger import Ledger, Receipt
from discreet.stream.asking import AskEverything
from discreet.stream.batch_models import NOT_PRIVATE, BaselineModel, batch_svm
from discreet.stream.learner import StreamLearner
from discreet.stream.objective_perturbation import ObjectivePerturbation
from discreet.stream.update_noise import UpdateNoise
from discreet.stream.windows import Immediate

__all__ = ["NOT_PRIVATE", "BaselineModel", "ObjectivePerturbation", "batch_svm", "label_everything"]


def label_everything(
    *, noise: UpdateNoise, receipt: Receipt | None = None, ledger: Ledger | None = None, **settings: Any
) -> StreamLearner:
    """A learner that asks every record, and learns from each at once unless ``window`` says otherwise.

    A record costs its one update: the price is the noise's event alone.
    """
    given = {"window": Immediate()} | settings
    return StreamLearner(asking=AskEverything(), noise=noise, receipt=receipt, ledger=ledger, **given)
