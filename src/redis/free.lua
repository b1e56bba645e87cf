-- Frees the key if the token holds it. It is passed on to nobody: in a quorum, each node could choose another one.
-- KEYS[1]  the key
-- ARGV     token; of who held it also the channel on which waiters hear that it is free, and what is said there
-- returns  1: the token held it, and does no more; 0: the token did not hold it
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  redis.call('DEL', KEYS[1])
  if ARGV[2] then redis.pcall('PUBLISH', ARGV[2], ARGV[3]) end
  return 1
end
--[[not_ours.lua]]
