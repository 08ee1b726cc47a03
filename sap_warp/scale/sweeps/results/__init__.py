"""Results of a sweep: the dataset, its summary and plots."""
