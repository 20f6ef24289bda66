"""Generators: backends that turn prompt ids into completion ids."""
