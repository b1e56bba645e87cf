-- The end of a script whose token does not hold the key, which has this value.
-- A key that is no string is not ours; any other error is an error.
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
-- A replica may not know yet. It is not the one to ask, and says so when it is to write; this write changes nothing.
local write
if value then write = redis.pcall('SET', KEYS[1], '', 'NX', 'PX', 1) else write = redis.pcall('DEL', KEYS[1]) end
if type(write) == 'table' and write.err and string.find(write.err, 'READONLY', 1, true) then return write end
return 0
