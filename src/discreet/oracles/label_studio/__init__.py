"""People who answer in a Label Studio server."""

from discreet.oracles.label_studio.annotations import Read, one_voice_each, read_tasks
from discreet.oracles.label_studio.client import Client, checked_address
from discreet.oracles.label_studio.hints import PATH, Hints, address_of
from discreet.oracles.label_studio.labeling_config import labeling_config, misfit
from discreet.oracles.label_studio.oracle import LabelStudioOracle, Pushed, Standing, mark_of
from discreet.oracles.label_studio.rendering import kind_of, rendered
from discreet.oracles.label_studio.server import Server
from discreet.oracles.label_studio.tokens import VARIABLE, Token, read_secret, read_token

__all__ = [
    "PATH",
    "VARIABLE",
    "Client",
    "Hints",
    "LabelStudioOracle",
    "Pushed",
    "Read",
    "Server",
    "Standing",
    "Token",
    "address_of",
    "checked_address",
    "kind_of",
    "labeling_config",
    "mark_of",
    "misfit",
    "one_voice_each",
    "read_secret",
    "read_tasks",
    "read_token",
    "rendered",
]
