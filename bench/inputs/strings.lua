-- SPDX-License-Identifier: MIT
-- Strings, tables and closures in Lua, each part checked. Argument: rounds.

local function words(count)
  local list = {}
  for i = 1, count do
    list[#list + 1] = string.format("word%d-%s", i, string.rep("ab", i % 13))
  end
  return list
end

local function join_and_split(list)
  local joined = table.concat(list, " ")
  local back = {}
  for word in joined:gmatch("%S+") do back[#back + 1] = word end
  assert(#back == #list and back[#back] == list[#list])
  return joined
end

local function count_letters(text)
  local counts = {}
  for letter in text:gmatch("%a") do counts[letter] = (counts[letter] or 0) + 1 end
  return counts
end

local function chain(count)
  local head = nil
  for i = 1, count do head = { value = i, next = head, show = function() return i end } end
  local sum = 0
  while head do
    sum = sum + head.show()
    head = head.next
  end
  assert(sum == count * (count + 1) // 2)
end

local rounds = tonumber(arg[1])
for _ = 1, rounds do
  local list = words(4000)
  local text = join_and_split(list)
  assert(count_letters(text).w == 4000)
  local swapped = text:gsub("(%a+)(%d+)", "%2%1")
  assert(#swapped == #text)
  chain(20000)
  table.sort(list)
  for i = 2, #list do assert(list[i - 1] <= list[i]) end
end
print("strings: all rounds right")
