-- Takes the entry out of the queue. Frees the key if the token holds it: the first waiter that can be told has it then.
-- KEYS     the key, its queue
-- ARGV     token, and the entry in the queue, if there is one
-- returns  1: the token held it, and does no more; 0: the token did not hold it
if ARGV[2] then
  -- Before the first write, or not at all: see `offer`.
  if redis.replicate_commands then redis.replicate_commands() end
  redis.pcall('ZREM', KEYS[2], ARGV[2])
end
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  -- If nobody waits, or we may not know it, the key is just deleted. EXISTS is the cheapest way to know.
  local first = redis.pcall('EXISTS', KEYS[2]) ~= 0 and redis.pcall('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES')
  if first and first[1] then
    --[[offer.lua]]
    if offer(first) then return 1 end
  end
  redis.call('DEL', KEYS[1])
  return 1
end
--[[not_ours.lua]]
