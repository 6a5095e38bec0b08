"""Pure machine of `__consumer_offsets`: groups of the classic protocol, and committed offsets.

    machine     steps, records, failures: which function answers which event
    requests    what clients ask and are answered, as values
    state       a group that lives here: members, waiting requests, the state it is in
    store       what the records say: stored groups and committed offsets, latest and committed
    registry    finds, admits and removes groups and members, with their timers
    pending     of the store, what open transactions have committed
    join, sync, session, offsets, transactions, expiry, admin     the rules, a few requests each

Of a group only what Kafka stores is in records: a generation with its assignments, and that it became empty.
Everything else (who waits, who has joined again) is lost with the process, and the clients bring it back.
"""
