"""A recommender in a file: DuckDB alone gives the answers of the service."""

import subprocess
import sys
from ast import literal_eval
from dataclasses import asdict
from pathlib import Path

import duckdb
import numpy as np
import pytest

from mom_pipeline import Recommender
from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.exports.model_file import write_model_file
from mom_pipeline.exports.tables import NotExported
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import Manifest, ServedModel
from mom_pipeline.settings import ModelSettings, load_settings

N, D, K = 1_200, 90, 3
NEWEST = 738_900
SAME = {"rel": 1e-6, "abs": 1e-6}


def made(folder: Path, *, ranking: str = "three-moment") -> Path:
    """A data folder whose model in use has histories of 30 days."""
    _, X = simulate(N, D, K, items_per_user=9, seed=1)
    rng, days = np.random.default_rng(0), X.copy()
    days.data = rng.integers(NEWEST - 30, NEWEST, X.nnz, endpoint=True).astype(float)
    model = MethodOfMoments(K, ranking=ranking)
    fitted = model.fit(X, last_days=days if ranking == "three-moment" else None).fitted
    items = np.array([f"it'em {y}" for y in range(D)], dtype=object)
    users = np.array([f'us"er {u}' for u in rng.permutation(N)], dtype=object)
    manifest = Manifest("", "2024-01-15", "1", "rows", asdict(ModelSettings()), {}, {})
    folder.mkdir()
    (folder / "items.csv").write_text("item,name\nit'em 3,Three\n")
    registry = ModelRegistry(folder / "models")
    registry.promote(registry.add(ServedModel(manifest, fitted, items, users, X, days)), "first")
    return folder


@pytest.fixture(scope="module", params=["all regressed", "nearest regressed"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "nearest regressed":
            patch.setattr("mom_pipeline.core.ranking.ease.MAX_INVERTED_ITEMS", D - 30)
            patch.setattr("mom_pipeline.core.ranking.ease._NEAREST", 20)
        return made(tmp_path_factory.mktemp("model") / "data")


def require_same(theirs: list[tuple[str, str, float]], ours: list[tuple[str, str, float]]) -> None:
    """The same scores at every place, of the same items unless two scores are level."""
    assert [s for *_, s in theirs] == pytest.approx([s for *_, s in ours], **SAME)
    scores = {item: score for item, _, score in ours}
    for item, name, score in theirs:
        assert (name == "Three") is (item == "it'em 3")
        assert scores.get(item, ours[-1][2]) == pytest.approx(score, **SAME)


@pytest.mark.parametrize(
    ("settings", "people"),
    [
        ("", 60),
        ('[serving]\nexclude_seen = false\nexclude_items = ["it\'em 7"]\n', 30),
        pytest.param("", 1_000, marks=pytest.mark.long),
    ],
)
def test_the_answers_are_those_of_the_service(
    folder: Path, tmp_path: Path, settings: str, people: int
):
    (folder / "pipeline.toml").write_text(settings)
    path = tmp_path / "mo'del.duckdb"
    path.write_bytes(b"what was there before")
    written = write_model_file(load_settings(folder), path)
    assert (written.people, written.items) == (N, D)
    recommender = Recommender.open(folder)
    with duckdb.connect(str(path), read_only=True) as file:
        assert file.execute("SELECT version, day::VARCHAR FROM model").fetchall() == [
            (recommender.version, "2024-01-15")
        ]
        users = file.execute("SELECT user_id FROM users ORDER BY hash(user_id)").fetchall()
        asked = [user for (user,) in users[:people]]
        for user in [*asked, "nobody"]:
            found = file.execute("SELECT item_id, name, score FROM recommend($1)", [user])
            answer = recommender.recommend(user).items
            require_same(found.fetchall(), [(i.item, i.name, i.score) for i in answer])
        for item in ("it'em 3", "it'em 7", "it'em 80"):
            found = file.execute("SELECT item_id, name, score FROM similar($1, n := 5)", [item])
            answer = recommender.similar(item, 5).items
            require_same(found.fetchall(), [(i.item, i.name, i.score) for i in answer])
        for user in asked[:10]:
            seen = file.execute(
                "SELECT item_id FROM histories JOIN users USING (u) JOIN items USING (y) "
                "WHERE user_id = $1 LIMIT 1",
                [user],
            ).fetchall()[0][0]
            for item in (recommender.recommend(user).items[-1].item, seen):
                found = file.execute("FROM explain($1, $2)", [user, item]).fetchall()
                answer = recommender.explain(user, item)
                for kind, terms in (("part", answer.moments), ("history", answer.history)):
                    ours = dict.fromkeys((n for k, n, _ in found if k == kind), 0.0)
                    ours |= {term.name: term.contribution for term in terms}
                    assert {n: v for k, n, v in found if k == kind} == pytest.approx(ours, **SAME)


def test_a_model_without_what_the_file_holds_is_refused(tmp_path: Path):
    folder = made(tmp_path / "data", ranking="components")
    with pytest.raises(NotExported, match="ranks by its components alone"):
        write_model_file(load_settings(folder), tmp_path / "model.duckdb")
    with pytest.raises(NotExported, match="lies in the data folder"):
        write_model_file(load_settings(folder), folder / "model.duckdb")
    assert list(tmp_path.iterdir()) == [folder]


def rounded(rows: list[tuple[object, ...]]) -> list[list[object]]:
    return [[round(v, 9) if isinstance(v, float) else v for v in row] for row in rows]


@pytest.mark.long
@pytest.mark.parametrize("version", ["1.2.2", "1.4.4"])
def test_an_older_duckdb_opens_it(folder: Path, tmp_path: Path, version: str):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "older"], check=True)
    python = tmp_path / "older" / "bin" / "python"
    installed = [python, "-m", "pip", "install", "--quiet", f"duckdb=={version}"]
    if subprocess.run(installed, check=False, capture_output=True).returncode:
        pytest.skip(f"pip does not have duckdb {version} here")
    (folder / "pipeline.toml").write_text("")
    path = tmp_path / "model.duckdb"
    write_model_file(load_settings(folder), path)
    questions = [
        "SELECT user_id, r.* FROM (SELECT min(user_id) AS user_id FROM users), "
        "recommend((SELECT min(user_id) FROM users)) AS r",
        "FROM similar('it''em 3')",
        "SELECT * FROM explain((SELECT min(user_id) FROM users), 'it''em 3')",
    ]
    code = (
        "import duckdb, sys\n"
        "file = duckdb.connect(sys.argv[1], read_only=True)\n"
        "print([file.execute(q).fetchall() for q in sys.argv[2:]])\n"
    )
    said = subprocess.run(
        [python, "-c", code, path, *questions], check=True, capture_output=True, text=True
    ).stdout
    with duckdb.connect(str(path), read_only=True) as file:
        for older, question in zip(literal_eval(said), questions, strict=True):
            assert rounded(older) == rounded(file.execute(question).fetchall())
