"""The tests, by what they need.

- ``unit``: functions and modules; no program is recorded.
- ``integration``: programs are recorded, or the commands are run.
- ``acceptance``: what the README and the documents promise.
- ``long``: programs that only ``make stress`` runs in full.
- ``support``: builders of traces and spools, oracles, drivers. Tests import from here, never from each other.
- ``targets``: the programs that are recorded.
"""
