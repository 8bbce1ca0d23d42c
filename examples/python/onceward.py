"""The ledger of Onceward from Python, over any DB-API connection in autocommit mode."""

import base64
import hashlib
import json


class Lost(Exception):
    """Somebody else has taken over: nothing of this attempt counts any more."""


def verb(db, name, *args):
    """One SQL verb: text in, JSON out, one round trip."""
    with db.cursor() as cursor:
        cursor.execute(f"select onceward.{name}({', '.join(['%s'] * len(args))})", args)
        return cursor.fetchone()[0]


def to_json(value):
    return json.dumps(value, allow_nan=False)


class Task:
    """A claimed task. Its steps are those that an attempt in any language has kept."""

    def __init__(self, db, claimed):
        self.db = db
        self.scope, self.key = claimed["scope"], claimed["key"]
        self.attempt = str(claimed["attempt"])
        self.generation = str(claimed["generation"])
        self.input = json.loads(claimed["body"]) if claimed["body"] else None
        self.kept = {step["name"]: step for step in claimed["steps"] or []}

    def step(self, name, run):
        """Runs a named part once, and keeps what it returns. `run` gets a key for the provider."""
        known = self.kept.get(name)
        if known and known["state"] == "done":
            return json.loads(known["value"]) if known["value"] else None
        value = run(self.step_key(name))
        self.tell("step_save", name, "done", to_json(value))
        return value

    def transaction(self, name, run):
        """A step whose rows, written through the cursor that `run` gets, commit together with its result."""
        if self.kept.get(name, {}).get("state") == "done":
            return self.step(name, run)
        self.db.autocommit = False
        try:
            with self.db, self.db.cursor() as cursor:
                value = run(cursor)
                if self.tell("step_save", name, "done", to_json(value)) == "kept":
                    raise RuntimeError(f"{name} was committed before; the next attempt goes on after it")
                return value
        finally:
            self.db.autocommit = True

    def step_key(self, name):
        """The same in every attempt, and the same as in TypeScript."""
        parts = "\0".join([self.scope, self.key, self.generation, name])
        return base64.urlsafe_b64encode(hashlib.sha256(parts.encode()).digest()).decode()[:32]

    def renew(self, lease="60 seconds"):
        """Call it from time to time where an attempt takes longer than its lease."""
        self.tell("renew", lease)

    def tell(self, name, *args):
        """A verb that carries the attempt."""
        answer = verb(self.db, name, self.scope, self.key, self.attempt, *args)
        if answer == "lost":
            raise Lost(f"{self.scope}: another attempt has taken over")
        return answer

    def run(self, function):
        """Runs one attempt to its end, and tells the ledger."""
        try:
            result = function(self)
            self.tell("complete", to_json(result))
            return result
        except Lost:
            raise
        except Exception as error:
            self.tell("fail", str(error))
            raise


def due(db, lane, worker, lease="60 seconds"):
    """The tasks of a lane that are due, claimed for this worker."""
    return [Task(db, claimed) for claimed in verb(db, "claim_due", [lane], "10", lease, worker)["tasks"]]


def fingerprint(value):
    """Equal for equal JSON; the same as in TypeScript for text, whole numbers, lists and objects."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def run_once(db, key, function, value=None, worker="python"):
    """An action: the first caller runs it, later ones get its result, in whatever language they are."""
    scope, body = "action", to_json(value)
    same = None if value is None else fingerprint(value)
    recorded = verb(db, "record", scope, key, body, None, same, None, "60 seconds", worker)
    if recorded["outcome"] == "conflict":
        raise ValueError("this key was used with another input before")
    claimed = recorded
    if recorded["outcome"] == "duplicate":
        claimed = verb(db, "claim", scope, key, "60 seconds", worker, "true")
    if claimed["outcome"] == "claimed":
        fresh = {"scope": scope, "key": key, "attempt": claimed["attempt"], "generation": 1, "body": body, "steps": []}
        return Task(db, claimed.get("task") or fresh).run(function)
    if claimed["outcome"] == "done":
        result = verb(db, "look", scope, key)["result"]
        return json.loads(result) if result else None
    raise RuntimeError(f"the action is {claimed['outcome']}: {claimed.get('reason', 'call again later')}")
