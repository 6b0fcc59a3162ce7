"""A package whose module is started with -m."""
