"""Data in: records of GPUs, models, number formats and calibrations, and how files become them."""
