"""`python -m tests.hostile` asks the operations of the OpenAPI document thousands of things, right and wrong.

schemathesis draws what to ask from the document (drawing.py); names are replaced by names that exist, so that
requests get past "not found" (aiming.py); the real application answers, behind in-memory ports in virtual
time (world.py, asking.py); each answer is held against the document and our own rules (judging.py), and at
the end of a round REST, ZooKeeper and the audit must tell the same story (aftermath.py).
"""
