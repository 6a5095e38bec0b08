"""python -m admin_api.openapi: print the document, or write it."""

import sys

from admin_api.openapi.document import main

sys.exit(main())
