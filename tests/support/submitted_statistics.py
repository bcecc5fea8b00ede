"""A program for spark-submit: exact answers of release configs on the cluster's engine, as sha256 of their bytes."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from tests.support.acceptance import answers

    result, *configs = map(Path, sys.argv[1:])
    result.write_text(json.dumps([hashlib.sha256(answers(config).tobytes()).hexdigest() for config in configs]))
