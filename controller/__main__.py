"""`python -m controller`: the program that the command `controller` starts too.

Its root is in admin_api, which puts REST and this package together. This file names the root and does not
import it: a module of the controller that imported REST would close a ring of packages.
"""

import runpy

if __name__ == "__main__":
    runpy.run_module("admin_api", run_name="__main__", alter_sys=True)
