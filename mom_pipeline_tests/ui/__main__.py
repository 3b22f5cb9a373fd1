"""`mom-pipeline`, whose pages are of the definitions in PAGES_OF."""

import os

from mom_pipeline.cli import main, serve

serve.CODE_LOCATION = os.environ["PAGES_OF"]
main.main()
