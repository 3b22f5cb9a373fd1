"""Faults on purpose: kills, damaged files, two at once, guards taken out.

`python -m mom_pipeline_tests.faults --help` runs many of each; the tests beside run a few.
"""
