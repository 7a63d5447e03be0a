"""Sessions in several processes or on several machines, behind one address.

shard        a server that accepts only requests of proxies
ray_actors   shards as actors of Ray
proxy        sends each request to the shard of its session, with an HTTP client for each
deployment   starts the shards of a server, as child processes or on Ray

A proxy holds no state. The id of a session begins with the number of its shard and a
prefix of the shard's process. So any proxy finds the shard, and knows if the shard was
restarted and has lost the session.
"""
