"""marquee demo"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(folder: Annotated[Path, typer.Argument(help="Where everything goes.")] = Path("out/demo")) -> None:
    """Generate two small datasets and release them.

    Examples:

        marquee demo
    """
    raise NotImplementedError
