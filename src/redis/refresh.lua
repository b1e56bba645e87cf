-- Starts the ttl anew if the token holds the key. Never creates the key.
-- KEYS[1]  the key
-- ARGV     token, ttl in milliseconds
-- returns  1: the token holds it, for the ttl from now; 0: it does not
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
-- A key that is no string is not ours; any other error is an error.
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
-- A replica may not know yet. It is not the one to ask, and says so when it is to write; this write changes nothing.
local write
if value then write = redis.pcall('SET', KEYS[1], '', 'NX', 'PX', 1) else write = redis.pcall('DEL', KEYS[1]) end
if type(write) == 'table' and write.err and string.find(write.err, 'READONLY', 1, true) then return write end
return 0
