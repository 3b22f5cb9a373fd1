"""Settings: defaults, file, environment; every mistake is named."""

import json
import tomllib
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.model import ALGORITHM_1
from mom_pipeline.core.moments.estimators import own_rows
from mom_pipeline.settings import ColumnSettings, ModelSettings, fingerprint, load_settings

COMMITTED = Path(__file__).parents[1] / "data" / "pipeline.toml"


def load(tmp_path: Path, text: str = "", **environment: str):  # type: ignore[no-untyped-def]
    if text:
        (tmp_path / "pipeline.toml").write_text(text)
    return load_settings(tmp_path, environment)


def test_the_committed_file_shows_every_key(tmp_path: Path) -> None:
    values = tomllib.loads(COMMITTED.read_text())
    defaults = asdict(load(tmp_path))
    for name in ("data_dir", "fixed"):
        del defaults[name]
    lists = (("evaluation", "cutoffs"), ("comparison", "methods"), ("alerts", "command"))
    left_out = (("serving", "leave_out_items"), ("serving", "leave_out_groups"))
    for section, key in (*lists, *left_out):
        defaults[section][key] = list(defaults[section][key])
    sample = {"n_components": 8, "rows": "counts", "ranking": "components"}
    defaults["model"] |= sample
    defaults["pipeline"]["start_date"] = "2024-03-01"
    assert values == defaults


def test_the_model_has_the_defaults_of_the_method(tmp_path: Path) -> None:
    defaults = {field.name: field.default for field in fields(MethodOfMoments)}
    defaults["rows"] = own_rows(defaults["estimator"])
    model = asdict(load(tmp_path).model)
    assert model == {key: defaults[key] for key in model}
    assert (model["n_components"], model["personalization"]) == (100, "em")


def test_the_former_name_of_a_ranking_is_taken(tmp_path: Path) -> None:
    assert load(tmp_path, "[model]\nranking = 'classes'\n").model.ranking == "components"


def test_algorithm_1_can_be_set(tmp_path: Path) -> None:
    lines = [f"{key} = {json.dumps(value)}" for key, value in ALGORITHM_1.items()]
    model = asdict(load(tmp_path, "\n".join(["[model]", *lines])).model)
    assert {key: model[key] for key in ALGORITHM_1} == ALGORITHM_1


def test_a_section_made_directly_is_checked_too() -> None:
    with pytest.raises(InvalidSetting, match=r"model\.n_components must be at least 1, found 0"):
        ModelSettings(n_components=0)
    with pytest.raises(InvalidSetting, match=r"logs\.columns must be different names"):
        replace(ColumnSettings(), user="item")
    with pytest.raises(InvalidSetting, match=r"unknown setting .model\.n_classes"):
        ModelSettings(n_classes=3)


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
    shorter = load(tmp_path, MOM_EVALUATION__CUTOFFS="5,10")
    assert shorter.evaluation.cutoffs == (5, 10)


def test_a_switch_from_the_environment_is_true_or_false(tmp_path: Path) -> None:
    assert not load(tmp_path, MOM_PROMOTION__ENABLED="false").promotion.enabled
    assert load(tmp_path, MOM_PROMOTION__ENABLED="true").promotion.enabled
    with pytest.raises(InvalidSetting, match="MOM_PROMOTION__ENABLED must be true or false"):
        load(tmp_path, MOM_PROMOTION__ENABLED="no")


def test_weights_make_the_lists_stale_and_no_moment(tmp_path: Path) -> None:
    text = '[model]\nranking = "three-moment"\n[tuning]\nevery_days = 0\n'
    before = DayState(load(tmp_path, text))
    after = DayState(load(tmp_path, text, MOM_RANKING__COMPONENTS="2"))
    for asset, same in (("m2_statistics", True), ("user_personalization", False)):
        assert (before.settings_of(asset) == after.settings_of(asset)) is same


