-- Frees the key if the token holds it.
-- KEYS[1]  the key
-- ARGV     token
-- returns  1: it is free now; 0: the token did not hold it
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 1
end
-- A key that is no string is not ours; any other error is an error.
if type(value) == 'table' and string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then return value end
return 0
