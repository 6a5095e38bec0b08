"""python -m tests.rest_examples: run the script, and print what was recorded or write it and the document."""

from __future__ import annotations

import argparse
import sys

from admin_api.openapi import document
from admin_api.openapi.examples import PATH, recorded_examples
from tests.rest_examples.stories import run_stories


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.rest_examples", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PATH.name} and {document.PATH.name}")
    text = run_stories()
    if parser.parse_args().write:
        PATH.write_text(text, encoding="utf-8")
        recorded_examples.cache_clear()
        document.main(["--write"])
    else:
        sys.stdout.write(text)


main()
