"""Spark copies a stream into Parquet files as it grows. Started again, it goes on where it stopped.

pip install 'jetbroker[spark]'; Java 17 or later
python spark_streaming.py STORE   # the broker's store_dir
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.session import configure


def copy(spark: SparkSession, store: str, target: str) -> StreamingQuery:
    """Begin to copy what is new to the folder `target`; the query ends when it has read all that is there.

    For one that goes on, leave `trigger` out, or write `trigger(processingTime="1 second")`.
    """
    orders = (
        spark.readStream.format("jetstream")
        .option("stream", "ORDERS")
        .option("columns", "seq, time, item, price")
        .option("json", "item string, price double")  # the payload's fields become columns
        .option("maxMessagesPerTrigger", "1000")
        .load(store)
    )
    writer = orders.writeStream.format("parquet").option("path", target)
    return writer.option("checkpointLocation", f"{target}/_checkpoint").trigger(availableNow=True).start()


def main(store: str) -> None:
    spark = configure(SparkSession.builder.master("local[2]")).getOrCreate()
    copy(spark, store, "./orders").awaitTermination()
    spark.read.parquet("./orders").groupBy("item").sum("price").show()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
