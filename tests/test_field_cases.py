"""docs/field-cases.md says which tests hold each case; this holds it to that."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent
TABLE = TESTS.parent / "docs" / "field-cases.md"


def holding(case: str) -> set[str]:
    """Test files with a test, or a parameter of one, that is named by the case."""
    name = re.compile(rf"(?:test_|id=\")field_(?:F\d\d_)*{case}_")
    return {str(path.relative_to(TESTS)) for path in TESTS.rglob("test_*.py") if name.search(path.read_text(encoding="utf-8"))}


def test_every_field_case_is_held_by_the_tests_that_the_table_names():
    rows = re.findall(r"^\| (F\d\d) \|.*\| ([^|]*) \|$", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [case for case, _ in rows] == [f"F{number:02}" for number in range(1, 35)]
    for case, files in rows:
        assert set(re.findall(r"`([^`]+)`", files)) == holding(case), case
