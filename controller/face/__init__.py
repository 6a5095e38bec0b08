"""The controller's face: what its surfaces may know of it.

REST imports these modules and nothing else of the controller; its roots, which put a process together, see
more. A module here holds no rules: it names what others have. What is not named can change without a look at
REST.

    cluster       a cluster, read: brokers, topics, partitions, alarms, what a loss would take
    commands      what can be asked of a cluster, what it answers, and how asking can fail
    settings      settings of clusters, topics and brokers, and which value is in force
    groups        consumer groups, as their coordinators answer
    transactions  transactions, as their coordinators and partitions' leaders answer
    plans         goals, plans, and where they are kept
    policies      operators' guardrails, and what keeps a plan from being carried out
    operations    work that outlives its request
    history       who changed what, when and why, and what was checked since
    database      the SQL database, and the rows that belong to requests
    surroundings  a process's clock and ids, its figures, and the endpoints of brokers and coordinators
"""
