"""Which mechanism suits a table, by public facts alone: a study of many generated and real tables.

``configurations`` lists the settings, ``tables`` makes their rows, ``facts`` says what is public about each, ``run``
computes errors, ``report`` writes the page and the plot, and ``rule`` learns a decision tree family by family.
"""
