"""Post-processing of measurements and draws into public models."""
