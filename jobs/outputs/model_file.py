"""model.npz or baskets.npz: the model of a release. It is public, answers further queries, and gives further rows."""

from __future__ import annotations

from pathlib import Path

from dpcore.errors import IntegrityError
from dpcore.estimation.baskets.basket_model import BasketMixture
from dpcore.estimation.baskets.serialization import load_baskets, save_baskets
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.answering.serialization import load_model, save_model
from dpcore.estimation.model import Model
from pipelines.layout import BasketLayout, Layout, TableLayout

MODEL = "model.npz"
BASKETS = "baskets.npz"


def write_model(folder: Path, model: Model | None) -> None:
    """Writes a graphical model, or a model of baskets. Models of other kinds are not stored.

    folder: The folder of the release.
    model: The model of the release; None for a mechanism without one.
    """
    if isinstance(model, GraphicalModel):
        with open(folder / MODEL, "wb") as file:
            save_model(model, file)
    if isinstance(model, BasketMixture):
        with open(folder / BASKETS, "wb") as file:
            save_baskets(model, file)


def read_model(folder: Path, layout: Layout) -> GraphicalModel | None:
    """Reads the graphical model of a release.

    folder: The folder of a published release.
    layout: The public layout of its data.

    Returns: The model; None when the release has no model file.
    Raises: IntegrityError when the model and the layout have different attributes; InputError when the file is not a
        model.
    """
    path = folder / MODEL
    if not path.exists():
        return None
    with open(path, "rb") as file:
        model = load_model(file)
    schema = layout.schema.domain if isinstance(layout, TableLayout) else None
    known = schema is not None and all(name in schema for name in model.domain.names)
    if schema is None or not known or schema.project(model.domain.names) != model.domain:
        raise IntegrityError(f"{path} has other attributes than the schema; want the model of this release")
    return model


def read_baskets(folder: Path, layout: Layout) -> BasketMixture | None:
    """Reads the model of baskets of a release.

    folder: The folder of a published release.
    layout: The public layout of its data.

    Returns: The model; None when the release has no such file.
    Raises: IntegrityError when the model and the layout have different items; InputError when the file is not a model.
    """
    path = folder / BASKETS
    if not path.exists():
        return None
    with open(path, "rb") as file:
        model = load_baskets(file)
    if not isinstance(layout, BasketLayout) or layout.view != model.view:
        raise IntegrityError(f"{path} has other items than the data; want the model of this release")
    return model
