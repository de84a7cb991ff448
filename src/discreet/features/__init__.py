"""Public functions of one record alone, whose values a model learns from instead of the record."""

from discreet.features.bins import Bins, OneHot, Spline, Standardise
from discreet.features.feature_map import ArrayMap, FeatureMap, FeatureRequest
from discreet.features.image_encoder import ImageEncoder
from discreet.features.random_fourier import RandomFourier
from discreet.features.registry import (
    FEATURES,
    build_feature_map,
    feature_map_from_json,
    read_feature_map,
    write_feature_map,
)
from discreet.features.scattering import Scattering
from discreet.features.scikit_learn import ScikitLearn, stored_transformer
from discreet.features.table_map import TableMap
from discreet.features.text import HashedText
from discreet.features.text_encoder import TextEncoder

__all__ = [
    "FEATURES",
    "ArrayMap",
    "Bins",
    "FeatureMap",
    "FeatureRequest",
    "HashedText",
    "ImageEncoder",
    "OneHot",
    "RandomFourier",
    "Scattering",
    "ScikitLearn",
    "Spline",
    "Standardise",
    "TableMap",
    "TextEncoder",
    "build_feature_map",
    "feature_map_from_json",
    "read_feature_map",
    "stored_transformer",
    "write_feature_map",
]
