"""Incremental aggregation: exact statistics of files are kept, so that only new or changed files are read.

SENSITIVE: the store holds exact statistics. It is encrypted, and is for the operator of the data alone.

* ``incremental``: start here. An engine around another one, which gives the same integers, bit for bit.
* ``file_groups``: which files are counted together, and what identifies their content.
* ``claim``: the claim that files hold whole units, checked across files that were read in different runs.
* ``counting``: the tasks of workers, and the form of their results.
* ``unit_digests``: what stands for units. ``digests``: what identifies a request, a layout and the code.
* ``store``: encrypted entries in a folder, with their expiry. ``folder`` says who may open it.
"""
