"""The pytest plugin: records a test run, measures each test, and holds tests to budgets.

Every run of pytest imports :mod:`.plugin` where the package is installed; the other modules are imported when asked for.
"""
