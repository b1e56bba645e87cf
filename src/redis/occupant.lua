-- Says what holds the key. Writes nothing.
-- KEYS[1]  the key
-- returns  {value, milliseconds left or -1 where the key has no ttl}, or nil where it is free; WRONGTYPE where the
--          key is no string, and so no lock
local value = redis.call('GET', KEYS[1])
if not value then return false end
return {value, redis.call('PTTL', KEYS[1])}
