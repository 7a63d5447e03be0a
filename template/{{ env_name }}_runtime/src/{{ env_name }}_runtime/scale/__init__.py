"""Sessions in several processes or on several machines, behind one address.

shard        a server behind a door that opens to fronts only
processes    shards as child processes
ray_actors   shards as actors of Ray
link         a front's HTTP client of one shard
front        a proxy that sends each request to the shard of its session
deployment   starts shards, and connects a server to them

A front holds no state. The id of a session begins with the number of its shard and the
shard's incarnation, so any front finds it, and knows that a shard of before has lost it.
"""
