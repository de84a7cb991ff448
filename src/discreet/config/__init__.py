"""The TOML schema of campaigns and streams: what its owner declares, checked before anything is read, charged or drawn.

config = CampaignConfig.read("scans.toml")          # every mistake at once, each at its line: InvalidConfig
raise config.error("scorer.name", "there is no such score", "Choose entropy")      # for the rooms above
"""

from discreet.config.campaign import (
    EXAMPLES,
    FORMAT,
    CampaignConfig,
    CampaignFile,
    campaign_from_json,
    example,
    read_campaign,
)
from discreet.config.campaign_tables import (
    AugmentConfig,
    BudgetConfig,
    EvaluationConfig,
    FeaturesConfig,
    InitialConfig,
    ModelConfig,
    OracleConfig,
    PoolConfig,
    RecipeConfig,
    ScorerConfig,
    SelectorConfig,
    SimulationConfig,
    StorageConfig,
    TaskConfig,
    TrainerConfig,
)
from discreet.config.crowd import CrowdConfig
from discreet.config.pate import PateConfig
from discreet.config.schema import Source
from discreet.config.stream import StreamConfig

__all__ = [
    "EXAMPLES",
    "FORMAT",
    "AugmentConfig",
    "BudgetConfig",
    "CampaignConfig",
    "CampaignFile",
    "CrowdConfig",
    "EvaluationConfig",
    "FeaturesConfig",
    "InitialConfig",
    "ModelConfig",
    "OracleConfig",
    "PateConfig",
    "PoolConfig",
    "RecipeConfig",
    "ScorerConfig",
    "SelectorConfig",
    "SimulationConfig",
    "Source",
    "StorageConfig",
    "StreamConfig",
    "TaskConfig",
    "TrainerConfig",
    "campaign_from_json",
    "example",
    "read_campaign",
]
