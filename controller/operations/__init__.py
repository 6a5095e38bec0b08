"""Work on a cluster that outlives its request: stored, and resumed by the controller that is active.

The modules here decide; `controller.operations.shell` reads, submits and stores what they
decide.
"""
