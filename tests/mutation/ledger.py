"""Faults of the ledger: paths, windows, amounts."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        "paths overlap only when equal",
        "jobs/ledger/binding.py",
        "return first.startswith(second) or second.startswith(first)",
        "return first == second",
        "tests/unit/jobs/ledger/test_moves.py",
    ),
    Mutant(
        "a folder within a bound one is free",
        "jobs/ledger/binding.py",
        "return first.startswith(second) or second.startswith(first)",
        "return second.startswith(first)",
        "tests/unit/jobs/ledger/test_moves.py",
    ),
    Mutant(
        "a bound path within the folder is free",
        "jobs/ledger/binding.py",
        "return first.startswith(second) or second.startswith(first)",
        "return first.startswith(second)",
        "tests/unit/jobs/ledger/test_moves.py",
    ),
    Mutant(
        "names that begin alike overlap",
        "jobs/ledger/binding.py",
        'first.rstrip("/") + "/", second.rstrip("/") + "/"',
        'first.rstrip("/"), second.rstrip("/")',
        "tests/unit/jobs/ledger/test_moves.py",
    ),
    Mutant(
        "another path is accepted",
        "jobs/ledger/binding.py",
        "    elif dataset.path != path:",
        "    elif False:",
        "tests/unit/jobs/ledger/test_sql_ledger.py",
    ),
    Mutant(
        "a dataset moves onto another one's path",
        "jobs/ledger/binding.py",
        "    _check_free(connection, name, path)\n    set_dataset(connection, name, path=path)\n    return",
        "    set_dataset(connection, name, path=path)\n    return",
        "tests/unit/jobs/ledger/test_moves.py",
    ),
    Mutant(
        "a move is not recorded",
        "jobs/ledger/binding.py",
        'return budgets.keep_total(connection, dataset, f"moved to {path}: {reason}", now)',
        "return locked_dataset(connection, name)",
        "tests/unit/jobs/ledger/test_moves.py",
    ),
    Mutant(
        "windows go back with the clock",
        "jobs/ledger/windows.py",
        "return max(stored, start_of(window, now))",
        "return start_of(window, now)",
        "tests/unit/jobs/ledger/test_consumers.py",
    ),
    Mutant(
        "a month begins every day",
        "jobs/ledger/windows.py",
        "return day.replace(day=1).isoformat()",
        "return day.isoformat()",
        "tests/unit/jobs/ledger/test_consumers.py",
    ),
    Mutant(
        "a year begins every month",
        "jobs/ledger/windows.py",
        "return day.replace(month=1, day=1).isoformat()",
        "return day.replace(day=1).isoformat()",
        "tests/unit/jobs/ledger/test_consumers.py",
    ),
    Mutant(
        "windows follow local time",
        "jobs/ledger/windows.py",
        "day = now.astimezone(UTC).date()",
        "day = now.date()",
        "tests/unit/jobs/ledger/test_consumers.py",
    ),
    Mutant(
        "a pure release costs half as zCDP",
        "jobs/ledger/amounts.py",
        "return budget.amount**2 / 2",
        "return budget.amount**2 / 4",
        "tests/unit/jobs/ledger/test_currencies.py",
    ),
    Mutant(
        "a Gaussian release costs half as zCDP",
        "jobs/ledger/amounts.py",
        "            return budget.amount / 2\n",
        "            return budget.amount / 4\n",
        "tests/unit/jobs/ledger/test_currencies.py",
    ),
    Mutant(
        "a pure release costs its epsilon as Gaussian DP",
        "jobs/ledger/amounts.py",
        "return gdp_of_pure(budget.amount)",
        "return budget.amount",
        "tests/unit/jobs/ledger/test_currencies.py",
    ),
    Mutant(
        "zCDP is charged to Gaussian DP",
        "jobs/ledger/amounts.py",
        "        case (Currency.ZCDP, Currency.GDP):\n",
        "        case (Currency.ZCDP, Currency.GDP):\n            return 2 * budget.amount\n        case (Currency.ZCDP, Currency.GDP):\n",
        "tests/unit/jobs/ledger/test_currencies.py",
    ),
    Mutant(
        "a pure release settles on pure",
        "jobs/ledger/amounts.py",
        "return Currency.ZCDP if first is Currency.PURE else first",
        "return first",
        "tests/unit/jobs/ledger/test_currencies.py",
    ),
    Mutant(
        "a grant is checked in one currency",
        "jobs/ledger/amounts.py",
        "currencies = (currency,) if currency else _APPROXIMATE",
        "currencies = (currency,) if currency else _APPROXIMATE[:1]",
        "tests/unit/jobs/ledger/test_currencies.py",
    ),
)
