"""``plot_lag``: the lag of a query as a figure, for notebooks. Imports matplotlib when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from rocketmq_spark.metrics.lag_series import By, lag_history

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql.streaming.query import StreamingQuery

_MATPLOTLIB: Final = "matplotlib"


def plot_lag(query: StreamingQuery, *, by: By = "topic") -> Figure:
    """Return a matplotlib Figure of the query's lag in messages over ``query.recentProgress``: one line for each topic,
    or with ``by="queue"`` for each queue, at most 20, those with the largest lag.

    The lag is that of ``progress_of``: messages in no micro-batch yet. A line has a gap where the lag is unknown or the
    queue is not assigned. Before Spark 4.2 there is one line for each source. Without lag, as with
    ``loadBalance=message``, the figure has a text instead.

    Requires the extra ``plot``: raises ImportError without matplotlib. Raises ValueError for another ``by``.
    """
    if by not in get_args(By):
        raise ValueError(f"'by' must be 'topic' or 'queue', not {by!r}")
    try:
        from rocketmq_spark.metrics.lag_figure import draw_lag
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != _MATPLOTLIB:
            raise
        text = "rocketmq_spark.plot_lag requires matplotlib: run pip install 'rocketmq-spark[plot]'"
        raise ImportError(text, name=_MATPLOTLIB) from error
    return draw_lag(lag_history(query.recentProgress, by), str(query.name or query.id))
