-- What `ask` and `leave` share; they name the place where it stands. It is not at their beginning, for a function costs
-- time to be made, and who meets no queue needs none. Numbers are given to commands as strings, for to format one takes
-- as long as the command.
--
-- The queue of a key is a sorted set: by their tickets, entries of the form `ttl:ear.wait:token`, which is all that is
-- needed to give a waiter the key and to tell it. The channel that it hears is named like the queue, with the ear for the
-- last word. The ticket of a waiter that cannot be told has a half added to it: it is offered the key untold, and looks
-- for itself.

-- Gives the key to the first waiter that lives, for the time of an offer, and tells it; its next `ask` makes that
-- a lease. Those before it whom nobody hears are dropped, of which there may be many: so many in one go, that the server
-- is not kept from its work. `first`: the first entry and its ticket. `own`, `before`: the caller's own entry and ticket,
-- behind which nobody is offered anything. Returns whether somebody has the key now.
local function offer(first, own, before)
  -- Redis 6.2 with lua-replicate-commands off would write nothing after PUBSUB.
  if redis.replicate_commands then redis.replicate_commands() end
  for _ = 1, {DROPPED_AT_ONCE} do
    local entry, ticket = first[1], tonumber(first[2])
    if not entry or entry == own or (before and math.floor(ticket) >= before) then return false end
    local ttl, ear, wait, token = string.match(entry, '^(%d+):(%x+)%.(%d+):(.*)$')
    -- A place of the very token that gives the key away is what a late request has left behind.
    local lives = ear and token ~= ARGV[1]
    local is_heard = lives and ticket % 1 == 0.5
    if lives and not is_heard then
      local channel = string.sub(KEYS[2], 1, -6) .. ear
      -- Not by the count that PUBLISH returns: whoever subscribes to a pattern would count.
      local heard = redis.pcall('PUBSUB', 'NUMSUB', channel)
      is_heard = not heard.err and heard[2] > 0
      -- Who may not ask or tell leaves the queue to those who may.
      if heard.err or (is_heard and type(redis.pcall('PUBLISH', channel, wait)) == 'table') then return false end
    end
    -- Taken out before the key is set: on a server whose memory is full, a script may set only what it has freed.
    if type(redis.pcall('ZREM', KEYS[2], entry)) == 'table' then return false end
    if is_heard then
      local lasts = tonumber(ttl) < {OFFER} and ttl or '{OFFER}'
      return redis.pcall('SET', KEYS[1], token, 'PX', lasts).ok ~= nil
    end
    first = redis.pcall('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES')
  end
  return false
end
