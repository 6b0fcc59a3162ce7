"""A package with a module that is started with -m."""
