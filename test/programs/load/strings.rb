# SPDX-License-Identifier: MIT
# Heavy strings for ruby: builds, splits, joins, sorts, substitutes, grows and drops texts, in
# threads and in a forked child. Prints one line a part, the same in every run.
words = (ARGV[0] || 100_000).to_i
$seed = 12345

def rnd(limit)
  $seed = ($seed * 1103515245 + 12345) % 2147483648
  $seed % limit
end

# A checksum of our own: extensions would pull in other libraries.
def fold(text)
  text.each_byte.each_slice(64).reduce(7) { |h, part| (h * 31 + part.sum) % 4294967291 }
end

count = Hash.new(0)
text = Hash.new { |hash, key| hash[key] = +'' }
sum = 0
1.upto(words) do |i|
  key = "k#{rnd(20000)}"
  count[key] += 1
  text[key] << (97 + rnd(26)).chr * (1 + rnd(40)) << ' '
  text.delete("k#{rnd(20000)}") if i % 3 == 0
  sum += i
end
puts "sum #{sum}"
puts "words #{count.values.sum}"
joined = count.keys.sort.map { |key| "#{key}=#{text.fetch(key, '')}" }.join("\n")
puts "joined #{joined.length} #{fold(joined)}"
parts = joined.split(/[ =\n]/)
puts "parts #{parts.length} #{parts.map { |x| x[0, 3] }.uniq.length}"
swapped = joined.gsub(/([a-m]+)([n-z]+)/) { "<#{$2}#{$1}>" }
puts "swapped #{swapped.length} #{fold(swapped)}"

# One string that grows by small steps to megabytes, then loses its middle.
grown = ''.b
1.upto(words) { |i| grown << [i].pack('N') * 4 }
grown[grown.length / 4, grown.length / 2] = ''
puts "grown #{grown.length} #{fold(grown)}"

# Structures of many small objects; the collector frees them in bulk.
6.times do |round|
  tree = (1..30_000).map { |i| { id: i, list: Array.new(i % 20, i), name: "node #{i}" * (i % 7) } }
  tree.select! { |node| node[:id] % 5 != round % 5 }
  puts "tree#{round} #{tree.length} #{tree.sum { |node| node[:list].length }}"
  GC.start if round.odd?
end
GC.compact if GC.respond_to?(:compact) && RUBY_PLATFORM =~ /x86_64|aarch64/

results = (1..4).map do |n|
  Thread.new { (1..20_000).map { |i| "#{n}:#{i}:#{joined[i % 1000, 50]}" }.count { |x| !x.empty? } }
end
puts "threads #{results.map(&:value).join(' ')}"
symbols = (1..20_000).map { |i| "symbol#{i}".to_sym }.uniq.length
puts "symbols #{symbols}"
child = fork do
  count.clear
  GC.start
  exit!((1..20_000).map { |i| "x#{i}" * 10 }.length == 20_000)
end
Process.wait(child)
puts "fork #{$?.success?}"
puts 'end ok'
