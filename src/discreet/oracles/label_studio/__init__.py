"""People who answer in a Label Studio server."""

from discreet.oracles.label_studio.client import VARIABLE, Client, Token, checked_address, read_secret, read_token
from discreet.oracles.label_studio.hints import PATH, Hints, address_of
from discreet.oracles.label_studio.oracle import LabelStudioOracle, ProjectStatus, Pushed, mark_of
from discreet.oracles.label_studio.server import Server
from discreet.oracles.label_studio.tasks import (
    Read,
    kind_of,
    labeling_config,
    misfit,
    one_voice_each,
    read_tasks,
    rendered,
)

__all__ = [
    "PATH",
    "VARIABLE",
    "Client",
    "Hints",
    "LabelStudioOracle",
    "ProjectStatus",
    "Pushed",
    "Read",
    "Server",
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
