"""redis-py's Lock against the server at the URL given, as its users use it.

Prints nothing and exits with 0 if all is as on a real Redis."""

import sys
import threading
import time

import redis
from redis.exceptions import LockError, LockNotOwnedError

url = sys.argv[1]
# redis-py speaks RESP3 from version 5 on.
resp3 = {"protocol": 3} if int(redis.__version__.split(".")[0]) >= 5 else {}
client = redis.Redis.from_url(url)


def raises(error, act):
    try:
        act()
    except error:
        return
    raise AssertionError(f"{act} does not raise {error}")


# Acquire, extend, reacquire, release.
lock = client.lock("a", timeout=10)
other = client.lock("a", timeout=10)
assert lock.acquire(blocking=False)
assert lock.locked() and lock.owned()
assert not other.acquire(blocking=False)
assert not other.owned()
assert lock.extend(10)
assert 19_000 < client.pttl("a") <= 20_000
assert lock.extend(5, replace_ttl=True)
assert client.pttl("a") <= 5_000
assert lock.reacquire()
assert 9_000 < client.pttl("a") <= 10_000
lock.release()
assert not client.exists("a")
raises(LockError, lock.release)

# A lock that has expired, or was taken by another, is not released or extended.
lock = client.lock("b", timeout=0.2)
assert lock.acquire()
time.sleep(0.3)
raises(LockNotOwnedError, lambda: lock.extend(1))
assert client.set("b", "another", nx=True)
raises(LockNotOwnedError, lock.reacquire)
raises(LockNotOwnedError, lock.release)
assert client.get("b") == b"another"

# Waiting: given up in time, and woken by a release.
held = client.lock("c", timeout=10)
assert held.acquire()
started = time.monotonic()
assert not client.lock("c", timeout=10, sleep=0.02).acquire(blocking_timeout=0.2)
assert 0.15 < time.monotonic() - started < 5
threading.Timer(0.2, client.delete, ["c"]).start()
assert client.lock("c", timeout=10, sleep=0.02).acquire(blocking_timeout=10)
assert not held.owned()

# Many at once: nobody is in there with another.
inside, most, done = 0, 0, 0


def work():
    global inside, most, done
    mine = redis.Redis.from_url(url, **resp3)
    for _ in range(10):
        with mine.lock("d", timeout=10, sleep=0.001):
            inside += 1
            most = max(most, inside)
            time.sleep(0.001)
            inside -= 1
            done += 1


workers = [threading.Thread(target=work) for _ in range(8)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
assert (inside, most, done) == (0, 1, 80), (inside, most, done)

# What else such libraries do: pipelines, transactions that are watched, messages, blocking pops.
with client.pipeline() as pipe:
    pipe.watch("e")
    pipe.multi()
    pipe.set("e", 1)
    assert pipe.execute() == [True]
listener = client.pubsub()
listener.subscribe("news")
assert listener.get_message(timeout=10)["type"] == "subscribe"
assert client.publish("news", "x") == 1
assert listener.get_message(timeout=10)["data"] == b"x"
assert client.blpop("nothing", timeout=0.1) is None
