"""Three callers of one aggregator: this machine, Spark, Beam."""
