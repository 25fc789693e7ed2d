"""``scalene-analyze live``: a recording that runs, as tables that refresh."""
