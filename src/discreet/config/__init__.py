"""The TOML schema of campaigns and streams: what its owner declares, checked before anything is read, charged or drawn.

config = read_config("scans.toml")          # every mistake at once, each at its line: InvalidConfig
raise config.error("scorer.name", "there is no such score", "Choose entropy")      # for the rooms above
"""

from discreet.config.campaign import FORMAT, CampaignConfig
from discreet.config.crowd import CrowdConfig, crowd_config_from
from discreet.config.data_tables import (
    EvaluationConfig,
    InitialConfig,
    OracleConfig,
    PoolConfig,
    SimulationConfig,
    StorageConfig,
    TaskConfig,
)
from discreet.config.declared import Source
from discreet.config.example import EXAMPLES, example
from discreet.config.learning_tables import (
    AugmentConfig,
    BudgetConfig,
    ModelConfig,
    PlanConfig,
    RecipeConfig,
    ScorerConfig,
    SelectorConfig,
    TrainerConfig,
)
from discreet.config.reading import config_from, config_from_json, read_config
from discreet.config.recipes import AnyCampaign, campaign_from_json, read_campaign
from discreet.config.stream import StreamConfig, read_stream_config, stream_config_from, stream_config_from_json
from discreet.config.teachers import TeachersConfig, teachers_config_from

__all__ = [
    "EXAMPLES",
    "FORMAT",
    "AnyCampaign",
    "AugmentConfig",
    "BudgetConfig",
    "CampaignConfig",
    "CrowdConfig",
    "EvaluationConfig",
    "InitialConfig",
    "ModelConfig",
    "OracleConfig",
    "PlanConfig",
    "PoolConfig",
    "RecipeConfig",
    "ScorerConfig",
    "SelectorConfig",
    "SimulationConfig",
    "Source",
    "StorageConfig",
    "StreamConfig",
    "TaskConfig",
    "TeachersConfig",
    "TrainerConfig",
    "campaign_from_json",
    "config_from",
    "config_from_json",
    "crowd_config_from",
    "example",
    "read_campaign",
    "read_config",
    "read_stream_config",
    "stream_config_from",
    "stream_config_from_json",
    "teachers_config_from",
]
