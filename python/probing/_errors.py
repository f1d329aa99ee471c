"""What the package raises besides Python's own errors."""


class QueryError(RuntimeError):
    """A query that was refused or failed; says why."""
