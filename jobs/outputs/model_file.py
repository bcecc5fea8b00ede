"""model.npz: the graphical model of a release, from which more rows can be drawn and more queries answered; public."""

from __future__ import annotations

from pathlib import Path

from dpcore.errors import IntegrityError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.answering.serialization import load_model, save_model
from dpcore.estimation.model import Model
from pipelines.layout import Layout, TableLayout

MODEL = "model.npz"


def write_model(folder: Path, model: Model | None) -> None:
    """Writes a graphical model; a model of another kind has no file."""
    if isinstance(model, GraphicalModel):
        with open(folder / MODEL, "wb") as file:
            save_model(model, file)


def read_model(folder: Path, layout: Layout) -> GraphicalModel | None:
    """Reads the model in a folder.

    folder: The folder of a published release.
    layout: The public layout of its data.

    Returns: The model, or None where the folder has none.
    Raises: IntegrityError when the model has other attributes than the layout; InputError when the file is no model.
    """
    path = folder / MODEL
    if not path.exists():
        return None
    with open(path, "rb") as file:
        model = load_model(file)
    schema = layout.schema.domain if isinstance(layout, TableLayout) else None
    known = schema is not None and all(name in schema for name in model.domain.names)
    if schema is None or not known or schema.project(model.domain.names) != model.domain:
        raise IntegrityError(f"{path} is a model of other attributes than those of the schema; want the release's own")
    return model
