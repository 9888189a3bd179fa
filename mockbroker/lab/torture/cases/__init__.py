"""The catalogue of cases, one module per kind of misbehaviour."""
