"""A worker in Python, on the same ledger as workers in TypeScript.

    DATABASE_URL=postgres://… python3 examples/python/worker.py
"""

import os
import signal
import sys
import time

import psycopg2

from onceward import Lost, due

LANE = "job/score"
stopping = False


def score(task):
    """Three steps: one counts, one gets a key that a provider honours, one writes a row."""
    words = task.step("count", lambda key: len(task.input["text"].split()))
    rated = task.step("rate", lambda key: {"score": words * 10, "key": key})
    task.transaction("write", lambda cursor: write(cursor, task.input["text"], rated["score"]))
    return rated


def write(cursor, text, points):
    cursor.execute("insert into scores (text, score) values (%s, %s)", (text, points))


def stop(*_):
    global stopping
    stopping = True


def main():
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    db = psycopg2.connect(os.environ["DATABASE_URL"])
    db.autocommit = True
    with db.cursor() as cursor:
        cursor.execute("create table if not exists scores (text text, score integer)")
    while not stopping:
        tasks = due(db, LANE, f"python:{os.getpid()}")
        for task in tasks:
            try:
                task.run(score)
            except Lost:
                pass  # Whoever took over finishes it.
            except Exception as error:  # The ledger knows, and will bring it back.
                print(f"{task.scope} failed: {type(error).__name__}", file=sys.stderr)
        if not tasks:
            time.sleep(0.2)


if __name__ == "__main__":
    main()
