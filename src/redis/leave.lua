-- Takes the entry out of the queue. Frees the key if the token holds it: the first waiter that can be told has it then.
-- KEYS     the key, its queue
-- ARGV     token, entry in the queue or '', the longest offer in milliseconds
-- returns  1: the token held it, and does no more; 0: the token did not hold it
local token, entry = ARGV[1], ARGV[2]
if entry ~= '' then redis.pcall('ZREM', KEYS[2], entry) end
local value = redis.pcall('GET', KEYS[1])
if value == token then
  if not offer(ARGV[3]) then redis.call('DEL', KEYS[1]) end
  return 1
end
-- A key that is no string is not ours; any other error is an error.
if failed(value) and string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then return value end
-- A replica may not know yet. It is not the one to ask, and says so when it is to write; this write changes nothing.
local write
if value then write = redis.pcall('SET', KEYS[1], '', 'NX', 'PX', 1) else write = redis.pcall('DEL', KEYS[1]) end
if failed(write) and string.find(write.err, 'READONLY', 1, true) then return write end
return 0
