"""The REST interface for operators: parse a request, call a service, map errors, render. No decision about
data is made here."""
