-- What takes the place of PUBSUB NUMSUB and PUBLISH in a cluster. A waiter hears a channel of its slot, where the server has
-- such (Redis 7.0), or a plain one of the node that serves it; others may come from an older version.
local function numsub(channel)
  local sharded = redis.pcall('PUBSUB', 'SHARDNUMSUB', channel)
  local plain = redis.pcall('PUBSUB', 'NUMSUB', channel)
  if sharded.err then
    -- Who may not ask for one kind does not know from the other that nobody listens.
    local is_known = not plain.err and (plain[2] > 0 or string.find(sharded.err, 'nknown', 1, true))
    return is_known and plain or sharded
  end
  return {channel, sharded[2] + (plain[2] or 0)}
end
local function publish(channel, wait)
  local told = redis.pcall('SPUBLISH', channel, wait)
  if type(told) == 'number' and told > 0 then return told end
  return redis.pcall('PUBLISH', channel, wait)
end
