"""`pipeline verify`: are all replicas the same, whole and in order?"""
