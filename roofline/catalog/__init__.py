"""Files of GPUs, models, calibrations, engines and workloads, and the records that they become."""
