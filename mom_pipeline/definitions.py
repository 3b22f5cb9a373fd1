"""What `dagster dev` and `mom-pipeline ui` load: the pipeline alone, in one process a run."""

import dagster as dg

from mom_pipeline.defs.build import build_defs

defs = build_defs(executor=dg.in_process_executor)
