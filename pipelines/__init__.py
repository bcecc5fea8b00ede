"""From Parquet to exact statistics and from models to Parquet, on one machine, Spark or Beam."""
