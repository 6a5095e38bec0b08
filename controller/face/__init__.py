"""The controller's face: what its surfaces may know of it.

REST imports these modules and `controller.operations`, and nothing else of the controller. A module here
holds no rules: it names what others have. What is not named can change without a look at REST.
"""
