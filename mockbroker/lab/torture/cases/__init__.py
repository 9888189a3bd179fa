"""The catalogue of cases, by what is wrong."""
