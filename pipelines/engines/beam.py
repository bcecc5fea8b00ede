"""Aggregation by Beam: whole-unit files, or rows grouped by a hash of their unit, counted and summed by a combiner.

Importing Beam takes seconds: import this module only for this engine.
"""

from __future__ import annotations

import logging
import pickle
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import final
from uuid import uuid4

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions

from dpcore.errors import ConfigError, EngineError, MarqueeError
from pipelines.aggregators.protocol import Aggregator
from pipelines.engines import distributed
from pipelines.engines.distributed import Counts, Part, Work
from pipelines.engines.failures import failure
from pipelines.source import Source
