"""Every mechanism that a config can name, one file or folder each. ``registry`` lists them, ``api`` says what one is.

| name in a config | file | choose it for | source |
|---|---|---|---|
| ``aim`` | ``aim/aim.py`` | marginals and ranges of many attributes; synthetic rows | McKenna's thesis, Algorithms 6 to
8 | | ``clique_tree`` | ``clique_tree.py`` | thousands of marginals, or when time matters | this project |
| ``gaussian_pgm`` | ``gaussian_pgm.py`` | a whole workload of few cells | McKenna's thesis, chapter 5 |
| ``mst`` | ``mst.py`` | synthetic rows from pairs, quickly | McKenna, Miklau and Sheldon 2021 |
| ``mwem_pgm`` | ``mwem/mwem_pgm.py`` | comparison with the published mechanism | McKenna's thesis, Algorithm 5 |
| ``mwem``, ``mwem_queries`` | ``mwem/`` | the same, for marginals or single queries | Hardt, Ligett and McSherry 2012 |
| ``priv_bayes``, ``priv_bayes_pgm`` | ``bayes/priv_bayes.py`` | the same | Zhang et al. 2017 |
| ``hdmm`` | ``hdmm/hdmm.py`` | unbiased answers of marginals and ranges | McKenna et al. 2018 |
| ``clipped_gaussian`` | ``clipping/clipped_gaussian.py`` | millions of conjunctions of sparse baskets | this project |
| ``dqrs``, ``dual_query`` | ``query_game/`` | conjunctions with negations; rows of baskets | Vietri et al. 2020;
Gaboardi et al. 2014 | | ``fem``, ``sep_fem`` | ``query_game/`` | some dozens of marginals at a small epsilon | Vietri
et al. 2020 | | ``dual_query_pgm`` | ``query_game/dual_query_pgm.py`` | comparison with the published mechanism |
McKenna's thesis, section 4.5 | | ``laplace``, ``gaussian`` | ``additive_noise.py`` | a few queries | Dwork et al. 2006;
Canonne et al. 2020 | | ``independent``, ``fourier`` | files of these names | baselines to beat | Barak et al. 2007 |

``recommendation`` names one for a workload, from public facts alone. ``shared`` holds what several of them use.
"""
