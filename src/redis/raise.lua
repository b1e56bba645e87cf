-- Remembers a fence that another node of a quorum gave, unless a greater one is remembered.
-- KEYS[1]  the key of the last fence
-- ARGV     the fence, and for how many milliseconds it is remembered
-- returns  1
local last = tonumber(redis.call('GET', KEYS[1]) or '')
if not last or last < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return 1
