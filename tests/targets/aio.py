"""An asyncio program: producers and consumers over a queue, work between the awaits."""

import asyncio
import json


def checksum(number):
    total = 0
    for i in range(2_000):
        total = (total * 31 + i * number) & 0xFFFFFFFF  # LINE: checksum
    return total


async def produce(queue, count):
    for number in range(count):
        await queue.put(number)
        await asyncio.sleep(0)


async def consume(queue, results):
    while True:
        number = await queue.get()
        results.append(checksum(number))
        queue.task_done()


async def main():
    queue, results = asyncio.Queue(20), []
    consumers = [asyncio.create_task(consume(queue, results)) for _ in range(5)]
    await asyncio.gather(*(produce(queue, 1_500) for _ in range(4)))
    await queue.join()
    for each in consumers:
        each.cancel()
    print(json.dumps({"results": len(results)}))


asyncio.run(main())
