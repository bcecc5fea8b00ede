"""What to measure and how precisely, from public facts only."""
