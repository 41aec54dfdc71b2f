"""Tables of the label store, as SQLite and PostgreSQL both have them."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import JSON, BigInteger, Column, Connection, ForeignKey, Integer, String, Table, Text

from bias_core.errors import StorageError

Row = Any  # a row of a query, with its columns as attributes; SQLAlchemy gives every query a type of its own

# Times are milliseconds since 1970, UTC. Codes and owners' secrets are kept as SHA-256 only.
metadata = sa.MetaData()

tasks = Table(
    "tasks",
    metadata,
    Column("id", String(24), primary_key=True),
    Column("join_code", String(64), nullable=False, unique=True),
    Column("owner_hash", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("hub_user", String(100), nullable=False, server_default=""),  # "" for none
)

task_versions = Table(
    "task_versions",
    metadata,
    Column("task_id", String(24), ForeignKey("tasks.id"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("texts", JSON, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

_ORDINARY = sa.column("gold").is_(None)
items = Table(
    "items",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("task_id", String(24), ForeignKey("tasks.id"), nullable=False),
    Column("picture", String(64), nullable=False),
    Column("image_id", Text, nullable=False),
    Column("identities", JSON, nullable=False),
    Column("gold", JSON(none_as_null=True)),
    Column("question", Text, nullable=False),
    # How many raters have it on their screen or have answered it, excluded ones apart; kept beside the
    # assignments it counts.
    Column("n_claims", Integer, nullable=False),
    # What still wants raters is found and counted from the index alone.
    sa.Index("open_items", "task_id", "n_claims", sqlite_where=_ORDINARY, postgresql_where=_ORDINARY),
)

raters = Table(
    "raters",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("task_id", String(24), ForeignKey("tasks.id"), nullable=False, index=True),
    Column("name", String(24), nullable=False, unique=True),  # random, and says nothing of the code
    Column("code_hash", String(64), nullable=False, unique=True),
    Column("joined_ms", BigInteger, nullable=False),
    Column("seed", Integer, nullable=False, server_default="0"),  # of where their attention checks come
    Column("excluded_ms", BigInteger),  # since when the owner counts none of their answers
)

# Which rater was shown which item, and where that stands: shown, answered, skipped or released.
assignments = Table(
    "assignments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("raters.id"), nullable=False),
    Column("item_id", Integer, ForeignKey("items.id"), nullable=False, index=True),
    Column("token", String(43), nullable=False, unique=True),
    Column("state", String(16), nullable=False),
    Column("task_version", Integer, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    sa.UniqueConstraint("rater_id", "item_id"),
)

# Append-only: what a rater takes back stays, with a new row that withdraws it.
answers = Table(
    "answers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("raters.id"), nullable=False),
    Column("item_id", Integer, ForeignKey("items.id"), nullable=False, index=True),
    Column("task_version", Integer, nullable=False),
    Column("client_id", String(64), nullable=False),  # made by the rater's screen: a replay is harmless
    Column("kind", String(8), nullable=False),  # answer, skip, undo
    Column("choices", JSON, nullable=False),
    Column("duration_ms", Integer, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("withdraws", Integer, ForeignKey("answers.id"), unique=True),
    sa.UniqueConstraint("rater_id", "client_id"),
    sqlite_autoincrement=True,  # an id is never used again, also after a deletion
)

# What machines say of items: no person's answer, and counted in nothing of theirs.
judgements = Table(
    "judgements",
    metadata,
    Column("item_id", Integer, ForeignKey("items.id"), primary_key=True, autoincrement=False),
    Column("judge", String(300), primary_key=True),
    Column("choices", JSON, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
)

# Of raters whom a crowd platform sent: what its link says of them. For the owner alone, and in no export of answers.
crowd_ids = Table(
    "crowd_ids",
    metadata,
    Column("rater_id", Integer, ForeignKey("raters.id"), primary_key=True, autoincrement=False),
    Column("participant", String(64), nullable=False),
    Column("study", String(64), nullable=False),
    Column("session", String(64), nullable=False),
)

# What raters say of themselves, apart from their answers: by question, without what they prefer not to say.
rater_facts = Table(
    "rater_facts",
    metadata,
    Column("rater_id", Integer, ForeignKey("raters.id"), primary_key=True, autoincrement=False),
    Column("facts", JSON, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
)

# What is left of a rater who deleted their answers.
deletions = Table(
    "deletions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("task_id", String(24), ForeignKey("tasks.id"), nullable=False, index=True),
    Column("rater", String(24), nullable=False),
    Column("n_answers", Integer, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
)

_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

_FORM = 5  # of these tables; a database of another form is left alone
_LOCK = 5_201_314  # any number: PostgreSQL's name for "one program at a time makes the tables"


def make_tables(connection: Connection) -> None:
    """Make the tables in this transaction where there are none; StorageError for those of another version."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    if not sa.inspect(connection).has_table(_version.name):
        metadata.create_all(connection)
        connection.execute(sa.insert(_version).values(version=_FORM))
        return
    form = connection.scalar(sa.select(sa.func.max(_version.c.version))) or 0
    if form != _FORM:
        raise StorageError(
            f"the labels were written by {'a newer' if form > _FORM else 'an older'} version of this program "
            f"(tables {form}, known {_FORM}); open them with that version: nothing in them was changed"
        )
