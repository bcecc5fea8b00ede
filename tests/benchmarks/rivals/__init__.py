"""Rivals: mechanisms of other groups, implemented from their papers as mechanisms of ours, for benchmarks alone.

Every draw of them goes through the kernel, so that they are private in fact. They are no part of the product.
"""

from __future__ import annotations

from typing import Final

from dpcore.mechanisms.api import Mechanism
from tests.benchmarks.rivals.gem import Gem
from tests.benchmarks.rivals.gsd import Gsd
from tests.benchmarks.rivals.privmrf import PrivMrf
from tests.benchmarks.rivals.privsyn import PrivSyn
from tests.benchmarks.rivals.rap import Rap
from tests.benchmarks.rivals.tab_pe import TabPe

RIVALS: Final[dict[str, type[Mechanism]]] = {
    kind.traits.name: kind for kind in (PrivMrf, PrivSyn, TabPe, Gsd, Rap, Gem)
}
