"""The norm bound of streams: `discreet.components.ball`, under the name by which streams know it."""

from discreet.components.ball import checked_radius, into_ball, sum_error

__all__ = ["checked_radius", "into_ball", "sum_error"]
