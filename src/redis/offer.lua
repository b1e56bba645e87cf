-- What `ask` and `leave` share; they name the place where it stands. It is not at their beginning, for a function costs
-- time to be made, and who meets no queue needs none.
--
-- The queue of a key is a sorted set: by their tickets, entries of the form `ttl:ear.wait:token`, which is all that is
-- needed to give a waiter the key and to tell it. The channel that it hears is named like the queue, with the ear for the
-- last word.

-- Gives the key to the first waiter that can be told, for the time of an offer, and tells it; its next `ask` makes that
-- a lease. Those before it who cannot be told are dropped, of which there may be many: so many in one go, that the server
-- is not kept from its work. `popped`: the first entry and its ticket, which are out of the queue already. That comes
-- before the key is set: on a server whose memory is full, a script may set only what it has freed. `own`, `before`: the
-- caller's own entry and ticket, behind which nobody is offered anything. Returns whether somebody has the key now.
local function offer(popped, claim, own, before)
  local beside = string.sub(KEYS[2], 1, -6)
  for dropped = 0, 999 do
    if dropped > 0 then popped = redis.pcall('ZPOPMIN', KEYS[2]) end
    local entry, ticket = popped[1], popped[2]
    if not entry or entry == own then return false end
    local ttl, ear, wait, token = string.match(entry, '^(%d+):(%x+)%.(%d+):(.*)$')
    local is_behind = before and tonumber(ticket) >= before
    if ear or is_behind then
      -- Not the count that PUBLISH returns: whoever subscribes to a pattern would count as heard.
      local heard = is_behind or redis.pcall('PUBSUB', 'NUMSUB', beside .. ear)
      local is_told = not is_behind and not heard.err and heard[2] > 0 and redis.pcall('PUBLISH', beside .. ear, wait)
      if type(is_told) == 'number' then
        return redis.pcall('SET', KEYS[1], token, 'PX', math.min(ttl, claim)).ok ~= nil
      end
      if is_behind or heard.err or is_told then
        -- Who may not ask or tell leaves the queue to those who may.
        redis.pcall('ZADD', KEYS[2], ticket, entry)
        return false
      end
    end
  end
  return false
end
