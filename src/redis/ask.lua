-- Takes the key if it is free. If the token holds it already, its ttl starts anew.
-- KEYS[1]  the key
-- ARGV     token, ttl in milliseconds
-- returns  1: the token holds the key; {value, milliseconds left}: someone else does
--          (value: empty where it is no string, or too long for a token; milliseconds: -1 where the key has no ttl)
local value = redis.pcall('GET', KEYS[1])
if not value then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if value == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if type(value) == 'table' then
  -- A key that is no string is held by someone else; any other error is an error.
  if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then return value end
  value = ''
end
-- A replica may not know yet. It is not the one to ask, and says so when it is to write; this write changes nothing.
local write = redis.pcall('SET', KEYS[1], '', 'NX', 'PX', 1)
if type(write) == 'table' and write.err and string.find(write.err, 'READONLY', 1, true) then return write end
-- Tokens are short; another program's value may be long, and tells nothing.
if #value > 256 then value = '' end
return {value, redis.call('PTTL', KEYS[1])}
