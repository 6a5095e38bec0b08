"""Transactions, as their coordinators and partitions' leaders answer."""

from __future__ import annotations

from controller.core.transaction_watch import Hanging
from controller.shell.client_transactions import (
    ClientTransactions,
    OpenProducer,
    TransactionAbsent,
    TransactionChanged,
    TransactionDetail,
    TransactionListing,
)
