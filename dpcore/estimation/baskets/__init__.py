"""A model of baskets from noisy sizes, item counts and pair counts: classes of size and taste.

Open ``basket_model.py`` first, the model; then ``mixture.py``, its classes, and ``mixture_fit.py``, their fit.

    size_law.py: the law of basket sizes from a noisy histogram.
    item_counts.py: estimates of item counts, most of which may lie below the noise.
    nodes.py: ranges of sizes that share their classes.
    fixed_size.py: how the items of a basket of given size depend on each other.
    mixture.py, mixture_loss.py, mixture_fit.py: the classes, their agreement with the measurements, and the fit.
    count_correction.py: the last step of the fit: every item's count, on the ranges of sizes of the model.
    basket_estimate.py: all steps from measurements to the model.
    basket_model.py: answers and counts of the model; rounded_baskets.py: baskets dealt from counts.
    serialization.py: the model as a file.
"""

from __future__ import annotations
