"""The answers that the OpenAPI document shows, recorded from a scripted run against the real application.

python -m tests.rest_examples --write
"""
