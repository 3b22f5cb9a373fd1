"""Small folders as versions of the package left them, `format_N.zip`: sample logs, no history.

`python -m mom_pipeline_tests.cli.stored` writes the one of the present format.
"""
