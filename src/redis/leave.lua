-- Takes the entry out of the queue. Frees the key if the token holds it: the first waiter that can be told has it then.
-- KEYS     the key, its queue
-- ARGV     token, entry in the queue or '', the longest offer in milliseconds
-- returns  1: the token held it, and does no more; 0: the token did not hold it
if ARGV[2] ~= '' then redis.pcall('ZREM', KEYS[2], ARGV[2]) end
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  -- Redis 6.2 with lua-replicate-commands off would write nothing after PUBSUB.
  if redis.replicate_commands then redis.replicate_commands() end
  -- Nobody waits, or we may not know it: then the key is just deleted.
  local first = redis.pcall('ZPOPMIN', KEYS[2])
  if not first[1] then
    redis.call('DEL', KEYS[1])
    return 1
  end
  --[[offer.lua]]
  if not offer(first, ARGV[3]) then redis.call('DEL', KEYS[1]) end
  return 1
end
-- A key that is no string is not ours; any other error is an error.
if type(value) == 'table' and string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then return value end
-- A replica may not know yet. It is not the one to ask, and says so when it is to write; this write changes nothing.
local write
if value then write = redis.pcall('SET', KEYS[1], '', 'NX', 'PX', 1) else write = redis.pcall('DEL', KEYS[1]) end
if type(write) == 'table' and write.err and string.find(write.err, 'READONLY', 1, true) then return write end
return 0
