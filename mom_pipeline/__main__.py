"""`python -m mom_pipeline` is `mom-pipeline`."""

from mom_pipeline.cli.main import main

main()
