"""The SQL schema's history, as Alembic revisions. `controller.database.migrate` applies them.

Controllers of two releases work with one database while clusters are upgraded, and an upgrade can be undone
until it is finalized. So, since revision 0010:

1. *Expand first.* A revision adds tables, columns that may be NULL, and indexes that are not unique, and does
   nothing else. The release before goes on reading and writing the columns that it names.
2. *Contract a release later.* A revision that drops, renames, or narrows something names the release that
   stopped using it, and belongs to a later one: `stopped_using = "0.3"` says that 0.3 neither reads nor
   writes it any more.
3. `oldest_level` is the own level of the oldest release that works with the schema as the revision leaves it:
   that of the release before after an expansion, that of `stopped_using` after a contraction. The revision
   writes it into `schema_compat`, by which releases that do not know the revision accept it, and is applied
   once no cluster is at a lower level. 0.1 accepts none, so 0010 waits until all clusters have left level 0.
4. Code works with each revision that may be in place at a level that its release runs at, so it asks the
   database whether what a revision adds is there. All statements name their columns.

tests/unit/controller/database/test_schema.py holds the first three.
"""
