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

Random requests of both versions were answered as by Kafka 4.4's coordinator, and left the same states and
epochs, but for these, which differ on purpose:

- A producer that was fenced does not abort what its successor has open (init).
- An owner whose open transaction InitProducerId aborts gets its next epoch when it asks again (init).
- A commit that comes after the coordinator's abort is fenced (ends; KAFKA-20785).
- The epoch before an end of version 1 was another owner's, and is no request that comes again (ends).
- Additions do not wait for each other, and for the markers of the end before they do (partitions).
"""
