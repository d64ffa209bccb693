"""The heat map shows what the atlas's runs came to."""

import pytest
from recorded import new_drafter, new_trunk, record

from mtviz import atlas
from mtviz.trace import counts
from mtviz.views.heat import heat


@pytest.fixture(scope="module")
def traces():
    trunk = new_trunk()
    settings = {"temperature": 0.0, "max_new_tokens": 10}
    return {cell: record(trunk=trunk, drafter=new_drafter(), **atlas.cell_settings(settings, cell)) for cell in atlas.cells()}


def test_every_cell_is_its_own_run(traces):
    map_ = heat(atlas.pack(traces, {"command": "here", "date": "now"}), {4: 2.0})
    assert map_["thresholds"][:2] == [None, 1.0] and map_["thresholds"][-1] == min(atlas.THRESHOLDS)
    assert [[(cell["num_draft_tokens"], cell["threshold"]) for cell in row] for row in map_["cells"]] == [[(k, t) for t in map_["thresholds"]] for k in atlas.LENGTHS]
    for cell in (cell for row in map_["cells"] for cell in row):
        counted = counts(traces[cell["num_draft_tokens"], cell["threshold"]])
        assert cell["tokens_per_round"] == counted["mean_acceptance_length"] and cell["mean_bias_tv"] == counted["mean_bias_tv"]
        assert cell["tokens_per_second"] > 0
        assert cell["speedup"] == (counted["mean_acceptance_length"] / 2 if cell["num_draft_tokens"] == 4 else None)
    assert all(row[0]["mean_bias_tv"] == 0 for row in map_["cells"])  # exact
