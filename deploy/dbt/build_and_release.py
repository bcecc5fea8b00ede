"""Builds a dbt project and, only if all of its models and tests succeed, makes one release of what it has written.

    python build_and_release.py --project . --vars '{day: 2026-11-23}' -- \\
        marquee run people.yaml --set dataset.snapshot=2026-11-23

dbt's hooks (post-hook, on-run-end) can only run SQL, so the release comes after dbt and not within it. The exit code is
that of the release, and of a build that fails 3 (a model or a test: correct the data first) or 6 (dbt itself: may be
retried), as in Marquee's own table.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

# dbt: 1 is a model or a test that fails, 2 an error of dbt itself or of its connection.
OF_DBT = {1: 3, 2: 6}


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description="Build a dbt project, and make a release of what it has written.")
    parser.add_argument("--dbt", default="dbt", help="the dbt program (default: %(default)s)")
    parser.add_argument("--project", default=".", help="folder of dbt_project.yml and profiles.yml (default: here)")
    parser.add_argument("--vars", default="{}", help="variables of the project, as YAML")
    parser.add_argument("--select", default="*", help="models to build (default: all)")
    parser.add_argument("command", nargs="+", help="the release, after --: marquee run people.yaml")
    chosen = parser.parse_args()
    place = ["--project-dir", chosen.project, "--profiles-dir", chosen.project]
    build = [chosen.dbt, "build", *place, "--vars", chosen.vars, "--select", chosen.select]
    if code := subprocess.run(build, check=False).returncode:
        sys.stderr.write("dbt build failed, so there is no release and no charge; mend what dbt names above\n")
        return OF_DBT.get(code, 6)
    return subprocess.run(chosen.command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
