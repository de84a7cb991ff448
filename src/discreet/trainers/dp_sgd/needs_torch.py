"""Says what to install where torch is missing, before anything here fails on importing it."""

from discreet.models.checks import require

require("torch", extra="torch", asked="training by DP-SGD")
require("safetensors", extra="torch", asked="training by DP-SGD")
