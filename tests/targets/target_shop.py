"""Something to draw: JSON, sorting, regular expressions and a name in another script; waiting threads."""

import json
import re
import threading
import time


def serialise(orders):
    return json.loads(json.dumps(orders))


def 合計(orders):
    return sum(order["price"] * order["count"] for order in orders)


def rank(orders):
    return sorted(orders, key=lambda order: (order["price"], order["name"]))


def find(orders):
    return [order for order in orders if re.search(r"(a|b)+c?$", order["name"])]


def handle(request):
    orders = [{"name": "ab" * (i % 9), "price": i % 7, "count": i} for i in range(request)]
    return 合計(serialise(orders)) + len(rank(orders)) + len(find(orders))


def serve():
    while True:
        handle(300)


def wait():
    while True:
        time.sleep(0.5)


for _ in range(2):
    threading.Thread(target=wait, daemon=True).start()
print("ready", flush=True)
serve()
