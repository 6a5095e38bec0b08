"""The process that reads records for one look, and ends with it.

It fetches from brokers as any client does, and what it reads may be hostile. So it shares nothing with the
controller: it is given one question, has limits of time and memory that the kernel keeps, and answers with a
summary and with JSON that the controller passes on without reading it.

    questions   what is asked and told, and every limit
    cells       a key, a value or a header as text, JSON or hex
    reading     which records a look shows, and where it stops
    brokers     connections to brokers
    __main__    the process
"""
