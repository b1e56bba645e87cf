-- What `ask` and `leave` share; they name the place where it stands. It is not at their beginning, for a function costs
-- time to be made, and who meets no queue needs none. Numbers are given to commands as strings, for to format one takes
-- as long as the command.
--
-- The queue of a key is a sorted set: by their tickets, entries of the form `ttl:ear.wait:token`, which is all that is
-- needed to give a waiter the key and to tell it. The channel that it hears is named like the queue, with the ear for the
-- last word. The ticket of a waiter that cannot be told, and looks for itself, has a half added to it.

-- How many hear a channel. Not by the count that PUBLISH returns, for whoever subscribes to a pattern would count; but
-- who may not ask must take that.
--[[channels.lua]]
local function hearers(ear, wait)
  local channel = string.sub(KEYS[2], 1, -6) .. ear
  local count = redis.pcall('PUBSUB', 'NUMSUB', channel)
  if count.err then return wait and redis.pcall('PUBLISH', channel, wait) or 1 end
  -- Who may not tell it has given it the key all the same: it will look.
  if wait and count[2] > 0 then redis.pcall('PUBLISH', channel, wait) end
  return count[2]
end

-- Whether one of the next in the queue is told of offers.
local function is_anybody_told()
  local others = redis.pcall('ZRANGE', KEYS[2], '1', '100', 'WITHSCORES')
  for i = 1, #others, 2 do
    local ear = tonumber(others[i + 1]) % 1 == 0 and string.match(others[i], '^%d+:(%x+)')
    if ear and hearers(ear) > 0 then return true end
  end
  return false
end

-- Gives the key to the first waiter that lives, for the time of an offer, and tells it; its next `ask` makes that
-- a lease. Those before it whom nobody hears are dropped, of which there may be many: so many in one go, that the server
-- is not kept from its work. One that looks for itself is offered the key where others would be told, and would overtake
-- it; where nobody is, the key is free for who looks first. `first`: the first entry and its ticket. `own`, `before`,
-- `is_told`: the caller's own entry and ticket, behind which nobody is offered anything, and whether it is told. Returns
-- whether somebody has the key now.
local function offer(first, own, before, is_told)
  -- Redis 6.2 with lua-replicate-commands off would write nothing after PUBSUB.
  if redis.replicate_commands then redis.replicate_commands() end
  for _ = 1, {DROPPED_AT_ONCE} do
    local entry, ticket = first[1], tonumber(first[2])
    if not entry or entry == own or (before and math.floor(ticket) >= before) then return false end
    local ttl, ear, wait, token = string.match(entry, '^(%d+):(%x+)%.(%d+):(.*)$')
    local looks = ticket % 1 == 0.5
    local lasts = looks and '{OFFER_UNTOLD}' or '{OFFER}'
    local lives = false
    -- A place of the very token that gives the key away is what a late request has left behind.
    if ear and token ~= ARGV[1] then
      if looks and not is_told and not is_anybody_told() then return false end
      local heard = looks and 1 or hearers(ear, wait)
      -- Who may neither ask nor tell leaves the queue to those who may.
      if type(heard) == 'table' then return false end
      lives = heard > 0
    end
    -- Taken out before the key is set: on a server whose memory is full, a script may set only what it has freed.
    if type(redis.pcall('ZREM', KEYS[2], entry)) == 'table' then return false end
    if lives then
      return redis.pcall('SET', KEYS[1], token, 'PX', tonumber(ttl) < tonumber(lasts) and ttl or lasts).ok ~= nil
    end
    first = redis.pcall('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES')
  end
  return false
end
