"""The controller service: it alone decides configuration and placement."""
