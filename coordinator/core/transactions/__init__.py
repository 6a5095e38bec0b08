"""Pure machine of `__transaction_state`: who may write under an id, and how its transactions end.

    machine     steps, records, failures: which function answers which event
    requests    what producers, leaders, the shell and operators ask and are answered, as values
    state       the states of an id and the moves between them
    store       what the records say, latest and committed
    registry    what is kept beside the records, and what one step collects
    markers     the book of markers that are due: the shell reads it
    init, partitions, ends, timeouts, expiry, admin     the rules, a few requests each
    id_patterns     patterns of ids, for lists

One transition of an id at a time: while its record is under way, all but additions of partitions are told to
wait. What a client was told is on record; only marker work and time are memory, and an opening brings them
back.
"""
