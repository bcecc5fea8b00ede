"""What the cases of graphical models share.

This package imports little, because scripts of the peers' environment belong to it too.
"""

from __future__ import annotations
