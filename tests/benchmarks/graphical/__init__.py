"""Shared by the cases of graphical models. Light, because scripts of the peers' environment are in it too."""

from __future__ import annotations
