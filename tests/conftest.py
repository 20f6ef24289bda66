"""Fixtures that several test folders share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes on a busy machine is no property of the code: tests of speed measure by themselves.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def horma_data() -> Path:
    """The folder of public datasets ($HORMA_DATA, default `../shared/data`); the test is skipped without it."""
    folder = Path(os.environ.get("HORMA_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no datasets at {folder}: set HORMA_DATA")
    return folder


@pytest.fixture(scope="session")
def locomo_file(horma_data: Path) -> Path:
    """The released locomo10.json; the test is skipped without it."""
    path = horma_data / "locomo" / "locomo10.json"
    if not path.is_file():
        pytest.skip(f"no LoCoMo at {path}")
    return path
