"""What the demo shows of its releases beside the truth, which it may print because its data are generated.

pairs.py: the most frequent pairs, as a table.
baskets.py: synthetic baskets beside the baskets that they stand for.
membership.py: which units have which items.
"""

from __future__ import annotations
