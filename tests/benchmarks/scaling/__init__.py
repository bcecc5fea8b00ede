"""How cost and memory grow with the data, the queries and the tasks, and what breaks first at 10 billion pairs."""
