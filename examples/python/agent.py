"""An agent's action that happens once, whoever asks for it and in whatever language.

    DATABASE_URL=postgres://… python3 examples/python/agent.py order_1 500
"""

import json
import os
import sys

import psycopg2

from onceward import run_once


def charge(task):
    amount = task.input["amount"]
    reserved = task.step("reserve", lambda key: {"amount": amount})
    return task.step("charge", lambda key: {"charged": reserved["amount"], "idempotency_key": key})


def main():
    order, amount = sys.argv[1], int(sys.argv[2])
    db = psycopg2.connect(os.environ["DATABASE_URL"])
    db.autocommit = True
    result = run_once(db, f"charge {order}", charge, {"amount": amount, "order": order})
    print(json.dumps(result))


if __name__ == "__main__":
    main()
