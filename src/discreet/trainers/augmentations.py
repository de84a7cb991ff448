"""Augmentations by name: random changes of a record's views, as `[trainer] augment` names them. No torch is needed to
know them.
"""

from __future__ import annotations

from discreet.checks import number, whole
from discreet.parts import Option, Part, Registry, Target

_OF_SHIFT = ("pixels and fill belong to shift", "Write { name = 'shift', pixels = 2 }")

AUGMENTATIONS = Registry(
    "augmentation",
    (
        Part(
            kind="augmentation",
            name="shift",
            summary="pictures moved by some pixels in each direction",
            build=Target("discreet.trainers.dp_sgd.augmentation:RandomShift"),
            options=(
                Option(
                    name="pixels",
                    check=whole(most=1000),
                    type="whole number",
                    default="",
                    meaning="the most that a picture is moved by",
                    unlisted=_OF_SHIFT,
                ),
                Option(
                    name="fill",
                    check=number(-1e30, 1e30, such_as="0.0"),
                    type="number",
                    default="0.0",
                    meaning="what enters at the border",
                    unlisted=_OF_SHIFT,
                ),
            ),
        ),
        Part(
            kind="augmentation",
            name="flip",
            summary="every second picture mirrored left to right",
            build=Target("discreet.trainers.dp_sgd.augmentation:RandomFlip"),
        ),
    ),
)
