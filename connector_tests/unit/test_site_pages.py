"""Links of the documentation's site."""

from __future__ import annotations

import pytest
from site_pages import with_site_links


@pytest.mark.parametrize(
    ("source", "shown", "link", "expected"),
    [
        ("README.md", "index.md", "[a](docs/reading.md#columns)", "[a](reading.md#columns)"),
        ("docs/reading.md", "reading.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/reference/cli.md", "reference/cli.md", "[a](../performance.md#idle)", "[a](../performance.md#idle)"),
        ("docs/dev/tests.md", "dev/tests.md", "[a](../../DESIGN.md#packages)", "[a](../design.md#packages)"),
        ("docs/dev/tests.md", "dev/tests.md", "[`a`](../../rocketmq_spark/model.py)", "`a`"),
        (
            "DESIGN.md",
            "design.md",
            "[a](https://example.org/b) [c](#packages)",
            "[a](https://example.org/b) [c](#packages)",
        ),
        ("docs/a.md", "a.md", "![picture](benchmarks/rows.png)", "![picture](benchmarks/rows.png)"),
    ],
)
def test_link_of_a_page_fits_the_site(source: str, shown: str, link: str, expected: str) -> None:
    assert with_site_links(link, source, shown) == expected
