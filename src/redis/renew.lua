-- Starts the ttl anew if the token holds the key, and never cuts it short: it may run late, when the key's holder has asked
-- for more. Never creates the key.
-- KEYS[1]  the key
-- ARGV     token, ttl in milliseconds
-- returns  1: the token holds it, for at least the ttl from now; 0: it does not
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 1
end
--[[not_ours.lua]]
