"""A scheduler of one's own on step times of roofline: bursts of chat requests, the shortest prompts first or not."""

import heapq
import itertools
import random

import roofline as rl

server = rl.predict("llama-3.1-8b", "h100-sxm", tp=1, engine="vllm")
BUDGET = 2048  # new tokens of a step
draw = random.Random(1)  # noqa: S311 - no secret
requests = [(second, draw.randrange(200, 4000), draw.randrange(20, 200)) for second in (0.0, 1.0) for _ in range(24)]


def times_to_first_token(shortest_first: bool) -> list[float]:
    """Serve all requests (arrival [s], prompt and answer [tokens]) and list their TTFT [s]."""
    coming, waiting, running, found = sorted(requests), [], [], []
    now, number = 0.0, itertools.count()
    while coming or waiting or running:
        if not waiting and not running:
            now = max(now, coming[0][0])
        while coming and coming[0][0] <= now:
            arrival, prompt, answer = coming.pop(0)
            heapq.heappush(waiting, (prompt if shortest_first else arrival, next(number), arrival, prompt, answer, 0))
        chunks, started, room = [], [], BUDGET - len(running)
        while waiting and room:
            key, order, arrival, prompt, answer, done = heapq.heappop(waiting)
            new = min(prompt - done, room)
            chunks.append((new, done))
            room -= new
            started.append((key, order, arrival, prompt, answer, done + new))
        now += rl.step_time(server, prefill=chunks, decode=[context for context, _ in running])
        running = [(context + 1, left - 1) for context, left in running if left > 1]
        for request in started:
            _, _, arrival, prompt, answer, done = request
            if done < prompt:
                heapq.heappush(waiting, request)
            else:
                found.append(now - arrival)
                running.append((prompt, answer - 1))
    return sorted(found)


for name, shortest_first in (("in order", False), ("shortest first", True)):
    ttft = times_to_first_token(shortest_first)
    print(f"{name:<15} mean TTFT {1e3 * sum(ttft) / len(ttft):4.0f} ms, longest {1e3 * ttft[-1]:4.0f} ms")
