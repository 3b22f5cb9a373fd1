"""Where the lists go: tables or files of others, each an asset that theirs can depend on."""

import dagster as dg

from mom_pipeline.defs.daily import OWNERS, RETRIED, Names
from mom_pipeline.exports.tables import Output, write_output
from mom_pipeline.serving.registry import NoChampion


def output_asset(
    names: Names, partitions: dg.DailyPartitionsDefinition, output: Output
) -> dg.AssetsDefinition:
    """The asset of an output: its key is the name of the table, behind the prefix."""

    @dg.asset(
        key=dg.AssetKey([*names.prefix, *output.name.split(".")]),
        description=f"The {output.what} of everybody, of the model in use, in {output.shown}.",
        group_name=names.group or "serving",
        kinds={output.kind},
        deps=[names.key("recommendations")],
        owners=OWNERS,
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        metadata={"dagster/table_name": output.name},
        pool=names.pool,
        required_resource_keys={names.resource},
        retry_policy=RETRIED,
    )
    def write(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        folder = getattr(context.resources, names.resource)
        try:
            done = write_output(folder.settings, output)
        except NoChampion as reason:
            return dg.MaterializeResult(metadata={"note": str(reason)})
        return dg.MaterializeResult(
            metadata={
                "model_version": done.model,
                "day": done.day,
                "people": done.people,
                "dagster/row_count": done.rows,
            },
            data_version=dg.DataVersion(done.model),
        )

    return write
