"""The config schema says which mechanisms ``accounting: auto`` accounts in Gaussian DP, as their traits do."""

from __future__ import annotations

import re

from dpcore.mechanisms.registry import MECHANISMS
from jobs.config import Privacy


def test_the_text_about_auto_names_the_mechanisms_with_gaussian_dp() -> None:
    text = Privacy.model_fields["accounting"].description or ""
    named = set(re.findall(r"\w+", text.partition("less noise in it:")[2].partition(".")[0])) - {"and"}
    assert named == {name for name, kind in MECHANISMS.items() if kind.traits.mostly_gaussian}
