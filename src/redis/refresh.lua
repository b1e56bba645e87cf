-- Starts the ttl anew if the token holds the key. Never creates the key.
-- KEYS[1]  the key
-- ARGV     token, ttl in milliseconds
-- returns  1: the token holds it, for the ttl from now; 0: it does not
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
--[[not_ours.lua]]
