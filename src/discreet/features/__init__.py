"""Public functions of one record alone, whose values a model learns from instead of the record."""

from discreet.features.feature_map import ArrayMap, FeatureMap
from discreet.features.registry import (
    FEATURES,
    build_feature_map,
    feature_map_from_json,
    read_feature_map,
    write_feature_map,
)
from discreet.features.request import FeatureRequest
from discreet.features.scattering import Scattering

__all__ = [
    "FEATURES",
    "ArrayMap",
    "FeatureMap",
    "FeatureRequest",
    "Scattering",
    "build_feature_map",
    "feature_map_from_json",
    "read_feature_map",
    "write_feature_map",
]
