"""All that is known of a release before its data are opened: the job."""

from __future__ import annotations
