"""Generated public data: Netflix-like baskets and a census-like table."""
