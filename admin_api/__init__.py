"""The REST surface for people: parse, call a service, map errors, render. It decides nothing about data."""
