"""`python -m mom_pipeline` is `mom-pipeline`."""

from mom_pipeline.cli import main

main()
