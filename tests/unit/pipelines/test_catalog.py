"""Names of tables in Spark's catalogs."""

from __future__ import annotations

import pytest

from dpcore.errors import ConfigError
from pipelines.source.catalog import catalog_table


@pytest.mark.parametrize(
    ("written", "name", "quoted"),
    [
        ("people", "spark_catalog.default.people", "`spark_catalog`.`default`.`people`"),
        ("sales.people", "spark_catalog.sales.people", "`spark_catalog`.`sales`.`people`"),
        ("Main.sales.People", "Main.sales.People", "`Main`.`sales`.`People`"),
        ("`my catalog`.`a.b`.`c``d`", "`my catalog`.`a.b`.`c``d`", "`my catalog`.`a.b`.`c``d`"),
        ("`main`.sales.people", "main.sales.people", "`main`.`sales`.`people`"),
        ("my-catalog.x.y", "`my-catalog`.x.y", "`my-catalog`.`x`.`y`"),
        ("a;DROP", "spark_catalog.default.`a;DROP`", "`spark_catalog`.`default`.`a;DROP`"),
        ("größe", "spark_catalog.default.`größe`", "`spark_catalog`.`default`.`größe`"),
    ],
)
def test_reads_one_to_three_parts(written: str, name: str, quoted: str) -> None:
    table = catalog_table(written, 7)
    assert (table.name, table.quoted, table.version) == (name, quoted, 7)
    assert catalog_table(table.name) == catalog_table(written)


@pytest.mark.parametrize("written", ["", ".", "a.", ".a", "a..b", "a.b.c.d", "a b", "`a", "a`b`", "``", "`a`b", "a. b"])
def test_refuses_what_is_no_name(written: str) -> None:
    with pytest.raises(ConfigError, match=r"want a name of one to three parts such as main\.sales\.people"):
        catalog_table(written)
