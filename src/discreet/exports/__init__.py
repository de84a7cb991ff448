"""Models that are given away: a directory with weights, preprocessing, a model card and the certificate; and back."""

from discreet.exports.loading import ExportedModel, load_model
from discreet.exports.predicting import Predicted, predict_file
from discreet.exports.writing import Exported, export_model

__all__ = ["Exported", "ExportedModel", "Predicted", "export_model", "load_model", "predict_file"]
