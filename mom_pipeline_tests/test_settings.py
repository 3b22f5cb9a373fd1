"""Settings: defaults, file, environment; every mistake is named."""

import re
import tomllib
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import get_args

import pytest

from mom_pipeline import settings
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.interactions import RowsName
from mom_pipeline.core.moments.estimators import EstimatorName, own_rows
from mom_pipeline.core.ranking.learning import PENALTY
from mom_pipeline.core.ranking.memberships import RuleName
from mom_pipeline.core.ranking.score import FEATURES, RankingName, RankingWeights
from mom_pipeline.pipeline.choice import stated_weights
from mom_pipeline.settings import ColumnSettings, ModelSettings, checked, fingerprint, load_settings

COMMITTED = Path(__file__).parents[1] / "data" / "pipeline.toml"


def load(tmp_path: Path, text: str = "", **environment: str):  # type: ignore[no-untyped-def]
    if text:
        (tmp_path / "pipeline.toml").write_text(text)
    return load_settings(tmp_path, environment)


def test_the_committed_file_names_every_key_with_its_default_and_fixes_none(tmp_path: Path) -> None:
    text = COMMITTED.read_text()
    text = re.sub(
        r"^start_date = .* # of the first log file.*$", 'start_date = ""', text, flags=re.M
    )
    named = tomllib.loads(re.sub(r"^# (?=[a-z_]+ = )", "", text, flags=re.MULTILINE))
    defaults = load(tmp_path)
    keys = defaults.model_dump(mode="json", exclude={"data_dir", "fixed"})
    # By default no weight is named; the file shows how one is.
    assert named["ranking"].pop("weights").keys() <= set(FEATURES)
    assert keys["ranking"].pop("weights") == []
    assert named["logs"].pop("event_weights")
    assert keys["logs"].pop("event_weights") == []
    assert named == keys
    assert load(tmp_path, text) == defaults


def test_there_are_at_most_fifty_settings(tmp_path: Path) -> None:
    sections = load(tmp_path).model_dump(exclude={"data_dir", "fixed"})
    columns = sections["logs"].pop("columns")
    assert 30 < sum(len(keys) for keys in (columns, *sections.values())) <= 50


def test_defaults_and_names_are_those_of_core(tmp_path: Path) -> None:
    defaults = {field.name: field.default for field in fields(MethodOfMoments)}
    defaults["rows"] = own_rows(defaults["estimator"])
    model = asdict(load(tmp_path).model)
    assert model == {key: defaults[key] for key in model}
    assert stated_weights(load(tmp_path)) == RankingWeights()
    assert load(tmp_path).ranking.penalty == PENALTY
    assert get_args(settings.FeatureName) == FEATURES
    own = [settings.EstimatorName, settings.RowsName, settings.RuleName, settings.RankingName]
    names = [EstimatorName, RowsName, RuleName, RankingName]
    assert [set(get_args(name)) for name in own] == [set(get_args(name)) for name in names]


def test_a_section_made_directly_is_checked_too() -> None:
    with pytest.raises(InvalidSetting, match=r"n_components must be .*equal to 1, found 0"):
        checked(ModelSettings, n_components=0)
    with pytest.raises(InvalidSetting, match="unknown setting n_classes"):
        checked(ModelSettings, n_classes=3)
    with pytest.raises(ValueError, match="different names"):
        replace(ColumnSettings(), user="item")


def test_every_key_of_the_committed_file_is_explained() -> None:
    lines = COMMITTED.read_text().splitlines()
    explained = False
    for line in lines:
        if " = " in line and not line.startswith("#"):
            assert explained, line
        explained = line.startswith("#") or (explained and " = " in line)


def test_file_then_environment(tmp_path: Path) -> None:
    text = '[logs]\ntimezone = "Asia/Taipei"\nmax_reject_share = 1\n[matrix]\nwindow_days = 30\n'
    settings = load(tmp_path, text, MOM_MATRIX__WINDOW_DAYS="7", MOM_LOGS__COLUMNS__USER="who")
    assert settings.logs.timezone == "Asia/Taipei"
    assert settings.logs.max_reject_share == 1.0
    assert settings.matrix.window_days == 7
    assert settings.logs.columns.user == "who"
    assert settings.logs.columns.item == "item"
    shorter = load(tmp_path, MOM_EVALUATION__CUTOFFS="5,10", MOM_PROMOTION__ENABLED="false")
    assert (shorter.evaluation.cutoffs, shorter.promotion.enabled) == ((5, 10), False)


