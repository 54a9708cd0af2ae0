-- SPDX-License-Identifier: MIT
-- Heavy strings for lua: builds, joins, sorts, substitutes, grows and drops texts and tables, with
-- both modes of the collector. Prints one line a part, the same in every run.
local words = tonumber(arg[1] or 100000)
local seed = 12345
local function rnd(limit)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed % limit
end

local function fold(text)
  local h = 7
  for i = 1, #text, 97 do
    h = (h * 31 + text:byte(i)) % 4294967291
  end
  return h
end

local count, text, sum = {}, {}, 0
for i = 1, words do
  local key = "k" .. rnd(20000)
  count[key] = (count[key] or 0) + 1
  text[key] = (text[key] or "") .. string.rep(string.char(97 + rnd(26)), 1 + rnd(40)) .. " "
  if i % 3 == 0 then text["k" .. rnd(20000)] = nil end
  sum = sum + i
end
print("sum " .. sum)
local total, keys = 0, {}
for key, n in pairs(count) do
  total = total + n
  keys[#keys + 1] = key
end
print("words " .. total)
table.sort(keys)
local parts = {}
for _, key in ipairs(keys) do parts[#parts + 1] = key .. "=" .. (text[key] or "") end
local joined = table.concat(parts, "\n")
print("joined " .. #joined .. " " .. fold(joined))
local swapped, times = joined:gsub("([a-m]+)([n-z]+)", "<%2%1>")
print("swapped " .. #swapped .. " " .. times .. " " .. fold(swapped))
local distinct, found = {}, 0
for word in joined:gmatch("%w+") do
  if not distinct[word] then
    distinct[word] = true
    found = found + 1
  end
end
print("distinct " .. found)

-- Every step makes a new string, a little longer than the last.
local grown = ""
for i = 1, 6000 do grown = grown .. string.pack(">I4", i) end
print("grown " .. #grown .. " " .. fold(grown))

for round, mode in ipairs({ "generational", "incremental", "generational" }) do
  collectgarbage(mode)
  local nodes, kept = {}, 0
  for i = 1, 60000 do
    local node = { id = i, name = ("node " .. i):rep(i % 7), list = {} }
    for k = 1, i % 20 do node.list[k] = k end
    nodes[i % 10000 + 1] = node
  end
  for _, node in pairs(nodes) do kept = kept + #node.list + #node.name end
  nodes = nil
  collectgarbage()
  print("round" .. round .. " " .. kept)
end

local made = 0
for _ = 1, 2000 do
  local co = coroutine.wrap(function()
    local mine = {}
    for k = 1, 50 do
      mine[k] = ("c"):rep(k)
      made = made + 1
      coroutine.yield()
    end
  end)
  for _ = 1, 50 do co() end
end
print("coroutines " .. made)
print("end ok")
