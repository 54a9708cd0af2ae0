% SPDX-License-Identifier: MIT
% Matrices, cells, strings, structures, sparse matrices, and the tests that come with some functions.
rand ("seed", 7); randn ("seed", 7);
a = reshape (mod ((1:160000) * 7919, 1009), 400, 400) + 1000 * eye (400);
printf ("%.6g %.6g\n", sum ((a \ (a * ones (400, 1)))), norm (a));
c = cell (1, 20000);
for i = 1:20000
  c{i} = sprintf ("%d,%s", i, repmat ("x", 1, mod (i, 30)));
end
s = strjoin (c, ";");
printf ("%d %d %d\n", length (s), numel (strsplit (s, ";")), numel (regexp (s, "(\\d+)9,x")));
m = containers.Map ();
for i = 1:3000
  m(sprintf ("k%d", mod (i * 7919, 1009))) = i;
end
printf ("%d %d\n", m.Count, sum (cell2mat (m.values ())));
p = speye (2000) * 4 + sparse (1:1999, 2:2000, 1, 2000, 2000);
printf ("%.8g %d\n", sum (p \ ones (2000, 1)), nnz (p * p'));
printf ("%.8g\n", sum (abs (fft (1:100000))));
t = struct ("a", num2cell (1:5000));
printf ("%d\n", sum ([t.a]));
for f = {"cellfun", "strsplit", "interp1", "inputParser", "sortrows", "regexprep", "strread", "polyfit"}
  [ok, total] = test (f{1}, "quiet");
  printf ("%s %d\n", f{1}, ok);
end
