"""Processes that were started without the recorder: what is known of them from outside."""
