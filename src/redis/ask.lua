-- Takes the key if it is free. If the token holds it already, its ttl starts anew. With a place in the queue, those
-- before it come first, and who does not get the key is in the queue afterwards.
-- KEYS     the key, its queue; of who wants a fence also the key of the last one
-- ARGV     token, ttl in milliseconds; of who may wait also the entry in the queue, whether it can be told ('1' or '0'),
--          and its ticket, if it has one
-- returns  1, or the fence: the token holds the key
--          {value, milliseconds left}: someone else does, and we are in no queue
--          {value, milliseconds left, ticket, number of those before it, whether it is heard: 1, 0, or 2 where that
--          cannot be known}: we wait
--          (value: empty where it is no string, or too long for a token; milliseconds: -1 where the key has no ttl)
local token, ttl, entry, is_told, ticket = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', ARGV[5]
local time, is_new, value
if KEYS[3] then
  -- Redis 6.2 with lua-replicate-commands off would write nothing after TIME.
  if redis.replicate_commands then redis.replicate_commands() end
  time = redis.call('TIME')
  -- Who stands in no line takes what is free at once: to look first takes as long as to take.
  is_new = not entry and redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl)
end
if not is_new then value = redis.pcall('GET', KEYS[1]) end
local is_ours = is_new or value == token

if not is_ours and not value then
  local first = entry and redis.pcall('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES')
  local is_offered = false
  if first and first[1] then
    --[[offer.lua]]
    is_offered = offer(first, entry, tonumber(ticket or ''), is_told)
    if not is_offered then redis.pcall('ZREM', KEYS[2], entry) end
  end
  is_ours = not is_offered
  if is_offered then value = redis.call('GET', KEYS[1]) end
end

if is_ours then
  local fence = 1
  if time then
    -- Formatted exactly when it is handed over as a number, which costs less than to do it here.
    fence = time[1] * 1000000 + time[2]
    local kept = ttl + {REMEMBERED}
    local last = redis.pcall('SET', KEYS[3], fence, 'PX', kept, 'GET')
    local number = last and (tonumber(last) or 2^53)
    if number and number >= fence then
      -- The clock is behind the last one; or that is none: what is no number, or no string, or not exact.
      fence = number + 1
      local is_one = fence < 2^53 and fence % 1 == 0
      if type(last) == 'string' then redis.call('SET', KEYS[3], is_one and fence or last, 'PX', kept) end
      if not is_one then
        -- What is refused here has taken nothing.
        if is_new then redis.call('DEL', KEYS[1]) end
        if type(last) == 'table' and not string.find(last.err, 'WRONGTYPE', 1, true) then return last end
        return redis.error_reply('ERR the key that keeps the last fence, and ends in ":redis_lock:fence", holds no fence')
      end
    end
  end
  if value then
    redis.call('PEXPIRE', KEYS[1], ttl)
    if entry then redis.pcall('ZREM', KEYS[2], entry) end
  elseif not is_new then
    redis.call('SET', KEYS[1], token, 'PX', ttl)
  end
  return fence
end

if type(value) == 'table' then
  -- A key that is no string is held by someone else; any other error is an error.
  if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  value = ''
end
-- Tokens are short; another program's value may be long, and tells nothing.
if #value > 256 then value = '' end

if entry then
  local joined
  local is_new, is_first = not ticket, false
  if is_new then
    -- The time, so that who comes back to its place is before those who came meanwhile; but never before the last one.
    -- Redis 6.2 with lua-replicate-commands off would write nothing after TIME.
    if redis.replicate_commands then redis.replicate_commands() end
    local time = redis.pcall('TIME')
    local last = tonumber(redis.pcall('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2])
    ticket = time[2] and time[1] * 1000000 + time[2] or 1
    -- What is no ticket is not ours.
    if last and last >= 0 and last < 2^52 then ticket = math.max(ticket, math.floor(last) + 1) end
    is_first = not last
    joined = redis.pcall('ZADD', KEYS[2], 'NX', is_told and ticket or ticket + 0.5, entry)
    if joined == 0 then
      -- It was in the queue already: the answer to an earlier request was lost.
      ticket = math.floor(tonumber(redis.pcall('ZSCORE', KEYS[2], entry)) or ticket)
      redis.pcall('ZADD', KEYS[2], is_told and ticket or ticket + 0.5, entry)
    end
  else
    joined = redis.pcall('ZADD', KEYS[2], is_told and ticket or ticket .. '.5', entry)
  end
  -- The looks of those who wait keep the queue.
  if type(joined) == 'number' and (is_first or not is_new) then redis.pcall('PEXPIRE', KEYS[2], '{QUEUE_TTL}') end
  local before = redis.pcall('ZRANK', KEYS[2], entry)
  if type(joined) == 'number' and type(before) == 'number' then
    -- Who is new has just been told that it listens.
    local heard = 1
    if not is_new then
      --[[channels.lua]]
      local count = redis.pcall('PUBSUB', 'NUMSUB', string.sub(KEYS[2], 1, -6) .. string.match(entry, '^%d+:(%x+)'))
      heard = count.err and 2 or math.min(count[2], 1)
    end
    return {value, redis.call('PTTL', KEYS[1]), tonumber(ticket), before, heard}
  end
  -- No queue for us: a user that may not use it, a server that has no such command, or a key of another kind. Anything
  -- else is an error.
  redis.pcall('ZREM', KEYS[2], entry)
  for _, reply in ipairs({joined, before}) do
    local trouble = type(reply) == 'table' and reply.err
    local is_refusal = false
    -- As the versions of Redis and Valkey say it.
    for _, words in ipairs({'NOPERM', 'ACL failure', 'The user executing the script', 'nknown', 'WRONGTYPE'}) do
      is_refusal = is_refusal or (trouble and string.find(trouble, words, 1, true))
    end
    if trouble and not is_refusal then return redis.error_reply(trouble) end
  end
end
-- A replica may not know yet. It is not the one to ask, and says so when it is to write; this write changes nothing.
local write = redis.pcall('SET', KEYS[1], '', 'NX', 'PX', 1)
if type(write) == 'table' and write.err and string.find(write.err, 'READONLY', 1, true) then return write end
return {value, redis.call('PTTL', KEYS[1])}
