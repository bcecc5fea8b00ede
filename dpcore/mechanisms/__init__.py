"""Every mechanism that a config can name, one file or folder each.

| name in a config | file | choose it for | source |
|---|---|---|---|
| ``aim`` | ``aim/aim.py`` | marginals and ranges of many attributes; synthetic rows | McKenna 2022, Algorithms 6 to 8 |
| ``clique_tree`` | ``clique_tree.py`` | thousands of marginals, or when run time matters | this project |
| ``gaussian_pgm`` | ``gaussian_pgm.py`` | a whole workload of few cells | McKenna 2022, chapter 5 |
| ``adaptive_residuals`` | ``adaptive_residuals.py`` | answers of marginals, and rows of small ones | this project |
| ``gaussian_copula`` | ``gaussian_copula.py`` | rows of many dependent ordered attributes | this project |
| ``mst`` | ``mst.py`` | synthetic rows from pairs, quickly | McKenna, Miklau and Sheldon 2021 |
| ``mwem_pgm`` | ``mwem/mwem_pgm.py`` | comparison with the published mechanism | McKenna 2022, Algorithm 5 |
| ``mwem``, ``mwem_queries`` | ``mwem/`` | the same comparison | Hardt, Ligett and McSherry 2012 |
| ``priv_bayes``, ``priv_bayes_pgm`` | ``bayes/priv_bayes.py`` | the same comparison | Zhang et al. 2017 |
| ``hdmm`` | ``hdmm/hdmm.py`` | unbiased answers of marginals and ranges | McKenna et al. 2018 |
| ``continual`` | ``continual/`` | counts over days or other steps, as they arrive | Denisov et al. 2022 |
| ``clipped_gaussian`` | ``clipping/`` | millions of conjunctions of sparse baskets | this project |
| ``basket_mixture`` | ``baskets/`` | synthetic baskets; conjunctions of any sign and order of baskets | this project |
| ``frequent_itemsets`` | ``itemsets/`` | frequent pairs and triples of baskets, and their rules | this project |
| ``dqrs`` | ``query_game/dqrs.py`` | long conjunctions with negations | Vietri et al. 2020, Algorithm 4 |
| ``dual_query`` | ``query_game/dual_query.py`` | the same, with larger errors in less time | Gaboardi et al. 2014 |
| ``fem``, ``sep_fem`` | ``query_game/`` | dozens of marginals at a small epsilon | Vietri et al. 2020 |
| ``dual_query_pgm`` | ``query_game/`` | comparison with the published mechanism | McKenna 2022, section 4.5 |
| ``laplace``, ``gaussian`` | ``additive_noise.py`` | a few queries | Dwork et al. 2006; Canonne et al. 2020 |
| ``independent`` | ``independent.py`` | a baseline that every model must beat | |
| ``fourier`` | ``fourier.py`` | a baseline for binary attributes | Barak et al. 2007 |

* ``registry``: the list of all mechanisms. ``api``: the interface of a mechanism.
* ``recommendation``: which mechanism to begin with, for a workload and public facts about its data.
* ``shared``: what several mechanisms use.
"""
