"""The sub-commands of `mom-pipeline`, one file per family."""
