"""What tests of several folders share: clusters in memory, brokers that say what a test tells them, real
processes, and values that take many lines to build. tests/README.md lists it."""
