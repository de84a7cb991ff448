"""One thread for each worker: two workers with two threads each wait for one another on two cores.

Set before numpy or torch is imported, and inherited by the processes that tests start.

Attacks, kills, fuzzing, statistics with shown power, whole pages of the documentation and committed tables are
`thorough`: seconds each, together minutes. They run in CI and by `make thorough`, not in `make test`.
"""

import os
from pathlib import Path

import pytest

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

THOROUGH = (
    "audit/test_other_twins.py",
    "audit/test_pool_audit.py",
    "bench/test_committed_results.py",
    "bench/test_crowd_bench.py",
    "bench/test_dry_runs.py",
    "bench/test_public_data_bench.py",
    "campaign/test_campaign_failures.py",
    "campaign/test_campaign_redo.py",
    "campaign/test_campaign_replan.py",
    "campaign/test_withdrawal.py",
    "campaign/test_withdrawing.py",
    "contracts/test_built_ins.py",
    "crash/",
    "docs/test_api_reference.py",
    "docs/test_documentation.py",
    "docs/test_examples.py",
    "exports/",
    "fuzz/",
    "gates/test_gate_attack.py",
    "gates/test_gate_calibration.py",
    "noise/test_distributions.py",
    "noise/test_lazy_top.py",
    "noise/test_top.py",
    "oracles/test_teacher_attack.py",
    "oracles/test_teacher_oracle.py",
    "planning/test_plan_space.py",
    "privacy/certificate/test_verify.py",
    "privacy/ledger/test_exact_attack.py",
    "privacy/ledger/test_replanning_attack.py",
    "privacy/test_tuned_attack.py",
    "recipes/test_teacher_kinds.py",
    "report/test_campaign_report.py",
    "selectors/test_hidden_attack.py",
    "selectors/test_selection_attack.py",
    "storage/test_abandoning.py",
    "storage/test_storage_contract.py",
    "storage/test_storage_kills.py",
    "stream/test_stream_attack.py",
    "stream/test_stream_hostile.py",
    "stream/test_stream_neighbours.py",
    "testing/test_contracts.py",
    "testing/test_gate_contract.py",
    "testing/test_trainer_contract.py",
    "trainers/test_several_processes.py",
    "trainers/test_training_statistics.py",
    "tuning/test_private_search.py",
    "web/test_web_attacks.py",
    "web/test_web_schema.py",
)


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(here).as_posix()
        if place.startswith(THOROUGH) and "long" not in item.keywords:
            item.add_marker(pytest.mark.thorough)
