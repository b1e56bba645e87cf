-- What `ask` and `leave` share. The queue of a key is a sorted set: by their tickets, entries of the form
-- `ttl:ear.wait:token`, which is all that is needed to give a waiter the key and to tell it. The channel that a waiter
-- hears is named like the queue, with the waiter's ear for its last word.

-- The error, if it is one.
local function failed(reply) return type(reply) == 'table' and reply.err end

-- May this user not do it? Then there is no queue for it, and everything else goes on.
local function refused(trouble)
  return string.find(trouble, 'NOPERM', 1, true) or string.find(trouble, 'The user executing the script', 1, true)
end

local function channel(ear) return string.sub(KEYS[2], 1, -6) .. ear end

-- Whether anybody hears it. Not by the count that PUBLISH returns: whoever subscribes to a pattern would count.
local function heard(ear)
  local count = redis.pcall('PUBSUB', 'NUMSUB', channel(ear))
  if failed(count) then return nil end
  return tonumber(count[2]) > 0
end

-- Gives the key to the first waiter that can be told, for the time of an offer, and tells it; its next `ask` makes that
-- a lease. Those before it who cannot be told are dropped, of which there may be many: so many in one go, that the server
-- is not kept from its work. Stops at the caller's own entry, and before its ticket. Returns the token it gave the key to.
local function offer(claim, own, before)
  for _ = 1, 1000 do
    local first = redis.pcall('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    local entry, ticket = first[1], first[2]
    if not entry or entry == own or (before and tonumber(ticket) >= before) then return nil end
    -- Redis 6.2 with lua-replicate-commands off would refuse writes after NUMSUB.
    if redis.replicate_commands then redis.replicate_commands() end
    local ttl, ear, wait, token = string.match(entry, '^(%d+):(%x+)%.(%d+):(.*)$')
    local hears = ear and heard(ear)
    if hears == nil and ear then return nil end
    -- Told before anything is changed: who may not tell leaves the queue to those who may.
    if hears and failed(redis.pcall('PUBLISH', channel(ear), wait)) then return nil end
    -- Taken out before the key is set: on a server whose memory is full, a script may set only what it has freed.
    if failed(redis.pcall('ZREM', KEYS[2], entry)) then return nil end
    if hears then
      local set = redis.pcall('SET', KEYS[1], token, 'PX', math.min(ttl, claim))
      return not failed(set) and token
    end
  end
end
