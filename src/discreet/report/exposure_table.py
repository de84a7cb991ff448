"""Who was shown what, as rows for an auditor: one form for programs, one for spreadsheets. Audience: owner.

Rows name records by their ids; a withdrawn record has a code. A cell that a spreadsheet would compute is guarded.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from discreet.oracles.question_files import guarded
from discreet.records import Exposure

FORMAT = "discreet.exposure/1"
COLUMNS = ("at", "kind", "audience", "question_id", "record", "phase")
"""``kind``: annotator (by name), hand-out (a file or list, for people who are not known here), program."""


def exposure_form(exposures: Sequence[Exposure], *, simulation: bool, file: str | None = None) -> dict[str, Any]:
    """One object, with a count for each audience."""
    counts = Counter((exposure.kind, exposure.audience) for exposure in exposures)
    return {
        "format": FORMAT,
        "simulation": simulation,
        "audience": "owner",
        "file": file,
        "shown": [{"kind": kind, "audience": who, "questions": count} for (kind, who), count in sorted(counts.items())],
        "exposures": [
            {
                "at": exposure.at.isoformat(),
                "kind": exposure.kind,
                "audience": exposure.audience,
                "question_id": exposure.question_id,
                "record": exposure.record,
                "phase": exposure.phase,
            }
            for exposure in exposures
        ],
    }


def exposure_csv(form: dict[str, Any]) -> str:
    """The rows of a form, with a header; every cell quoted."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    writer.writerows([[guarded(str(row[name])) for name in COLUMNS] for row in form["exposures"]])
    return text.getvalue()
