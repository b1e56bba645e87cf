-- Remembers a fence that another node of a quorum gave, unless a greater one is remembered.
-- KEYS[1]  the key of the last fence
-- ARGV     the fence, and for how many milliseconds it is remembered
-- returns  the fence that is remembered now
local last = redis.call('GET', KEYS[1])
local number = last and (tonumber(last) or 2^53)
if number and number > tonumber(ARGV[1]) then
  if number < 2^53 and number % 1 == 0 then return number end
  return redis.error_reply('ERR the key that keeps the last fence, and ends in ":redis_lock:fence", holds no fence')
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return tonumber(ARGV[1])
