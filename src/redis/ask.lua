-- Takes the key if it is free. If the token holds it already, its ttl starts anew. With a place in the queue, those
-- before it come first, and who does not get the key is in the queue afterwards.
-- KEYS     the key, its queue
-- ARGV     token, ttl in milliseconds, entry in the queue or '', ticket or '', the longest offer and the queue's ttl in
--          milliseconds
-- returns  1: the token holds the key
--          {value, milliseconds left}: someone else does, and we are in no queue
--          {value, milliseconds left, ticket, number of those before it, whether it is heard: 1 or 0}: we wait
--          (value: empty where it is no string, or too long for a token; milliseconds: -1 where the key has no ttl)
local token, ttl, entry, ticket = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local value = redis.pcall('GET', KEYS[1])
if value == token then
  redis.call('PEXPIRE', KEYS[1], ttl)
  if entry ~= '' then redis.pcall('ZREM', KEYS[2], entry) end
  return 1
end
if not value and entry ~= '' then value = offer(ARGV[5], entry, tonumber(ticket)) end
if not value then
  if entry ~= '' then redis.pcall('ZREM', KEYS[2], entry) end
  redis.call('SET', KEYS[1], token, 'PX', ttl)
  return 1
end
if failed(value) then
  -- A key that is no string is held by someone else; any other error is an error.
  if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then return value end
  value = ''
end
-- Tokens are short; another program's value may be long, and tells nothing.
if #value > 256 then value = '' end

if entry ~= '' then
  if ticket == '' then
    local last = redis.pcall('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
    ticket = (tonumber(last[2]) or 0) + 1
  end
  local joined = redis.pcall('ZADD', KEYS[2], 'NX', ticket, entry)
  local score, ahead = redis.pcall('ZSCORE', KEYS[2], entry), redis.pcall('ZRANK', KEYS[2], entry)
  local trouble = failed(joined) or failed(score) or failed(ahead)
  if not trouble then
    redis.call('PEXPIRE', KEYS[2], ARGV[6])
    local ear = string.match(entry, '^%d+:(%x+)')
    return {value, redis.call('PTTL', KEYS[1]), tonumber(score), ahead, heard(ear) == false and 0 or 1}
  end
  -- A user that may not use it, or a key of another kind: no queue for us.
  if not refused(trouble) and string.sub(trouble, 1, 9) ~= 'WRONGTYPE' then return redis.error_reply(trouble) end
end
-- A replica may not know yet. It is not the one to ask, and says so when it is to write; this write changes nothing.
local write = redis.pcall('SET', KEYS[1], '', 'NX', 'PX', 1)
if failed(write) and string.find(write.err, 'READONLY', 1, true) then return write end
return {value, redis.call('PTTL', KEYS[1])}
