"""What is particular to the Beam engine: its temporary folder, its failures, its worker processes, its script."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dpcore.errors import ConfigError, EngineError, InputError
from dpcore.queries import UnitCount
from pipelines.aggregators import aggregator_for
from pipelines.aggregators.protocol import Block
from pipelines.engines import distributed
from pipelines.engines.beam import BeamEngine
from pipelines.engines.local import LocalEngine
from pipelines.source import Source, open_source
from tests.support import engine_cases
from tests.support.datasets import ROOT
from tests.support.engine_cases import SALT
from tests.support.small_release import EXACT, write_release

pytestmark = pytest.mark.beam

SECRET = "patient-4711"


@dataclass(frozen=True)
class Quoting:
    """An aggregator that fails as libraries do: with a value of the data in its message."""

    def create(self) -> NDArray[np.int64]:
        return np.zeros(1, dtype=np.int64)

    def add(self, accumulator: NDArray[np.int64], block: Block) -> NDArray[np.int64]:
        raise ValueError(f"cannot parse {SECRET}")

    def merge(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return left + right

    def extract(self, accumulator: NDArray[np.int64]) -> NDArray[np.int64]:
        return accumulator