def test_the_data_folder_comes_from_the_environment(tmp_path: Path) -> None:
    assert load_settings(None, {"MOM_DATA_DIR": str(tmp_path)}).data_dir == tmp_path
    assert load_settings(None, {}).data_dir == Path("data")
    paths = load_settings(tmp_path, {})
    assert paths.logs_dir == tmp_path / "logs"
    assert paths.warehouse_path == tmp_path / "warehouse.duckdb"
    assert paths.artifacts_dir == tmp_path / "artifacts"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[logz]\n", "'logz'; did you mean 'logs'\\? known here: pipeline, logs, matrix"),
        ("[zzz]\n", "unknown setting 'zzz'; known here: pipeline, logs, matrix"),
        ("[model]\nn_component = 3\n", "'model.n_component'; did you mean 'n_components'"),
        ("[ranking]\nlow_pas = 1.0\n", "'ranking.low_pas'; did you mean 'low_pass'"),
        ("[ranking]\npairs = -1.0\n", "ranking.pairs must be 0 or more, found -1.0"),
        ("[ranking]\npairs = 'x'\n", "ranking.pairs must be of type float, found 'x'"),
        ("ranking = 1\n", r"ranking must be a section \[ranking\]"),
        ("[ranking]\nclasses = 1.0\n", "'ranking.classes' is called 'ranking.components' now"),
        ("[ranking]\nexplained = 1.0\n", "'ranking.explained' is called 'ranking.ease' now"),
        ("[ranking]\nexplained_ridge = 1.0\n", "is called 'ranking.ease_ridge' now; rename it"),
        ("[logs]\nzone = 'UTC'\n", "unknown setting 'logs.zone'"),
        ("[logs.columns]\nusr = 'u'\n", "unknown setting 'logs.columns.usr'"),
        ("data_dir = 'x'\n", "unknown setting 'data_dir'"),
        ("logs = 3\n", r"logs must be a section \[logs\]"),
        ("[logs]\ntimezone = 'Mars/Base'\n", "IANA zone .* found 'Mars/Base'"),
        ("[logs]\ntimezone = '../etc'\n", "IANA zone"),
        ("[logs]\ntimezone = 8\n", "logs.timezone must be of type str, found 8 of type int"),
        ("[logs]\ndelimiter = 'x'\n", "logs.delimiter must be one of"),
        ("[logs]\ntimestamp_format = 'rfc'\n", "logs.timestamp_format must be one of"),
        ("[logs]\nmax_reject_share = 1.5\n", r"logs.max_reject_share must be in \[0, 1\]"),
        ("[logs]\nmax_reject_share = nan\n", r"logs.max_reject_share must be in \[0, 1\]"),
        ("[logs]\nmax_reject_share = true\n", "must be of type float, found True of type bool"),
        ("[logs.columns]\nuser = ''\n", "logs.columns.user must be a column name"),
        ("[logs.columns]\nuser = 'item'\n", "logs.columns must be different names"),
        ("[logs.columns]\nuser = 'a\"b'\n", "printable names without quotes"),
        ("[matrix]\nwindow_days = -1\n", "matrix.window_days must be 0"),
        ("[matrix]\nwindow_days = 1.5\n", "must be of type int, found 1.5 of type float"),
        ("[matrix]\nmin_item_users = 0\n", "matrix.min_item_users must be at least 1"),
        ("[warehouse]\nlock_wait_seconds = inf\n", "warehouse.lock_wait_seconds"),
        ("[warehouse]\nthreads = -1\n", "warehouse.threads"),
        ("[warehouse]\nmemory_limit = 'lots'\n", "warehouse.memory_limit must be empty or like"),
        ("[artifacts]\nretention_days = -1\n", "artifacts.retention_days"),
        ("[artifacts]\nretention_days = 8\n", "above evaluation.horizon_days \\+ 1 = 8"),
        ("[pipeline]\nstart_date = '1 March'\n", "pipeline.start_date must be empty or a"),
        ("[pipeline]\nstart_date = '2024-03-02'\nend_date = '2024-03-01'\n", "on or after"),
        ("[model]\nestimator = 'best'\n", "model.estimator must be one of"),
        ("[model]\nn_components = 0\n", "model.n_components must be at least 1"),
        ("[model]\nsmoothing = 1.0\n", "model.smoothing must be between 0 and 1"),
        ("[model]\ntemperature = 0.0\n", "model.temperature must be above 0"),
        ("[rebuild]\ncapture_threshold = 2.0\n", "rebuild.capture_threshold must be in"),
        ("[model]\ndecomposition = 'svd'\n", "model.decomposition must be one of"),
        ("[model]\nranking = 'class'\n", "model.ranking must be one of 'components'"),
        ("[model]\nn_components = 0\ndelta = 3.0\n", "(?s)n_components.*model.delta must be"),
        ("[rebuild]\nanchor_width = -1\n", "rebuild.anchor_width must be 0 or more"),
        ("[rebuild]\nfrequent_items = 1\n", "rebuild.frequent_items must be at least 2"),
        ("[serving]\nlist_length = 0\n", "serving.list_length must be at least 1"),
        ("[serving]\nrefresh_drift = -0.1\n", "serving.refresh_drift must be in"),
        ("[evaluation]\nhorizon_days = 0\n", "evaluation.horizon_days must be at least 1"),
        ("[evaluation]\ncutoffs = [20, 5]\n", "evaluation.cutoffs must be ascending"),
        ("[evaluation]\ncutoffs = 20\n", "evaluation.cutoffs must be a list of int"),
        ("[evaluation]\ncutoffs = ['a']\n", "evaluation.cutoffs must be of type int"),
        ("[logs\n", "is not valid TOML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MOM_LOGS__TIMEZON", "UTC", "unknown setting 'logs.timezon'"),
        ("MOM_MATRIX__WINDOW_DAYS", "ten", "MOM_MATRIX__WINDOW_DAYS must be of type int"),
        ("MOM_LOGS__TIMEZONE__X", "1", "logs.timezone must be of type str"),
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
