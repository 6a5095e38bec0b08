"""The entry by which Spark finds `format("springtide")`: it imports every installed `pyspark_*` module and registers
the `DefaultSource` it holds."""
