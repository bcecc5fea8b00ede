"""The trusted kernel: the only code that holds exact data and draws noise."""
