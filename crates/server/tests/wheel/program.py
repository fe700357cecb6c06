"""Exercises Apache Iggy's Python client: python program.py HOST:PORT."""

import asyncio
import os
import sys

from apache_iggy import Consumer, IggyClient, Partitioning, PollingStrategy, SendMessage

MESSAGES = 20


async def main(address: str) -> None:
    client = IggyClient.from_connection_string(f"iggy://iggy:iggy@{address}")
    await client.connect()
    await client.ping()
    await client.create_stream("python")
    await client.create_topic("python", "events", partitions_count=2)
    topic = await client.get_topic("python", "events")
    assert topic is not None and topic.partitions_count == 2, topic

    for partition in (0, 1):
        messages = [SendMessage(f"{partition}-{number}") for number in range(MESSAGES)]
        partitioning = Partitioning.partition_id(partition)
        await client.send_messages("python", "events", partitioning, messages)
    # The polls that continue where the last one ended use a separate consumer.
    for name, strategy, first in [
        ("reader", PollingStrategy.First(), 0),
        ("reader", PollingStrategy.Offset(5), 5),
        ("reader", PollingStrategy.Last(), MESSAGES - 3),
        ("follower", PollingStrategy.Next(), 0),
        ("follower", PollingStrategy.Next(), 3),
    ]:
        polled = await client.poll_messages(
            "python",
            "events",
            consumer=Consumer.Single(name),
            polling_strategy=strategy,
            count=3,
            auto_commit=True,
            partition_id=1,
        )
        found = [message.payload().decode() for message in polled]
        assert found == [f"1-{number}" for number in range(first, first + 3)], found

    await client.create_consumer_group("python", "events", "group")
    await client.join_consumer_group("python", "events", "group")
    group = await client.get_consumer_group("python", "events", "group")
    assert group is not None and group.members_count == 1, group
    found = set()
    for _ in range(200):
        polled = await client.poll_messages(
            "python",
            "events",
            consumer=Consumer.Group("group"),
            polling_strategy=PollingStrategy.Next(),
            count=7,
            auto_commit=True,
        )
        found.update(message.payload().decode() for message in polled)
        if len(found) == 2 * MESSAGES:
            break
    assert len(found) == 2 * MESSAGES, sorted(found)
    await client.leave_consumer_group("python", "events", "group")

    await client.purge_topic("python", "events")
    polled = await client.poll_messages(
        "python",
        "events",
        consumer=Consumer.Single("reader"),
        polling_strategy=PollingStrategy.First(),
        count=10,
        auto_commit=False,
        partition_id=0,
    )
    assert polled == [], polled
    stats = await client.get_stats()
    assert stats.partitions_count == 2, stats
    await client.delete_topic("python", "events")
    await client.delete_stream("python")
    print("done")


asyncio.run(main(sys.argv[1]))
# One run in sixty, a thread of the wheel aborts the interpreter while it ends, after all work is done.
sys.stdout.flush()
os._exit(0)