def test_the_data_folder_comes_from_the_environment(tmp_path: Path) -> None:
    assert load_settings(None, {"MOM_DATA_DIR": str(tmp_path)}).data_dir == tmp_path
    assert load_settings(None, {}).data_dir == Path("data")
    assert load_settings(tmp_path, {}).warehouse_path == tmp_path / "warehouse.duckdb"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[logz]\n", "unknown setting logz in .*pipeline.toml; did you mean 'logs'"),
        ("[model]\nn_component = 3\n", "model.n_component .*; did you mean 'n_components'"),
        (
            "[ranking]\nweights = { low_pas = 1.0 }\n",
            "ranking.weights.* 'low_pass'.* found 'low_pas'",
        ),
        ("[logs.columns]\nusr = 'u'\n", "unknown setting logs.columns.usr .*mean 'user'"),
        ("data_dir = 'x'\n", "unknown setting data_dir"),
        ("logs = 3\n", r"logs in .* must be a section \[logs\], found 3"),
        ("[ranking]\npenalty = -1.0\n", "ranking.penalty in .* must be .* to 0, found -1.0"),
        ("[logs]\ntimezone = 'Mars/Base'\n", "IANA zone .* found 'Mars/Base'"),
        ("[logs]\ndelimiter = 'x'\n", "logs.delimiter in .* must be ',', ';' or '|', found 'x'"),
        ("[logs]\ntimestamp_format = 'rfc'\n", "must be 'iso', 'epoch_s'"),
        ("[logs]\nmax_reject_share = nan\n", "max_reject_share in .*, found nan"),
        ("[logs.columns]\nuser = 'item'\n", "logs.columns in .* must be different names, found"),
        ("[logs.columns]\nuser = 'a\"b'\n", "printable without quotes"),
        ("[ranking]\nweights = { age = inf }\n", "must be a finite number, found inf"),
        ("[warehouse]\nmemory_limit = 'lots'\n", "must be empty or like '4GB', found 'lots'"),
        ("[artifacts]\nretention_days = 8\n", "artifacts.retention_days in .* \\+ 1 = 8"),
        ("[pipeline]\nstart_date = '1 March'\n", "pipeline.start_date in .* must be empty or a"),
        (
            "[pipeline]\nstart_date = '2024-03-02'\nend_date = '2024-03-01'\n",
            "pipeline.end_date in .* on or after start_date, found '2024-03-01'",
        ),
        ("[model]\nn_components = 0\nseed = -1\n", "(?s)n_components.*model.seed"),
        ("[evaluation]\ncutoffs = [20, 5]\n", "evaluation.cutoffs in .* must be ascending"),
        ("[alerts]\nwebhook = 'ftp://x'\n", "alerts.webhook in .* http://"),
        ("[logs\n", "is not valid TOML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        load(tmp_path, text)


def test_a_folder_in_the_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").mkdir()
    with pytest.raises(InvalidSetting, match=r"pipeline\.toml must be a file, found a folder"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MOM_LOGZ__TIMEZONE", "UTC", "unknown setting logz; did you mean 'logs'"),
        ("MOM_LOGS__TIMEZON", "UTC", "unknown setting MOM_LOGS__TIMEZON; did you mean 'timezone'"),
        ("MOM_MATRIX__WINDOW_DAYS", "ten", "MOM_MATRIX__WINDOW_DAYS must be a valid integer"),
        ("MOM_EVALUATION__CUTOFFS", "5,a", "MOM_EVALUATION__CUTOFFS must be a valid integer"),
        ("MOM_PROMOTION__ENABLED", "maybe", "MOM_PROMOTION__ENABLED must be a valid boolean"),
        ("MOM_LOGS", "UTC", r"MOM_LOGS must be a section \[logs\]"),
    ],
)
def test_a_mistake_in_the_environment_is_named(
    tmp_path: Path, name: str, value: str, message: str
) -> None:
    with pytest.raises(InvalidSetting, match=message):
        load(tmp_path, **{name: value})


def test_fingerprints_follow_the_values(tmp_path: Path) -> None:
    one, two = load(tmp_path), load(tmp_path, MOM_MATRIX__WINDOW_DAYS="7")
    assert fingerprint(one.matrix) == fingerprint(load(tmp_path).matrix)
    assert fingerprint(one.matrix) != fingerprint(two.matrix)
