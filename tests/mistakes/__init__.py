"""Common mistakes, and what is said of each: two tables, and a test for each."""
