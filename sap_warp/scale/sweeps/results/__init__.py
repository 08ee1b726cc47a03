"""What a sweep leaves: the dataset, its summary and plots."""
