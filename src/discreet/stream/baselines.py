"""What a stream is compared with: label everything, one private batch at the end, and a batch that is not private.

    label_everything        every record is asked, and teaches by private SGD (the stream paper's Algorithm 2)
    ObjectivePerturbation   every record is asked; one private model when all have come (Algorithm 1)
    batch_svm               the same without privacy: **not private**, and every artefact of it says so

The first two pay nothing for asking: everybody is asked, whatever they are.
"""

from __future__ import annotations

from discreet.stream.batch_models import NOT_PRIVATE, BaselineModel, batch_svm
from discreet.stream.objective_perturbation import ObjectivePerturbation

__all__ = ["NOT_PRIVATE", "BaselineModel", "ObjectivePerturbation", "batch_svm"]
