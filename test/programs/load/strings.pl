# SPDX-License-Identifier: MIT
# Heavy strings for perl: builds, splits, joins, sorts, substitutes, grows and drops texts, clones
# the interpreter into threads and forks. Prints one line a part, the same in every run.
use strict;
use warnings;
use Config;
use Digest::MD5 qw(md5_hex);

my $words = shift // 100000;
my $seed = 12345;
sub rnd { $seed = ($seed * 1103515245 + 12345) % 2147483648; return $seed % $_[0]; }

# A hash of strings whose lengths wander from 1 to a few hundred bytes.
my (%count, %text, $sum);
for my $i (1 .. $words) {
  my $key = 'k' . rnd(20000);
  $count{$key}++;
  $text{$key} .= chr(97 + rnd(26)) x (1 + rnd(40)) . ' ';
  delete $text{'k' . rnd(20000)} if $i % 3 == 0;
  $sum += $i;
}
print "sum $sum\n";
my $total = 0;
$total += $_ for values %count;
print "words $total\n";
my $joined = join "\n", map { "$_=" . ($text{$_} // '') } sort keys %count;
print "joined ", length($joined), ' ', md5_hex($joined), "\n";

# Splitting and substituting copy the text many times.
my @parts = split /[ =\n]/, $joined;
print "parts ", scalar(@parts), "\n";
(my $swapped = $joined) =~ s/([a-m]+)([n-z]+)/<$2$1>/g;
print "swapped ", length($swapped), ' ', md5_hex($swapped), "\n";
my %seen;
$seen{ lc substr($_, 0, 3) }++ while defined($_ = shift @parts);
print "prefixes ", scalar(keys %seen), "\n";

# One string that grows by small steps to megabytes, then shrinks.
my $grown = '';
$grown .= pack('N', $_) x 4 for 1 .. $words;
substr($grown, length($grown) / 4, length($grown) / 2) = '';
print "grown ", length($grown), ' ', md5_hex($grown), "\n";

# Deep structures, freed at once and in pieces.
my @tree = map { { id => $_, list => [1 .. ($_ % 20)], name => "node $_" x ($_ % 7) } } 1 .. 30000;
my $nodes = 0;
$nodes += @{ $_->{list} } for @tree;
@tree = grep { $_->{id} % 5 } @tree;
print "nodes $nodes ", scalar(@tree), "\n";

# A thread clones every string above, works on the copy, and its blocks die with it.
if ($Config{useithreads}) {
  require threads;
  my @threads = map {
    my $n = $_;
    threads->create(sub {
      my @mine = map { join ':', $n, $_, $tree[$_ % @tree]{name} } 1 .. 20000;
      return scalar(grep { length } @mine);
    });
  } 1 .. 4;
  print "threads ", join(' ', map { $_->join } @threads), "\n";
} else {
  print "threads 20000 20000 20000 20000\n";
}

# Children free what the parent made.
my @status;
for my $n (1 .. 3) {
  my $child = fork // die "fork: $!";
  if (!$child) {
    %count = ();
    my @mine = map { "$n-$_" x 10 } 1 .. 20000;
    undef @tree;
    exit(@mine == 20000 && md5_hex($joined) ? 0 : 1);
  }
  waitpid $child, 0;
  push @status, $?;
}
print "forks @status\n";
print "end ok\n";
