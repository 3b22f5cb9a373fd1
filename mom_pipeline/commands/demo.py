"""`mom-pipeline demo`: a first look at what the method does."""

from typing import Any

import click
import numpy as np
from scipy import sparse

from mom_pipeline.commands.terminal import json_option, print_json, print_table, share_progress


@click.command()
@click.option("--users", default=20_000, show_default=True, help="Simulated users.")
@click.option("--items", default=2_000, show_default=True, help="Simulated items.")
@click.option("--components", default=8, show_default=True, help="Latent classes of users.")
@click.option("--seed", default=0, show_default=True)
@json_option
def demo(users: int, items: int, components: int, seed: int, as_json: bool) -> None:
    """Simulate users of known classes, find the classes again, and recommend.

    A fifth of every user's items is hidden; the table shows how well each ranking finds them.
    """
    with share_progress("demo") as progress:
        result = _run(users, items, components, seed, progress)
    if as_json:
        print_json(result)
        return
    rows = [(r["ranking"], f"{r['recall']:.3f}", f"{r['map']:.3f}") for r in result["rankings"]]
    print_table("Hidden items found", ["ranking", "Recall@20", "MAP@20"], rows)
    found = [
        (k + 1, f"{row['weight']:.3f}", f"{row['true_weight']:.3f}", f"{row['error']:.3f}")
        for k, row in enumerate(result["classes"])
    ]
    columns = ["class", "weight found", "true weight", "L1 error of its items"]
    print_table("Classes against the truth", columns, found)
    click.echo("Next: `mom-pipeline bench recovery`, or `mom-pipeline --help` for all commands.")


def _run(users: int, items: int, components: int, seed: int, progress: Any) -> dict[str, Any]:
    from mom_pipeline.bench.recovery import matched_columns
    from mom_pipeline.core import MethodOfMoments, evaluate_ranking, simulate
    from mom_pipeline.core.ranking_fit import hold_out

    truth, counts = simulate(users, items, components, seed=seed)
    progress(0.1)
    split = hold_out(counts, np.random.default_rng(seed), max_users=users)
    if split is None:
        raise click.ClickException("nobody has two items; simulate more items per user")
    model = MethodOfMoments(components, "balanced", "em", seed=seed).fit(split.train)
    progress(0.7)
    popularity = np.asarray(split.train.sum(axis=0)).ravel()
    tops = {
        "popularity": _most_popular(popularity, split.train),
        "latent classes": model.recommend(split.train, n=20)[0],
        "three moments": model.recommend(split.train, n=20, ranking="three-moment")[0],
    }
    progress(0.9)
    rankings = []
    for name, ids in tops.items():
        metrics = evaluate_ranking(ids[split.users], split.test, [20])
        rankings.append({"ranking": name, "recall": metrics.recall[20], "map": metrics.map[20]})
    found = MethodOfMoments(components, "unbiased", ranking="classes", seed=seed).fit(counts)
    errors, order = matched_columns(found.item_probs, truth.item_probs)
    classes = [
        {"weight": float(w), "true_weight": float(truth.weights[k]), "error": float(e)}
        for w, k, e in zip(found.weights, order, errors, strict=True)
    ]
    return {"rankings": rankings, "classes": classes, "warnings": found.diagnostics["warnings"]}


def _most_popular(popularity: Any, X: sparse.csr_array) -> Any:
    from mom_pipeline.core.prediction import recommend_top

    def scorer(rows: sparse.csr_array) -> Any:
        return np.broadcast_to(popularity, rows.shape).copy()

    return recommend_top(X, scorer, 20)[0]
